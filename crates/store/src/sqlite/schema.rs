//! The schema and its version. Opening a file that is up to date costs one read.

use super::fault::Faults;
use super::writer::Writer;
use crate::migrations::MIGRATIONS;
use crate::{Fault, Home, StoreError, schema_version};
use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};
use sqlx::sqlite::SqliteConnection;
use sqlx::{SqlSafeStr, query_scalar, raw_sql};
use std::path::Path;

pub(super) async fn version(connection: &mut SqliteConnection, faults: &Faults) -> Result<i64, StoreError> {
    query_scalar("PRAGMA user_version").fetch_one(connection).await.map_err(faults.failed("tell its version"))
}

pub(super) fn check(found: i64, path: &Path) -> Result<bool, StoreError> {
    let known = schema_version();
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
