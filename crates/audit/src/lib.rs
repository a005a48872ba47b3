//! The audit log: an append-only, keyed and hash-chained log of executions, calls, decisions, approvals, sign-ins and
//! changes.
//!
//! Start at the trait [`AuditLog`]: [`FileLog`] writes below the data folder, [`MemoryLog`] is for tests, and [`NoLog`]
//! is for programs without an audit log. [`Event`] lists everything that can be recorded. [`verify`](FileLog::verify)
//! checks a log from its first record to its last.
//!
//! The files (`folder.rs`) are segments of JSON lines. Each record has the code (HMAC) of its predecessor and its own
//! (`line.rs`). The head (`head.rs`) is a small file that says where the log ends, so that a missing end is found. The
//! store remembers an earlier end (`anchor.rs`), so that a missing folder is found.
//!
//! Invariants: a record that was acknowledged survives the end of the process, and with [`Durability::Always`] that of
//! the machine. Several processes may append to the same log. An error leaves the log as it was, and the next attempt
//! starts afresh. Records contain identifiers, counts and keyed digests: never arguments, code, output or secrets.

mod anchor;
mod entry;
mod error;
mod file_log;
mod folder;
mod head;
mod keys;
mod line;
mod log;
mod mark;
mod memory;
mod outbox;
mod patience;
mod read;
mod record;
mod recovery;
mod retention;
mod syncing;
mod verify;
mod writer;

pub use anchor::{OpenStore, StoreSource};
pub use entry::{AccountChange, Digest, Entry, Event, KeyChange, SignInMethod, Verdict};
pub use error::AuditError;
pub use file_log::{Durability, FileLog, FileLogConfig};
pub use log::{AuditLog, NoLog};
pub use mark::{Mark, MarkError};
pub use memory::MemoryLog;
pub use read::Filter;
pub use record::Record;
pub use verify::{Problem, Report};
