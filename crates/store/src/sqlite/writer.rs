//! The one connection that writes: SQLite has one writer at a time in any case, and whoever waits here is in nobody's
//! way, while a wait inside of SQLite takes a thread and sleeps.

use super::fault::Faults;
use crate::StoreError;
use sqlx::Connection;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};
use tokio::sync::{MappedMutexGuard, Mutex, MutexGuard};

/// Longest wait for other writes of this process.
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
    /// Device and number of the file.
    file: (u64, u64),
}

/// The right to write.
pub(super) type Turn<'a> = MappedMutexGuard<'a, SqliteConnection>;

impl Writer {
    pub(super) fn new(options: SqliteConnectOptions, faults: Faults) -> Self {
        Self { options, faults, open: Mutex::new(None) }
    }

    /// Waits for one's turn, and sees to it that the connection is sound.
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

    /// A file that was deleted or replaced is still there for whoever has it open, and for nobody else.
    fn file(&self, doing: &'static str) -> Result<(u64, u64), StoreError> {
        let path = self.faults.path();
        let found = fs::symlink_metadata(path).map_err(|error| self.faults.of_file(path, doing, &error))?;
        Ok((found.dev(), found.ino()))
    }

    pub(super) async fn close(&self) {
        if let Some(open) = self.open.lock().await.take()
            && let Err(error) = open.connection.close().await
        {
            tracing::debug!(%error, "the connection that writes was not closed in good order");
        }
    }
}

/// Whether no transaction is open. After some errors SQLite has rolled back by itself, and the library, which does not
/// know, would count the transaction for ever.
pub(super) async fn is_idle(connection: &mut SqliteConnection) -> bool {
    // A rollback may be under way.
    !connection.is_in_transaction() || (connection.ping().await.is_ok() && !connection.is_in_transaction())
}
