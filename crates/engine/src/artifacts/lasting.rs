use coracle_store::{Store, StoreError};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use tokio::sync::OnceCell;

/// Opens a store.
pub type OpenStore =
    Box<dyn Fn() -> Pin<Box<dyn Future<Output = Result<Arc<dyn Store>, StoreError>> + Send>> + Send + Sync>;

/// A store that is opened when the first artifact has to be recorded: most short programs leave none, and opening a store
/// takes longer than they run.
pub struct Lasting {
    open: OpenStore,
    opened: OnceCell<Arc<dyn Store>>,
}

impl Lasting {
    /// A store that `open` opens, at most once successfully.
    pub fn new(open: OpenStore) -> Self {
        Self { open, opened: OnceCell::new() }
    }

    /// The store, which is opened if it is not open yet.
    pub(super) async fn store(&self) -> Result<Arc<dyn Store>, StoreError> {
        self.opened.get_or_try_init(|| (self.open)()).await.cloned()
    }

    /// The store, if it has been opened.
    pub(super) fn opened(&self) -> Option<&Arc<dyn Store>> {
        self.opened.get()
    }
}

impl fmt::Debug for Lasting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lasting").field("opened", &self.opened.get().is_some()).finish_non_exhaustive()
    }
}
