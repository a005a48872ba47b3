//! The log of approvals as rows.

use super::SqliteStore;
use super::rows::{count, damaged};
use crate::approvals::check;
use crate::moment::{from_millis, to_millis};
use crate::{ApprovalLog, ApprovalOutcome, ApprovalRecord, KEPT_APPROVALS, MAX_PAGE, StoreError};
use async_trait::async_trait;
use coracle_types::{ExecutionId, ServerName, SessionId, UserId};
use sqlx::Connection as _;

/// In the order of `select!`.
type Row = (
    String,
    Option<String>,
    String,
    String,
    String,
    String,
    Option<String>,
    String,
    Option<String>,
    i64,
    i64,
    String,
    Option<String>,
);

/// The beginning of statements that select approvals.
macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT approval_id, caller, server, tool, arguments, reason, session_id, execution_id, origin, asked_at, ",
            "ended_at, outcome, answered_by FROM approvals WHERE user_id = ?1 ",
            $rest
        )
    };
}

#[async_trait]
impl ApprovalLog for SqliteStore {
    async fn add_approval(&self, record: &ApprovalRecord) -> Result<(), StoreError> {
        check(record)?;
        let failed = self.failed("keep an approval");
        let mut writer = self.writer().await?;
        let mut transaction = writer.begin_with("BEGIN IMMEDIATE").await.map_err(&failed)?;
        let added = sqlx::query(
            "INSERT OR REPLACE INTO approvals (user_id, approval_id, server, tool, arguments, reason, session_id,
                 execution_id, origin, asked_at, ended_at, outcome, answered_by, caller)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
        )
        .bind(record.user.as_str())
        .bind(&record.id)
        .bind(record.server.as_str())
        .bind(&record.tool)
        .bind(&record.arguments)
        .bind(&record.reason)
        .bind(record.session.as_ref().map(|session| session.as_str().to_owned()))
        .bind(record.execution_id.as_str())
        .bind(&record.origin)
        .bind(to_millis(record.asked_at))
        .bind(to_millis(record.ended_at))
        .bind(record.outcome.as_str())
        .bind(&record.answered_by)
        .bind(record.caller.as_ref().map(UserId::as_str));
        added.execute(&mut *transaction).await.map_err(&failed)?;
        let pruned = sqlx::query(
            "DELETE FROM approvals WHERE user_id = ?1 AND (ended_at, approval_id) < (
                 SELECT ended_at, approval_id FROM approvals WHERE user_id = ?1
                 ORDER BY ended_at DESC, approval_id DESC LIMIT 1 OFFSET ?2)",
        )
        .bind(record.user.as_str())
        .bind(count(KEPT_APPROVALS - 1));
        pruned.execute(&mut *transaction).await.map_err(&failed)?;
        transaction.commit().await.map_err(&failed)
    }

    async fn approval(&self, user: &UserId, id: &str) -> Result<Option<ApprovalRecord>, StoreError> {
        let row: Option<Row> = sqlx::query_as(select!("AND approval_id = ?2"))
            .bind(user.as_str())
            .bind(id)
            .fetch_optional(&self.pool)
            .await
            .map_err(self.failed("read an approval"))?;
        row.map(|row| record(user, row)).transpose()
    }

    async fn approvals(&self, user: &UserId, limit: usize) -> Result<Vec<ApprovalRecord>, StoreError> {
        let rows: Vec<Row> = sqlx::query_as(select!("ORDER BY ended_at DESC, approval_id DESC LIMIT ?2"))
            .bind(user.as_str())
            .bind(count(limit.min(MAX_PAGE)))
            .fetch_all(&self.pool)
            .await
            .map_err(self.failed("read approvals"))?;
        rows.into_iter().map(|row| record(user, row)).collect()
    }

    async fn all_approvals(&self, user: &UserId) -> Result<Vec<ApprovalRecord>, StoreError> {
        let rows: Vec<Row> = sqlx::query_as(select!("ORDER BY ended_at DESC, approval_id DESC"))
            .bind(user.as_str())
            .fetch_all(&self.pool)
            .await
            .map_err(self.failed("read approvals"))?;
        rows.into_iter().map(|row| record(user, row)).collect()
    }
}

fn record(user: &UserId, row: Row) -> Result<ApprovalRecord, StoreError> {
    let (id, caller, server, tool, arguments, reason, session, execution, origin, asked_at, ended_at, outcome, by) =
        row;
    let what = format!("approval {id:?}");
    let known = ApprovalOutcome::ALL.into_iter().find(|known| known.as_str() == outcome);
    Ok(ApprovalRecord {
        user: user.clone(),
        caller: caller.map(UserId::new).transpose().map_err(|error| damaged(&what, error))?,
        server: ServerName::new(server).map_err(|error| damaged(&what, error))?,
        session: session.map(SessionId::new).transpose().map_err(|error| damaged(&what, error))?,
        execution_id: ExecutionId::new(execution).map_err(|error| damaged(&what, error))?,
        outcome: known.ok_or_else(|| damaged(&what, "its outcome is not known"))?,
        id,
        tool,
        arguments,
        reason,
        origin,
        asked_at: from_millis(asked_at),
        ended_at: from_millis(ended_at),
        answered_by: by,
    })
}
