//! The store in one SQLite file, for one machine. Any number of processes may have it open.

mod accounts;
mod artifacts;
mod durable;
mod fault;
mod journal;
mod life;
mod readiness;
mod rows;
mod schema;
mod vault;
mod writer;

use crate::{Home, Kept, KeySource, StoreError, schema_version};
use durable::Durable;
use fault::Faults;
use life::Life;
use readiness::Readiness;
use sqlx::ConnectOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool, SqlitePoolOptions, SqliteSynchronous};
use std::fs::File;
use std::path::Path;
use std::sync::atomic::AtomicUsize;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use vault::Vault;
use writer::{Turn, Writer};

/// Readers that work beside the writer.
const CONNECTIONS: u32 = 4;
/// Longest wait for another process that writes.
const BUSY: Duration = Duration::from_secs(3);
/// Longest wait for a connection that reads.
const READER: Duration = Duration::from_secs(5);

/// A [`crate::Store`] in a SQLite file below the data folder.
///
/// Each write is one statement or one transaction. After a crash of the process all that was written is there; after
/// one of the machine the last writes may be missing, and the file is still sound. What the log of sessions promises is
/// on the disk when it is said to be.
#[derive(Debug)]
pub struct SqliteStore {
    /// For reading.
    pool: SqlitePool,
    writer: Writer,
    faults: Faults,
    readiness: Readiness,
    vault: Vault,
    /// Executions that this process has written.
    recorded: AtomicUsize,
    /// How much is kept.
    kept: Mutex<Kept>,
    durable: Durable,
    life: Life,
    /// Nobody restores a backup in its place meanwhile.
    _in_use: File,
}

impl SqliteStore {
    /// Opens the store in the data folder, and makes what is missing. The master key is not touched until a secret is.
    pub async fn open(home: &Home, key: KeySource) -> Result<Self, StoreError> {
        let in_use = home.in_use()?;
        if in_use.try_lock_shared().is_err() {
            return Err(StoreError::home(home.root(), "it is being restored from a backup"));
        }
        let path = home.make_database()?;
        let options = SqliteConnectOptions::new()
            .filename(&path)
            .create_if_missing(false)
            .busy_timeout(BUSY)
            .synchronous(SqliteSynchronous::Normal)
            .foreign_keys(true)
            .disable_statement_logging();
        let faults = Faults::new(path.clone());
        let writer = Writer::new(options.clone(), faults.clone());
        schema::bring_up_to_date(&writer, &faults, home, &path).await?;
        let (seen, logged) = (faults.clone(), faults.clone());
        let pool = SqlitePoolOptions::new()
            .max_connections(CONNECTIONS)
            .min_connections(0)
            .acquire_timeout(READER)
            .idle_timeout(None)
            .max_lifetime(None)
            .test_before_acquire(false)
            .before_acquire(move |connection, meta| {
                let is_old = seen.outlived(meta.age);
                Box::pin(async move { Ok(!is_old && writer::is_idle(connection).await) })
            })
            .connect_lazy_with(options);
        Ok(Self {
            pool,
            writer,
            faults,
            readiness: Readiness::default(),
            vault: Vault::new(home.clone(), key),
            recorded: AtomicUsize::new(0),
            kept: Mutex::default(),
            durable: Durable::new(home, logged),
            life: Life::new(home.clone()),
            _in_use: in_use,
        })
    }

    fn kept(&self) -> Kept {
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the database as it is at this moment into a new file; returns the version of its schema. Others may go on
    /// writing.
    pub(crate) async fn snapshot(&self, to: &Path) -> Result<i64, StoreError> {
        let path = to.to_str().ok_or_else(|| StoreError::home(to, "its path is not UTF-8"))?;
        let written = sqlx::query("VACUUM INTO ?1").bind(path).execute(&self.pool).await;
        written.map_err(self.failed("be copied"))?;
        Ok(schema_version())
    }

    /// Waits for what is under way and tidies the file up. A store that is only dropped loses nothing.
    pub async fn close(&self) {
        self.pool.close().await;
        self.writer.close().await;
    }

    /// The right to write, and the connection for it.
    async fn writer(&self) -> Result<Turn<'_>, StoreError> {
        self.writer.turn("be written").await
    }

    /// What the database said, with what it was to do.
    fn failed(&self, doing: &'static str) -> impl Fn(sqlx::Error) -> StoreError + use<> {
        self.faults.failed(doing)
    }
}
