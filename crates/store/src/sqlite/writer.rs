//! The only connection that writes. SQLite has one writer at a time anyway, and waiting here is cheap, while waiting
//! inside SQLite blocks a thread.

use super::fault::Faults;
use crate::StoreError;
use sqlx::Connection;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};
use tokio::sync::{MappedMutexGuard, Mutex, MutexGuard};

/// Maximum time to wait for other writes of this process.
const TURN: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct Writer {
    options: SqliteConnectOptions,
    faults: Faults,
    open: Mutex<Option<Open>>,
}

#[derive(Debug)]
struct Open {
    connection: SqliteConnection,
    since: Instant,
    /// Device and inode of the file.
    file: (u64, u64),
}

/// The right to write.
pub(super) type Turn<'a> = MappedMutexGuard<'a, SqliteConnection>;

impl Writer {
    pub(super) fn new(options: SqliteConnectOptions, faults: Faults) -> Self {
        Self { options, faults, open: Mutex::new(None) }
    }

    /// Waits for the writer, and makes sure that its connection is usable.
    pub(super) async fn turn(&self, doing: &'static str) -> Result<Turn<'_>, StoreError> {
        let waited = tokio::time::timeout(TURN, self.open.lock()).await;
        let mut open = waited.map_err(|_| self.faults.waited(doing))?;
        if self.faults.is_locked() {
            return Err(self.faults.waited(doing));
        }
        let file = self.file(doing)?;
        if let Some(mut found) = open.take()
            && found.file == file
            && !self.faults.outlived(found.since.elapsed())
            && is_idle(&mut found.connection).await
        {
            *open = Some(found);
        }
        if open.is_none() {
            let since = Instant::now();
            let connected = SqliteConnection::connect_with(&self.options).await;
            let connection = connected.map_err(self.faults.failed("be opened"))?;
            *open = Some(Open { connection, since, file });
        }
        let turn = MutexGuard::try_map(open, |open| open.as_mut().map(|open| &mut open.connection));
        turn.map_err(|_| self.faults.waited(doing))
    }

    /// Identifies the file. A deleted or replaced file still exists for processes that have it open.
    fn file(&self, doing: &'static str) -> Result<(u64, u64), StoreError> {
        let path = self.faults.path();
        let found = fs::symlink_metadata(path).map_err(|error| self.faults.of_file(path, doing, &error))?;
        Ok((found.dev(), found.ino()))
    }

    pub(super) async fn close(&self) {
        if let Some(open) = self.open.lock().await.take()
            && let Err(error) = open.connection.close().await
        {
            tracing::debug!(%error, "the writing connection was not closed cleanly");
        }
    }
}

/// Whether no transaction is open. After some errors SQLite rolls back by itself, and the library would not notice.
pub(super) async fn is_idle(connection: &mut SqliteConnection) -> bool {
    // A rollback may be in progress.
    !connection.is_in_transaction() || (connection.ping().await.is_ok() && !connection.is_in_transaction())
}
