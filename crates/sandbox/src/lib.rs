//! Sandboxes for code. This crate knows nothing about tools, users or MCP.
//!
//! Start at [`Backend`]: it opens a [`Sandbox`], which consists of a channel of [`coracle_protocol`] frames, two output
//! streams and a handle to end it. [`NativeBackend`] creates sandboxes with Linux namespaces, without root, daemon or
//! image.
//!
//! Invariants: a sandbox is never used for two owners, and it is killed on drop. A limit that is not enforced is
//! reported as such in [`Enforced`](coracle_types::Enforced).

mod backend;
mod connections;
mod native;
mod place;
mod program;
mod python;

pub use backend::{Backend, Cause, Control, Exit, Network, PROXY, Sandbox, SandboxError, Spec};
pub use connections::Connections;
pub use native::{
    Environment, FolderUsage, ForkedLauncher, LAUNCHER_ARGUMENT, MOST_PRELOADED, NativeBackend, NativeConfig,
    NativeReport, OLDEST_KERNEL, Packages, folder_usage, fork_launcher, kernel_version, launcher_main, remove_folder,
    reset_sigchld,
};
pub use place::{Access, MOST_PLACES, Place};
pub use program::{Ended, Program};
pub use python::{PythonError, fits, interpreter};
