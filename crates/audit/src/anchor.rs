//! The store remembers where the log has been, so that a log that is missing is found.

use crate::AuditError;
use crate::mark::Mark;
use coracle_store::{Owner, Store, StoreError};
use coracle_types::Secret;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use tokio::sync::OnceCell;

/// Name of the secret. It is a secret so that only this program can write it.
const NAME: &str = "audit:head";

/// Opens a store.
pub type OpenStore =
    Box<dyn Fn() -> Pin<Box<dyn Future<Output = Result<Arc<dyn Store>, StoreError>> + Send>> + Send + Sync>;

/// The store, which is opened when it is needed: for appending to a log that exists, it is not.
pub struct StoreSource {
    open: OpenStore,
    opened: OnceCell<Arc<dyn Store>>,
}

impl StoreSource {
    /// A store that `open` opens, at most once successfully.
    pub fn new(open: OpenStore) -> Self {
        Self { open, opened: OnceCell::new() }
    }

    /// The store, which is opened if it is not open yet.
    pub(crate) async fn store(&self) -> Result<&Arc<dyn Store>, StoreError> {
        self.opened.get_or_try_init(|| (self.open)()).await
    }

    /// The last position that the store remembers.
    pub(crate) async fn last(&self) -> Result<Option<Mark>, AuditError> {
        let stored = self.store().await?.secret(&Owner::Shared, NAME).await?;
        Ok(stored.and_then(|mark| mark.expose().parse().ok()))
    }

    /// Remembers a position, unless the store remembers a later one.
    pub(crate) async fn remember(&self, mark: Mark) -> Result<(), AuditError> {
        if self.last().await?.is_none_or(|last| last.seq < mark.seq) {
            self.replace(mark).await?;
        }
        Ok(())
    }

    /// Remembers the position of a new log, whatever the store remembers.
    pub(crate) async fn replace(&self, mark: Mark) -> Result<(), AuditError> {
        self.store().await?.put_secret(&Owner::Shared, NAME, &Secret::new(mark.to_string())).await?;
        Ok(())
    }
}

impl From<Arc<dyn Store>> for StoreSource {
    fn from(store: Arc<dyn Store>) -> Self {
        Self::new(Box::new(move || {
            let store = Arc::clone(&store);
            Box::pin(async move { Ok(store) })
        }))
    }
}

impl fmt::Debug for StoreSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreSource").field("opened", &self.opened.get().is_some()).finish_non_exhaustive()
    }
}
