//! Python packages that sandboxed code can import: installs them into environments, and hands the current environment
//! to sandboxes.
//!
//! Start at [`PythonEnvironments`], whose methods are the commands of `coracle env`. `make.rs` creates an environment,
//! `install.rs` fills it with `uv` or `pip`, and `base.rs` copies what the current one already has. [`packages`] returns
//! what sandboxes of this process use. The store knows the layout of the folders.
//!
//! Invariants: an environment is created aside and replaces the current one with a rename, or not at all. No code of a
//! package runs on this machine, unless builds are allowed. An environment is not removed while a process uses it. The
//! crate prints nothing: callers show the [`Event`]s.

mod base;
mod environments;
mod error;
mod in_use;
mod install;
mod installed;
mod make;
mod progress;
mod requirement;

pub use environments::{Listing, PythonEnvironments};
pub use error::PackageError;
pub use in_use::{current, packages};
pub use install::Builds;
pub use progress::Event;
