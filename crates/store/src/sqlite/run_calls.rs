//! The recorded calls of runs, and parked runs that hand them over.

use super::SqliteStore;
use crate::moment::to_millis;
use crate::runs::{continued_by, not_parked};
use crate::{NewRun, StoreError};
use coracle_types::{RunId, UserId};
use sqlx::sqlite::SqliteConnection;

impl SqliteStore {
    pub(super) async fn put_call(
        &self,
        user: &UserId,
        run: &RunId,
        subject: &str,
        number: u64,
        (call, answer): (String, Option<String>),
    ) -> Result<(), StoreError> {
        let written = sqlx::query(
            "INSERT INTO run_calls (user_id, run_id, subject, number, call, answer)
             SELECT user_id, run_id, ?3, ?4, ?5, ?6 FROM runs WHERE user_id = ?1 AND run_id = ?2
             AND (state = 'running' OR EXISTS (
                 SELECT 1 FROM steps WHERE steps.user_id = ?1 AND steps.run_id = ?2 AND kind = 'parked'
                 AND subject = ?3 AND steps.ended_at IS NULL))
             ON CONFLICT (user_id, run_id, subject, number) DO UPDATE
             SET call = excluded.call, answer = excluded.answer",
        )
        .bind(user.as_str())
        .bind(run.as_str())
        .bind(subject)
        .bind(i64::try_from(number).unwrap_or(i64::MAX))
        .bind(call)
        .bind(answer)
        .execute(&mut *self.writer().await?)
        .await
        .map_err(self.failed("record a call of a run"))?;
        if written.rows_affected() == 0 { Err(StoreError::NoRun { id: run.to_string() }) } else { Ok(()) }
    }

    /// Deletes the recorded calls of a run that ends, except those of parked steps.
    pub(super) async fn forget_calls(
        &self,
        connection: &mut SqliteConnection,
        user: &UserId,
        run: &RunId,
    ) -> Result<(), StoreError> {
        sqlx::query(
            "DELETE FROM run_calls WHERE user_id = ?1 AND run_id = ?2 AND subject NOT IN (
                 SELECT subject FROM steps WHERE user_id = ?1 AND run_id = ?2 AND kind = 'parked' AND ended_at IS NULL)",
        )
        .bind(user.as_str())
        .bind(run.as_str())
        .execute(connection)
        .await
        .map_err(self.failed("forget the calls of a run"))?;
        Ok(())
    }

    /// Gives what a run has parked to the run that continues it.
    pub(super) async fn hand_over(
        &self,
        connection: &mut SqliteConnection,
        user: &UserId,
        from: &RunId,
        to: &NewRun,
    ) -> Result<(), StoreError> {
        let failed = self.failed("continue a run");
        let ended = sqlx::query(
            "UPDATE steps SET ended_at = ?3, outcome = ?4
             WHERE user_id = ?1 AND run_id = ?2 AND kind = 'parked' AND ended_at IS NULL",
        )
        .bind(user.as_str())
        .bind(from.as_str())
        .bind(to_millis(to.created_at))
        .bind(continued_by(&to.id).to_string())
        .execute(&mut *connection)
        .await
        .map_err(&failed)?;
        if ended.rows_affected() == 0 {
            return Err(not_parked(from));
        }
        sqlx::query("UPDATE run_calls SET run_id = ?3 WHERE user_id = ?1 AND run_id = ?2")
            .bind(user.as_str())
            .bind(from.as_str())
            .bind(to.id.as_str())
            .execute(connection)
            .await
            .map_err(&failed)?;
        Ok(())
    }
}
