use crate::python::PythonError;
use async_trait::async_trait;
use coracle_protocol::FrameBuffer;
use coracle_types::{Enforced, Limits};
use std::fmt;
use std::path::PathBuf;
use tokio::io::{AsyncRead, AsyncWrite};

/// Why no sandbox could be had.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SandboxError {
    /// The workspace is missing, no folder, or not usable.
    #[error("workspace {path:?}: {reason}")]
    Workspace {
        /// What was asked for.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// No interpreter.
    #[error(transparent)]
    Python(#[from] PythonError),
    /// The machine does not give what was demanded.
    #[error("full isolation was demanded, but this machine lacks: {0}")]
    NotFull(String),
    /// Anything else that stands in the way.
    #[error("no sandbox: {0}")]
    Unavailable(String),
}

/// What a sandbox is wanted for.
#[derive(Clone, Debug)]
pub struct Spec {
    /// A folder of the host that becomes `/workspace`.
    pub workspace: PathBuf,
    /// A folder of the host that is seen, read-only, at `/coracle/servers`.
    pub servers: Option<PathBuf>,
    /// A folder of the host that is seen, read-only, at `/coracle/skills`.
    pub skills: Option<PathBuf>,
    /// What the sandbox may use.
    pub limits: Limits,
}

/// Makes sandboxes.
///
/// Contract: a sandbox is fresh, sees nothing of any other, has its workspace at `/workspace`, and has said `ready`.
/// `open` may be dropped at any time and leaves nothing behind.
#[async_trait]
pub trait Backend: Send + Sync + fmt::Debug {
    /// A fresh sandbox.
    async fn open(&self, spec: Spec) -> Result<Sandbox, SandboxError>;

    /// Ends all sandboxes and everything that makes them; returns when nothing is left.
    async fn shutdown(&self);
}

/// An open sandbox. Dropped, it is killed.
pub struct Sandbox {
    /// The guest's frames, to it.
    pub to_guest: Box<dyn AsyncWrite + Send + Sync + Unpin>,
    /// The guest's frames, from it.
    pub from_guest: Box<dyn AsyncRead + Send + Sync + Unpin>,
    /// What has been read of them and not been looked at.
    pub buffer: FrameBuffer,
    /// What the code prints.
    pub stdout: Box<dyn AsyncRead + Send + Sync + Unpin>,
    /// What it complains of.
    pub stderr: Box<dyn AsyncRead + Send + Sync + Unpin>,
    /// The folder of the host behind `/artifacts`: removed with the sandbox unless somebody moves it away.
    pub artifacts: PathBuf,
    /// How limits are held.
    pub enforced: Enforced,
    /// For [`LimitsReport::tier`](coracle_types::LimitsReport).
    pub tier: String,
    /// Ends it.
    pub control: Box<dyn Control>,
}

impl fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sandbox").field("tier", &self.tier).field("artifacts", &self.artifacts).finish_non_exhaustive()
    }
}

/// The life of a sandbox. Dropped, the sandbox is killed.
#[async_trait]
pub trait Control: Send + Sync {
    /// Kills every process in the sandbox, now.
    fn kill(&self);

    /// Waits until the sandbox is gone and says how it ended.
    async fn exit(&mut self) -> Exit;

    /// A run begins.
    fn begin(&self) {}

    /// A run is over and another may come: the limits that this one met are not that one's.
    async fn rest(&mut self) {}

    /// What limits it has run into since it last rested, as far as is known.
    async fn causes(&mut self) -> Vec<Cause>;

    /// A limit that code which says that all went well has passed. Called at the end of every run, so it must be quick.
    async fn passed(&mut self) -> Option<Cause> {
        None
    }
}

/// How a sandbox ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    /// As shells count: 128 + N is signal N.
    pub status: i32,
    /// Limits it has run into.
    pub causes: Vec<Cause>,
}

/// A limit that a sandbox ran into, as the host saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The memory of the tree.
    Memory {
        /// How many bytes were in use; `None` if the kernel gave no more than the limit.
        used: Option<u64>,
    },
    /// Processes and threads.
    Processes,
    /// The workspace or the artifacts; which, and how.
    Disk(String),
    /// The sandbox never became one: a step of its confinement failed.
    Setup(String),
    /// What had made the sandbox is gone, and the sandbox with it; the code did nothing wrong.
    Lost(String),
}
