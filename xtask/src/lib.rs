//! Developers' commands: `cargo xtask help` lists them.
//!
//! Start reading at `commands.rs`, which has one module per command. The rules about the repository itself
//! (`directions`, `licences`, `tidy`, `readme`) are plain functions from data to a list of violations, so that
//! `cargo xtask check` and the ordinary tests in `tests/` ask the same code.
//!
//! **Invariant:** `xtask` depends on none of the crates in `crates/`, so that it still builds, and can say what is
//! wrong, when they do not.

mod commands;
mod directions;
mod dist;
mod generated;
mod licences;
mod metadata;
mod needs;
mod readme;
mod steps;
mod surroundings;
mod test_servers;
mod tidy;

pub use commands::run;
pub use directions::direction_violations;
pub use licences::licence_violations;
pub use metadata::{Dependency, DependencyKind, Metadata, Package, Resolve, repository};
pub use readme::readme_violations;
pub use tidy::{TidyReport, tidy_report};
