use crate::connections::Connections;
use crate::python::PythonError;
use async_trait::async_trait;
use coracle_protocol::FrameBuffer;
use coracle_types::{Enforced, Limits};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::PathBuf;
use tokio::io::{AsyncRead, AsyncWrite};

/// Why no sandbox could be created.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SandboxError {
    /// The workspace is missing, not a folder, or not usable.
    #[error("workspace {path:?}: {reason}")]
    Workspace {
        /// The requested folder.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// There is no usable interpreter.
    #[error(transparent)]
    Python(#[from] PythonError),
    /// This machine does not support the required isolation.
    #[error("full isolation is required, but this machine lacks: {0}")]
    NotFull(String),
    /// Any other reason.
    #[error("cannot create a sandbox: {0}")]
    Unavailable(String),
}

/// What code can reach over the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// Nothing.
    #[default]
    Off,
    /// Only [`PROXY`], over TCP. The host accepts these connections as [`Sandbox::connections`], and decides about each
    /// request in them.
    Proxy,
}

/// The only network address that code can reach with [`Network::Proxy`], in a network namespace of its own.
pub const PROXY: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 3128);

/// The parameters of a sandbox.
#[derive(Clone, Debug)]
pub struct Spec {
    /// A host folder that becomes `/workspace`.
    pub workspace: PathBuf,
    /// A host folder that is visible read-only at `/coracle/servers`.
    pub servers: Option<PathBuf>,
    /// A host folder that is visible read-only at `/coracle/skills`.
    pub skills: Option<PathBuf>,
    /// The limits.
    pub limits: Limits,
    /// The network.
    pub network: Network,
}

/// Creates sandboxes.
///
/// Contract: a sandbox is fresh, sees nothing of any other, has its workspace at `/workspace`, and has sent `ready`.
/// The future of `open` may be dropped at any time, and leaves nothing behind.
#[async_trait]
pub trait Backend: Send + Sync + fmt::Debug {
    /// Opens a fresh sandbox.
    async fn open(&self, spec: Spec) -> Result<Sandbox, SandboxError>;

    /// Ends all sandboxes and the processes that create them. Returns when nothing is left.
    async fn shutdown(&self);
}

/// An open sandbox. It is killed on drop.
pub struct Sandbox {
    /// Frames to the guest.
    pub to_guest: Box<dyn AsyncWrite + Send + Sync + Unpin>,
    /// Frames from the guest.
    pub from_guest: Box<dyn AsyncRead + Send + Sync + Unpin>,
    /// Bytes from the guest that were read but not parsed.
    pub buffer: FrameBuffer,
    /// Standard output of the code.
    pub stdout: Box<dyn AsyncRead + Send + Sync + Unpin>,
    /// Standard error of the code.
    pub stderr: Box<dyn AsyncRead + Send + Sync + Unpin>,
    /// The connections that code opens to [`PROXY`], with [`Network::Proxy`].
    pub connections: Option<Connections>,
    /// The host folder behind `/artifacts`. It is removed with the sandbox, unless it was moved away.
    pub artifacts: PathBuf,
    /// How limits are enforced.
    pub enforced: Enforced,
    /// The value of [`LimitsReport::tier`](coracle_types::LimitsReport).
    pub tier: String,
    /// A handle to end the sandbox.
    pub control: Box<dyn Control>,
}

impl fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sandbox").field("tier", &self.tier).field("artifacts", &self.artifacts).finish_non_exhaustive()
    }
}

/// Controls the life of a sandbox. The sandbox is killed on drop.
#[async_trait]
pub trait Control: Send + Sync {
    /// Kills every process in the sandbox.
    fn kill(&self);

    /// Waits until the sandbox is gone, and returns how it ended.
    async fn exit(&mut self) -> Exit;

    /// Notes that a run begins.
    fn begin(&self) {}

    /// Notes that a run is over and another may follow: limits that were reached so far do not count for the next run.
    async fn rest(&mut self) {}

    /// The limits that were reached since the last call of `rest`, as far as is known.
    async fn causes(&mut self) -> Vec<Cause>;

    /// A limit that code has exceeded although it reported success. Called at the end of every run, so it must be
    /// quick.
    async fn passed(&mut self) -> Option<Cause> {
        None
    }
}

/// How a sandbox ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    /// The exit status, as in shells: 128 + N is signal N.
    pub status: i32,
    /// The limits that were reached.
    pub causes: Vec<Cause>,
}

/// A limit that a sandbox reached, as observed by the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The memory of the process tree.
    Memory {
        /// The number of bytes in use. `None` if the kernel enforced the limit.
        used: Option<u64>,
    },
    /// Processes and threads.
    Processes,
    /// The workspace or the artifacts, with a description.
    Disk(String),
    /// A step of the confinement failed, so no code has run.
    Setup(String),
    /// The sandbox was lost together with the process that created it. The code is not the cause.
    Lost(String),
}
