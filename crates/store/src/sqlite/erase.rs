//! Deletes all data of a user, and removes what was deleted from the disk.

use super::SqliteStore;
use crate::{Fault, Owner, StoreError};
use coracle_types::UserId;
use sqlx::sqlite::SqliteConnection;
use std::time::Duration;

/// Number of attempts to empty the log of the database, each of which waits for readers.
const ATTEMPTS: u32 = 10;
/// Pause between attempts.
const PAUSE: Duration = Duration::from_millis(200);

impl SqliteStore {
    /// Deletes everything that a user has, except the account.
    pub(super) async fn delete_data(&self, connection: &mut SqliteConnection, user: &UserId) -> Result<(), StoreError> {
        let failed = self.failed("delete the data of a user");
        let owner = Owner::User(user.clone()).to_string();
        for statement in [
            "DELETE FROM server_tools WHERE owner = ?1",
            "DELETE FROM shapes WHERE owner = ?1",
            "DELETE FROM secrets WHERE owner = ?1",
        ] {
            sqlx::query(statement).bind(&owner).execute(&mut *connection).await.map_err(&failed)?;
        }
        // Tasks, checkpoints, versions, items and steps are deleted with what they belong to.
        for statement in [
            "DELETE FROM approvals WHERE user_id = ?1 OR caller = ?1",
            "DELETE FROM decisions WHERE user_id = ?1",
            "DELETE FROM executions WHERE user_id = ?1",
            "DELETE FROM sessions WHERE user_id = ?1",
            "DELETE FROM artifacts WHERE user_id = ?1",
            "DELETE FROM runs WHERE user_id = ?1",
            "DELETE FROM conversations WHERE user_id = ?1",
            "DELETE FROM token_use WHERE user_id = ?1",
            "DELETE FROM limit_use WHERE user_id = ?1",
            "DELETE FROM vault_values WHERE user_id = ?1",
            "DELETE FROM sources WHERE user_id = ?1",
            "DELETE FROM value_sources WHERE user_id = ?1",
            "DELETE FROM flow_approvals WHERE user_id = ?1",
            "DELETE FROM plans WHERE user_id = ?1",
        ] {
            sqlx::query(statement).bind(user.as_str()).execute(&mut *connection).await.map_err(&failed)?;
        }
        Ok(())
    }

    /// Writes the database anew, so that unused pages and unused parts of pages are gone, and empties its log.
    pub(super) async fn erase(&self) -> Result<(), StoreError> {
        let failed = self.failed("erase deleted data");
        sqlx::query("VACUUM").execute(&mut *self.writer().await?).await.map_err(&failed)?;
        for _ in 0..ATTEMPTS {
            // The log is emptied only if no other connection reads from it.
            let (is_busy, _, _): (i64, i64, i64) = sqlx::query_as("PRAGMA wal_checkpoint(TRUNCATE)")
                .fetch_one(&mut *self.writer().await?)
                .await
                .map_err(&failed)?;
            if is_busy == 0 {
                return Ok(());
            }
            tokio::time::sleep(PAUSE).await;
        }
        Err(StoreError::Database {
            path: self.faults.path().to_owned(),
            doing: "erase deleted data",
            fault: Fault::Locked,
            reason: "another process is reading from it".to_owned(),
        })
    }
}
