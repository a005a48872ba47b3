//! A sandbox in a container: its life, the watch on its folders, and how it ended.

use super::streams::Life;
use super::users::Lease;
use crate::native::disk::{Ledger, Most, Usage, When};
use crate::native::shell_status;
use crate::{Cause, Control, Exit};
use async_trait::async_trait;
use coracle_types::Limits;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

/// Maximum time until a killed sandbox is gone.
const GONE_WITHIN: Duration = Duration::from_secs(10);

/// Intervals between looks at the folders: while code runs, and between the runs of a session.
const RUNNING: Duration = Duration::from_millis(40);
const RESTING: Duration = Duration::from_millis(640);

const STATUS_KILLED: i32 = 9;

/// The folders that a sandbox may fill.
#[derive(Debug)]
pub(super) struct Folders {
    pub(super) workspace: PathBuf,
    pub(super) artifacts: PathBuf,
    pub(super) limits: Limits,
    /// The contents of the workspace when the sandbox was opened, if that was over the limit.
    pub(super) over: Option<Usage>,
    pub(super) ledger: Arc<Ledger>,
}

impl Folders {
    /// Checks whether the workspace or the artifacts are over their limits.
    async fn over(&self, life: &Life, when: When) -> Option<Cause> {
        let most = Most::of_workspace(&self.limits);
        let most = self.over.map_or(most, |there| most.raised_to(there));
        let unseen = || life.nameless();
        if let Some(over) = self.ledger.check(&self.workspace, "the workspace", most, when, unseen).await {
            return Some(over.cause);
        }
        let most = Most::of_artifacts(&self.limits);
        self.ledger.check(&self.artifacts, "/artifacts", most, when, || 0).await.map(|over| over.cause)
    }
}

/// Forgets the folder, even if the watch never started, and removes it.
impl Drop for Folders {
    fn drop(&mut self) {
        self.ledger.forget(&self.artifacts);
        let artifacts = std::mem::take(&mut self.artifacts);
        let removal = move || match crate::native::disk::remove(&artifacts) {
            // It was moved away, or removed with its container.
            Ok(()) | Err(rustix::io::Errno::NOENT) => {}
            Err(errno) => tracing::debug!(folder = %artifacts.display(), %errno, "a folder goes with its container"),
        };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(removal)),
            Err(_) => removal(),
        }
    }
}

/// Whether code is running, and since when.
#[derive(Debug)]
struct Pace {
    rests: AtomicBool,
    begun: Mutex<Instant>,
}

impl Pace {
    fn run(&self) -> Duration {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }
}

pub(super) struct DockerControl {
    life: Arc<Life>,
    folders: Arc<Folders>,
    pace: Arc<Pace>,
    watcher: JoinHandle<()>,
    /// Given back last, after the sandbox was killed.
    _lease: Lease,
}

impl DockerControl {
    pub(super) fn new(life: Life, folders: Folders, lease: Lease) -> Self {
        let (life, folders) = (Arc::new(life), Arc::new(folders));
        let pace = Arc::new(Pace { rests: AtomicBool::new(false), begun: Mutex::new(Instant::now()) });
        let watcher = tokio::spawn(watch(Arc::clone(&life), Arc::clone(&folders), Arc::clone(&pace)));
        Self { life, folders, pace, watcher, _lease: lease }
    }
}

/// Ends the sandbox when a folder is over its limit.
async fn watch(life: Arc<Life>, folders: Arc<Folders>, pace: Arc<Pace>) {
    loop {
        let rests = pace.rests.load(Ordering::Relaxed);
        tokio::time::sleep(if rests { RESTING } else { RUNNING }).await;
        let when = if rests { When::Resting } else { When::Running };
        if let Some(cause) = folders.over(&life, when).await {
            life.end_for(cause);
            return;
        }
    }
}

#[async_trait]
impl Control for DockerControl {
    fn kill(&self) {
        self.life.kill();
    }

    async fn exit(&mut self) -> Exit {
        let exited = tokio::time::timeout(GONE_WITHIN, self.life.exited()).await;
        // The engine is stuck: all that is known is that the sandbox was killed.
        let exit = exited.unwrap_or_else(|_| Exit { status: STATUS_KILLED, causes: self.life.seen() });
        Exit { status: shell_status(exit.status), causes: exit.causes }
    }

    fn begin(&self) {
        *self.pace.begun.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.pace.rests.store(false, Ordering::Relaxed);
    }

    async fn rest(&mut self) {
        self.pace.rests.store(true, Ordering::Relaxed);
        self.life.rest();
        if let Some(cause) = self.folders.over(&self.life, When::Ended).await {
            self.life.end_for(cause);
        }
    }

    async fn causes(&mut self) -> Vec<Cause> {
        self.life.seen()
    }

    async fn passed(&mut self) -> Option<Cause> {
        if let Some(seen) = self.life.seen().into_iter().next() {
            return Some(seen);
        }
        self.folders.over(&self.life, When::Ending(self.pace.run())).await
    }
}

impl Drop for DockerControl {
    fn drop(&mut self) {
        self.watcher.abort();
        // The watch may hold the life a moment longer.
        self.life.forget();
    }
}
