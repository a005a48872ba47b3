//! The store in one SQLite file, for one machine. Any number of processes may have it open.

mod accounts;
mod approvals;
mod artifacts;
mod conversations;
mod decisions;
mod durable;
mod erase;
mod fault;
mod journal;
mod life;
mod limit_use;
mod plans;
mod provenance;
mod readiness;
mod rows;
mod run_calls;
mod runs;
mod schema;
mod token_use;
mod token_vault;
mod vault;
mod writer;

use crate::key::MasterKey;
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
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use vault::Vault;
use writer::{Turn, Writer};

/// The number of connections for reading.
const CONNECTIONS: u32 = 4;
/// Maximum time to wait for another process that writes.
const BUSY: Duration = Duration::from_secs(3);
/// Maximum time to wait for a connection for reading.
const READER: Duration = Duration::from_secs(5);

/// A [`crate::Store`] in a SQLite file below the data folder.
///
/// Each write is one statement or one transaction. After a crash of the process nothing is lost. After a crash of the
/// machine the last writes may be missing, but the file is intact. Writes of the session log are on the disk when their
/// methods return.
#[derive(Debug)]
pub struct SqliteStore {
    /// Connections for reading.
    pool: SqlitePool,
    writer: Writer,
    faults: Faults,
    readiness: Readiness,
    vault: Vault,
    /// The number of executions that this process has written.
    recorded: AtomicUsize,
    /// How much history is kept.
    kept: Mutex<Kept>,
    durable: Durable,
    life: Life,
    /// The lock that prevents a restore while the store is open.
    _in_use: File,
}

impl SqliteStore {
    /// Opens the store in the data folder, and creates missing files. The master key is not read until a secret is.
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

    /// The key that secrets are encrypted with. It is created if necessary.
    pub(crate) async fn master_key(&self) -> Result<Arc<MasterKey>, StoreError> {
        self.vault.master(self).await
    }

    fn kept(&self) -> Kept {
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a snapshot of the database to a new file. Returns the version of its schema. Other processes may continue
    /// to write.
    pub(crate) async fn snapshot(&self, to: &Path) -> Result<i64, StoreError> {
        let path = to.to_str().ok_or_else(|| StoreError::home(to, "its path is not UTF-8"))?;
        let written = sqlx::query("VACUUM INTO ?1").bind(path).execute(&self.pool).await;
        written.map_err(self.failed("be copied"))?;
        Ok(schema_version())
    }

    /// Waits for pending operations and closes all connections. A store that is only dropped loses nothing.
    pub async fn close(&self) {
        self.pool.close().await;
        self.writer.close().await;
    }

    /// The right to write, with the connection for it.
    async fn writer(&self) -> Result<Turn<'_>, StoreError> {
        self.writer.turn("be written").await
    }

    /// Converts an error of the database, with the operation that failed.
    fn failed(&self, doing: &'static str) -> impl Fn(sqlx::Error) -> StoreError + use<> {
        self.faults.failed(doing)
    }
}
