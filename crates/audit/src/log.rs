use crate::{AuditError, Digest, Entry};
use async_trait::async_trait;
use std::fmt;

/// An append-only log.
///
/// Contract: entries that were appended one after the other are in the log in this order, each exactly once. An entry
/// whose `append` has returned an error is not in the log. As soon as the reason of an error is gone, entries can be
/// appended again. Entries that are appended by several processes at once are all in the log.
#[async_trait]
pub trait AuditLog: Send + Sync + fmt::Debug {
    /// Appends an entry. When this returns, the entry survives the end of the process, and more if so configured.
    async fn append(&self, entry: Entry) -> Result<(), AuditError>;

    /// Appends an entry, without waiting for the disk. If that is not possible now, the entry is kept in memory and
    /// appended with the next one. For what has already happened: nothing can be refused any more.
    fn append_later(&self, entry: Entry);

    /// The digest of a content under the key of the log. Without the key it tells nothing about the content. Equal
    /// contents have equal digests.
    async fn digest(&self, content: &[u8]) -> Result<Digest, AuditError>;
}

/// Records nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoLog;

#[async_trait]
impl AuditLog for NoLog {
    async fn append(&self, _: Entry) -> Result<(), AuditError> {
        Ok(())
    }

    fn append_later(&self, _: Entry) {}

    async fn digest(&self, _: &[u8]) -> Result<Digest, AuditError> {
        Ok(Digest::new())
    }
}
