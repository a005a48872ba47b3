//! The store in one SQLite file, for one machine. Any number of processes may have it open.

mod durable;
mod journal;
mod life;
mod rows;
mod schema;
mod vault;

use crate::{Home, KeySource, StoreError};
use durable::Durable;
use life::Life;
use sqlx::ConnectOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool, SqlitePoolOptions, SqliteSynchronous};
use std::sync::atomic::AtomicUsize;
use std::time::Duration;
use vault::Vault;

/// Readers that work beside a writer; SQLite has one writer at a time in any case.
const CONNECTIONS: u32 = 4;
/// Longest wait for another process that writes.
const BUSY: Duration = Duration::from_secs(10);

/// A [`crate::Store`] in a SQLite file below the data folder.
///
/// Each write is one statement or one transaction. After a crash of the process all that was written is there; after
/// one of the machine the last writes may be missing, and the file is still sound. What the log of sessions promises is
/// on the disk when it is said to be.
#[derive(Debug)]
pub struct SqliteStore {
    pool: SqlitePool,
    vault: Vault,
    /// Executions that this process has written.
    recorded: AtomicUsize,
    durable: Durable,
    life: Life,
}

impl SqliteStore {
    /// Opens the store in the data folder, and makes what is missing. The master key is not touched until a secret is.
    pub async fn open(home: &Home, key: KeySource) -> Result<Self, StoreError> {
        let path = home.make_database()?;
        let options = SqliteConnectOptions::new()
            .filename(&path)
            .create_if_missing(false)
            .busy_timeout(BUSY)
            .synchronous(SqliteSynchronous::Normal)
            .foreign_keys(true)
            .disable_statement_logging();
        let pool = SqlitePoolOptions::new()
            .max_connections(CONNECTIONS)
            .min_connections(0)
            .idle_timeout(None)
            .max_lifetime(None)
            .test_before_acquire(false)
            .connect_lazy_with(options);
        schema::bring_up_to_date(&pool, home, &path).await?;
        Ok(Self {
            pool,
            vault: Vault::new(home.clone(), key),
            recorded: AtomicUsize::new(0),
            durable: Durable::new(home),
            life: Life::new(home.clone()),
        })
    }

    /// Waits for what is under way and tidies the file up. A store that is only dropped loses nothing.
    pub async fn close(&self) {
        self.pool.close().await;
    }
}

/// What the database said, with what it was to do.
fn failed(doing: &'static str) -> impl Fn(sqlx::Error) -> StoreError {
    move |error| StoreError::Database { doing, reason: error.to_string() }
}
