//! The schema and its version. Opening a file that is up to date costs one read.

use super::fault::Faults;
use super::writer::Writer;
use crate::{Fault, Home, StoreError};
use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};
use sqlx::sqlite::SqliteConnection;
use sqlx::{SqlSafeStr, query_scalar, raw_sql};
use std::path::Path;

/// The migrations in order. Each sets its number as the version of the file, in the same transaction.
const MIGRATIONS: &[(i64, &str, &str)] = &[
    (1, "first", include_str!("../../migrations/0001_first.sql")),
    (2, "accounts", include_str!("../../migrations/0002_accounts.sql")),
    (3, "sessions", include_str!("../../migrations/0003_sessions.sql")),
    (4, "artifacts", include_str!("../../migrations/0004_artifacts.sql")),
    (5, "interrupted", include_str!("../../migrations/0005_interrupted.sql")),
    (6, "key makers", include_str!("../../migrations/0006_key_makers.sql")),
    (7, "task numbers", include_str!("../../migrations/0007_task_numbers.sql")),
];

/// The version after the last migration.
pub(super) fn known() -> i64 {
    MIGRATIONS.last().map_or(0, |(version, ..)| *version)
}

pub(super) async fn version(connection: &mut SqliteConnection, faults: &Faults) -> Result<i64, StoreError> {
    query_scalar("PRAGMA user_version").fetch_one(connection).await.map_err(faults.failed("tell its version"))
}

pub(super) fn check(found: i64, path: &Path) -> Result<bool, StoreError> {
    let known = known();
    if found > known { Err(StoreError::Newer { path: path.to_owned(), found, known }) } else { Ok(found == known) }
}

pub(super) async fn bring_up_to_date(
    writer: &Writer,
    faults: &Faults,
    home: &Home,
    path: &Path,
) -> Result<(), StoreError> {
    let mut connection = writer.turn("be opened").await?;
    if check(version(&mut connection, faults).await?, path)? {
        return Ok(());
    }
    // SQLite has no lock that spans several migrations and the switch to WAL, which two processes must not do at once.
    let waiting = home.clone();
    let lock = tokio::task::spawn_blocking(move || waiting.locked()).await;
    let _lock = lock.map_err(|error| StoreError::home(path, error))??;
    if check(version(&mut connection, faults).await?, path)? {
        return Ok(());
    }
    raw_sql("PRAGMA journal_mode = WAL").execute(&mut *connection).await.map_err(faults.failed("change to WAL"))?;
    let migrations = MIGRATIONS.iter().map(|(version, name, sql)| {
        Migration::new(*version, (*name).into(), MigrationType::Simple, sql.into_sql_str(), false)
    });
    let migrated = Migrator::with_migrations(migrations.collect()).run_direct(None, &mut *connection, false).await;
    migrated.map_err(|error| match error {
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => {
            faults.failed("bring its schema up to date")(error)
        }
        other => StoreError::Database {
            path: path.to_owned(),
            doing: "bring its schema up to date",
            fault: Fault::Other,
            reason: other.to_string(),
        },
    })
}
