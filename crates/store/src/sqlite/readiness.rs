//! Finds out whether the store is writable, by writing.

use super::{SqliteStore, schema};
use crate::StoreError;
use std::io::Write;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// How long an answer is reused: probes need no credentials.
const FRESH: Duration = Duration::from_millis(500);
/// The number of bytes to write, about as much as a small execution needs.
const ROOM: usize = 64 << 10;

/// The last answer.
#[derive(Debug, Default)]
pub(super) struct Readiness(Mutex<Option<(Instant, Result<(), StoreError>)>>);

impl SqliteStore {
    /// Checks that the database can be read and written, that its file system has room, and that secrets can be
    /// decrypted.
    pub(super) async fn look(&self) -> Result<(), StoreError> {
        let mut last = self.readiness.0.lock().await;
        if let Some((at, found)) = last.as_ref()
            && at.elapsed() < FRESH
            && !self.faults.any_since(*at)
        {
            return found.clone();
        }
        let found = self.try_out().await;
        *last = Some((Instant::now(), found.clone()));
        found
    }

    async fn try_out(&self) -> Result<(), StoreError> {
        let failed = self.failed("be written");
        {
            let mut writer = self.writer().await?;
            schema::check(schema::version(&mut writer, &self.faults).await?, self.faults.path())?;
            let transaction = sqlx::Connection::begin_with(&mut *writer, "BEGIN IMMEDIATE").await.map_err(&failed)?;
            transaction.rollback().await.map_err(&failed)?;
        }
        let folder = self.faults.path().parent().map(std::path::Path::to_owned).unwrap_or_default();
        let place = folder.clone();
        let room = tokio::task::spawn_blocking(move || {
            let mut file = tempfile::NamedTempFile::with_prefix_in(".room-", &place)?;
            file.write_all(&vec![b'x'; ROOM])
        });
        let room = room.await.map_err(std::io::Error::other).and_then(|room| room);
        room.map_err(|error| self.faults.of_file(self.faults.path(), "be written", &error))?;
        if self.faults.is_damaged() {
            self.examine().await?;
        }
        self.vault.check(self).await
    }

    /// Checks the integrity of the whole database.
    pub async fn examine(&self) -> Result<(), StoreError> {
        let failed = self.failed("be read");
        let found: String = sqlx::query_scalar("PRAGMA quick_check(1)").fetch_one(&self.pool).await.map_err(&failed)?;
        if found != "ok" {
            return Err(self.faults.damaged("be read", found));
        }
        self.faults.sound();
        Ok(())
    }
}
