use crate::options::Options;
use crate::status::Change;
use crate::stdio::Warden;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The state that all slots share.
pub(crate) struct Shared {
    pub(crate) options: Options,
    pub(crate) warden: Arc<Warden>,
    pub(crate) changes: broadcast::Sender<Change>,
    /// Set when the lender does not answer. It is not asked again.
    pub(crate) silent: AtomicBool,
    pub(crate) shutdown: CancellationToken,
    pub(crate) tasks: TaskTracker,
}
