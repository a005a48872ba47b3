//! Sealed places to run code in. Knows nothing of tools, users or MCP.
//!
//! Start at [`Backend`]: it opens a [`Sandbox`], which is a channel of [`coracle_protocol`] frames, two output streams
//! and the means to end it. [`NativeBackend`] makes sandboxes out of Linux namespaces, without root, daemon or image.
//!
//! Invariants: a sandbox is never used for two owners; a sandbox that is dropped is killed; what a sandbox cannot
//! enforce is said in [`Enforced`](coracle_types::Enforced), never glossed over.

mod backend;
mod native;
mod python;

pub use backend::{Backend, Cause, Control, Exit, Sandbox, SandboxError, Spec};
pub use native::{
    Environment, FolderUsage, ForkedLauncher, LAUNCHER_ARGUMENT, MOST_PRELOADED, NativeBackend, NativeConfig,
    NativeReport, OLDEST_KERNEL, Packages, folder_usage, fork_launcher, hear_of_children, kernel_version,
    launcher_main, remove_folder,
};
pub use python::{PythonError, fits, interpreter};
