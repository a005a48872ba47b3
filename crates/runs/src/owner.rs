//! The run that the calls of an execution are recorded for.

use coracle_types::RunId;
use std::sync::Arc;
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

/// The run that the calls of an execution are recorded for. It changes when another run takes the execution over. Cheap
/// to clone.
#[derive(Clone, Debug)]
pub struct Owner(Arc<RwLock<RunId>>);

impl Owner {
    /// An owner that is this run.
    pub fn new(run: RunId) -> Self {
        Self(Arc::new(RwLock::new(run)))
    }

    /// The run. It does not change until the guard is dropped.
    pub(crate) async fn read(&self) -> OwnedRwLockReadGuard<RunId> {
        Arc::clone(&self.0).read_owned().await
    }

    /// Waits until nothing is being recorded, and lets nothing be recorded until the guard is dropped.
    pub(crate) async fn write(&self) -> OwnedRwLockWriteGuard<RunId> {
        Arc::clone(&self.0).write_owned().await
    }
}
