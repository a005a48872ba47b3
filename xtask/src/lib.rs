//! Developer commands. `cargo xtask help` lists them.
//!
//! Start reading at `commands.rs`, which has one module per command. The rules of the repository (`directions`,
//! `architecture`, `circles`, `unsafe_code`, `licences`, `tidy`, `documents`, `generated`) are plain functions from data
//! to a list of violations, so that `cargo xtask check` and the tests in `tests/` use the same code.
//!
//! **Invariant:** `xtask` depends on none of the crates in `crates/`, so that it still builds and can report problems
//! when they do not build.

mod architecture;
mod book;
mod circles;
mod commands;
mod configuration;
mod directions;
mod dist;
mod documents;
mod generated;
mod licences;
mod metadata;
mod needs;
mod skipped;
mod steps;
mod test_environment;
mod test_servers;
mod test_times;
mod tidy;
mod unsafe_code;

pub use architecture::architecture_violations;
pub use circles::circle_violations;
pub use commands::{names as command_names, run};
pub use directions::direction_violations;
pub use documents::document_violations;
pub use generated::reference_violations;
pub use licences::licence_violations;
pub use metadata::{Dependency, DependencyKind, Metadata, Package, Resolve, repository};
pub use tidy::{TidyReport, tidy_report};
pub use unsafe_code::unsafe_violations;
