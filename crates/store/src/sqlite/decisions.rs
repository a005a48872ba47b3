//! The decisions of users about tools, as rows. A decision about all calls of a tool has an empty digest of arguments.

use super::SqliteStore;
use super::rows::{count, damaged};
use crate::moment::{from_millis, to_millis};
use crate::{MAX_ARGUMENT_DECISIONS, StoreError, ToolDecision, bounds};
use coracle_types::{Decision, ServerName, UserId};
use sqlx::Connection as _;

type Row = (String, String, String, String, String, i64);

/// The beginning of statements that select decisions.
macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT server, tool, arguments, definition, decision, decided_at FROM decisions WHERE user_id = ?1 ",
            $rest
        )
    };
}

impl SqliteStore {
    pub(super) async fn put_decision(&self, user: &UserId, decision: &ToolDecision) -> Result<(), StoreError> {
        bounds::decision(decision)?;
        let failed = self.failed("keep a decision");
        let mut writer = self.writer().await?;
        let mut transaction = writer.begin_with("BEGIN IMMEDIATE").await.map_err(&failed)?;
        let replaced = sqlx::query(
            "DELETE FROM decisions WHERE user_id = ?1 AND server = ?2 AND tool = ?3 AND (?4 = '' OR arguments = ?4)",
        )
        .bind(user.as_str())
        .bind(decision.server.as_str())
        .bind(&decision.tool)
        .bind(decision.arguments.as_deref().unwrap_or_default());
        replaced.execute(&mut *transaction).await.map_err(&failed)?;
        let added = sqlx::query(
            "INSERT INTO decisions (user_id, server, tool, arguments, definition, decision, decided_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )
        .bind(user.as_str())
        .bind(decision.server.as_str())
        .bind(&decision.tool)
        .bind(decision.arguments.as_deref().unwrap_or_default())
        .bind(&decision.definition)
        .bind(word(decision.decision))
        .bind(to_millis(decision.decided_at));
        added.execute(&mut *transaction).await.map_err(&failed)?;
        let pruned = sqlx::query(
            "DELETE FROM decisions WHERE user_id = ?1 AND server = ?2 AND tool = ?3 AND arguments IN (
                 SELECT arguments FROM decisions
                 WHERE user_id = ?1 AND server = ?2 AND tool = ?3 AND arguments <> ''
                 ORDER BY decided_at DESC, arguments DESC LIMIT -1 OFFSET ?4)",
        )
        .bind(user.as_str())
        .bind(decision.server.as_str())
        .bind(&decision.tool)
        .bind(count(MAX_ARGUMENT_DECISIONS));
        pruned.execute(&mut *transaction).await.map_err(&failed)?;
        transaction.commit().await.map_err(&failed)
    }

    /// All decisions of a user about a tool.
    pub(super) async fn find_decisions(
        &self,
        user: &UserId,
        server: &ServerName,
        tool: &str,
    ) -> Result<Vec<ToolDecision>, StoreError> {
        let rows: Vec<Row> = sqlx::query_as(select!("AND server = ?2 AND tool = ?3 ORDER BY arguments"))
            .bind(user.as_str())
            .bind(server.as_str())
            .bind(tool)
            .fetch_all(&self.pool)
            .await
            .map_err(self.failed("read decisions"))?;
        rows.into_iter().map(decision).collect()
    }

    /// The decision of a user about all calls of a tool.
    pub(super) async fn find_decision(
        &self,
        user: &UserId,
        server: &ServerName,
        tool: &str,
    ) -> Result<Option<ToolDecision>, StoreError> {
        let row: Option<Row> = sqlx::query_as(select!("AND server = ?2 AND tool = ?3 AND arguments = ''"))
            .bind(user.as_str())
            .bind(server.as_str())
            .bind(tool)
            .fetch_optional(&self.pool)
            .await
            .map_err(self.failed("read a decision"))?;
        row.map(decision).transpose()
    }

    pub(super) async fn all_decisions(&self, user: &UserId) -> Result<Vec<ToolDecision>, StoreError> {
        let rows: Vec<Row> = sqlx::query_as(select!("ORDER BY server, tool, arguments"))
            .bind(user.as_str())
            .fetch_all(&self.pool)
            .await
            .map_err(self.failed("read decisions"))?;
        rows.into_iter().map(decision).collect()
    }

    /// Deletes the decisions of a user about a tool, or only that about the arguments with this digest.
    pub(super) async fn delete_decisions(
        &self,
        user: &UserId,
        server: &ServerName,
        tool: &str,
        arguments: Option<&str>,
    ) -> Result<bool, StoreError> {
        let deleted = sqlx::query(
            "DELETE FROM decisions WHERE user_id = ?1 AND server = ?2 AND tool = ?3
             AND (?4 IS NULL OR arguments = ?4 AND arguments <> '')",
        )
        .bind(user.as_str())
        .bind(server.as_str())
        .bind(tool)
        .bind(arguments)
        .execute(&mut *self.writer().await?)
        .await
        .map_err(self.failed("forget a decision"))?;
        Ok(deleted.rows_affected() > 0)
    }
}

fn word(decision: Decision) -> &'static str {
    match decision {
        Decision::Allow => "allow",
        Decision::Ask => "ask",
        Decision::Deny => "deny",
    }
}

fn decision((server, tool, arguments, definition, text, decided_at): Row) -> Result<ToolDecision, StoreError> {
    let what = format!("decision about {tool:?}");
    let decision = [Decision::Allow, Decision::Ask, Decision::Deny].into_iter().find(|known| word(*known) == text);
    Ok(ToolDecision {
        server: ServerName::new(server).map_err(|error| damaged(&what, error))?,
        decision: decision.ok_or_else(|| damaged(&what, "it is not known"))?,
        tool,
        definition,
        arguments: Some(arguments).filter(|digest| !digest.is_empty()),
        decided_at: from_millis(decided_at),
    })
}
