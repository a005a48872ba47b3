//! The benchmarks of `coracle bench`: measures Coracle, its peers and the floor in one run.
//!
//! Start at [`run`]. Each benchmark is a module with its arguments: `sandbox.rs` is `bench sandbox`, `tools.rs` is
//! `bench tools`, `search.rs` is `bench search`, `tokens.rs` is `bench tokens`, `server.rs` is `bench server`, and
//! `pii.rs` is `bench pii`.
//! `timing.rs` and `process_tree.rs` measure times and memory, also for `coracle doctor`.
//!
//! Invariants: rows are measured in turns, so that noise affects them equally. What cannot be measured on this machine
//! is skipped with a reason. All files are in temporary folders, and nothing is left running. Peers are never installed
//! or downloaded, except Presidio by `bench pii --presidio`. The crate is part of a program: it has the arguments of its command, and `anyhow` for errors, because
//! they are only printed.

mod agent;
mod backend;
mod bar;
mod bench;
mod input_error;
mod outcome;
mod peers;
mod pii;
mod process_tree;
mod program;
mod sandbox;
mod search;
mod server;
mod setup;
mod tables;
mod test_servers;
mod timing;
mod tokens;
mod tools;

pub use bench::{BenchArguments, run};
pub use input_error::InputError;
pub use outcome::Outcome;
pub use process_tree::descendants;
pub use setup::{OwnTools, Setup};
pub use timing::{cold_command, median, milliseconds, refilled, timed};
