//! Sandboxes for code. This crate knows nothing about tools, users or MCP.
//!
//! Start at [`Backend`]: it opens a [`Sandbox`], which consists of a channel of [`coracle_protocol`] frames, two output
//! streams and a handle to end it. [`NativeBackend`] creates sandboxes with Linux namespaces, without root, daemon or
//! image. [`DockerBackend`] forks them in containers, one container for each user.
//!
//! Invariants: a sandbox is never used for two owners, and it is killed on drop. A limit that is not enforced is
//! reported as such in [`Enforced`](coracle_types::Enforced).

mod backend;
mod docker;
mod native;
mod python;

pub use backend::{Backend, Cause, Control, Exit, Sandbox, SandboxError, Spec};
pub use docker::image::{BuiltImage, IMAGE, ImageParts, build as build_image};
pub use docker::{DockerBackend, DockerConfig, DockerReport};
pub use native::{
    Environment, FolderUsage, ForkedLauncher, LAUNCHER_ARGUMENT, MOST_PRELOADED, NativeBackend, NativeConfig,
    NativeReport, OLDEST_KERNEL, Packages, folder_usage, fork_launcher, kernel_version, launcher_main, remove_folder,
    reset_sigchld,
};
pub use python::{PythonError, fits, interpreter};
