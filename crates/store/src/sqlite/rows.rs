//! The implementation of `Store`, as rows.

use super::SqliteStore;
use crate::moment::{from_millis, to_millis};
use crate::{
    DerivedKey, ExecutionRecord, Kept, ListedTools, MAX_PAGE, Owner, Shape, Store, StoreError, TaskState, ToolDecision,
    bounds, sign_in_secret,
};
use async_trait::async_trait;
use coracle_types::{ExecutionId, Secret, ServerName, UserId};
use serde::de::DeserializeOwned;
use serde_json::Value;
use sqlx::Connection as _;
use std::fmt::Display;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

/// Old executions are deleted once per this number of new ones.
const PRUNED_EACH: usize = 32;

type ExecutionRow = (String, Option<String>, i64, String, Vec<u8>, String, String);

#[async_trait]
impl Store for SqliteStore {
    async fn put_tools(&self, owner: &Owner, server: &ServerName, listed: &ListedTools) -> Result<(), StoreError> {
        let tools = bounds::tools(listed)?;
        let written = sqlx::query(
            "INSERT INTO server_tools (owner, server, fingerprint, tools, listed_at) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (owner, server) DO UPDATE
             SET fingerprint = excluded.fingerprint, tools = excluded.tools, listed_at = excluded.listed_at",
        )
        .bind(owner.to_string())
        .bind(server.as_str())
        .bind(&listed.fingerprint)
        .bind(tools)
        .bind(to_millis(listed.listed_at))
        .execute(&mut *self.writer().await?)
        .await;
        written.map_err(self.failed("keep the tools of a server"))?;
        Ok(())
    }

    async fn tools(&self, owner: &Owner, server: &ServerName) -> Result<Option<ListedTools>, StoreError> {
        let row: Option<(String, String, i64)> =
            sqlx::query_as("SELECT fingerprint, tools, listed_at FROM server_tools WHERE owner = ?1 AND server = ?2")
                .bind(owner.to_string())
                .bind(server.as_str())
                .fetch_optional(&self.pool)
                .await
                .map_err(self.failed("read the tools of a server"))?;
        row.map(|(fingerprint, tools, listed_at)| {
            let tools = parsed(&format!("tools of {server}"), &tools)?;
            Ok(ListedTools { fingerprint, tools, listed_at: from_millis(listed_at) })
        })
        .transpose()
    }

    async fn shape(&self, owner: &Owner, server: &ServerName, tool: &str) -> Result<Option<Shape>, StoreError> {
        let row: Option<(String, i64)> =
            sqlx::query_as("SELECT shape, version FROM shapes WHERE owner = ?1 AND server = ?2 AND tool = ?3")
                .bind(owner.to_string())
                .bind(server.as_str())
                .bind(tool)
                .fetch_optional(&self.pool)
                .await
                .map_err(self.failed("read a shape"))?;
        row.map(|(text, version)| shape(tool, &text, version)).transpose()
    }

    async fn put_shape(
        &self,
        owner: &Owner,
        server: &ServerName,
        tool: &str,
        shape: &Value,
        expected: u64,
    ) -> Result<u64, StoreError> {
        let text = bounds::shape(tool, shape)?;
        let conflict = || StoreError::Conflict { what: format!("the shape of {server}.{tool}"), expected };
        let version = i64::try_from(expected).map_err(|_| conflict())?;
        let next = version.checked_add(1).ok_or_else(conflict)?;
        let statement = if expected == 0 {
            "INSERT INTO shapes (owner, server, tool, shape, version) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (owner, server, tool) DO NOTHING"
        } else {
            "UPDATE shapes SET shape = ?4, version = ?5
             WHERE owner = ?1 AND server = ?2 AND tool = ?3 AND version = ?6"
        };
        let query =
            sqlx::query(statement).bind(owner.to_string()).bind(server.as_str()).bind(tool).bind(text).bind(next);
        let query = if expected == 0 { query } else { query.bind(version) };
        let written = query.execute(&mut *self.writer().await?).await.map_err(self.failed("keep a shape"))?;
        if written.rows_affected() == 0 { Err(conflict()) } else { Ok(expected + 1) }
    }

    async fn shapes(&self, owner: &Owner, server: &ServerName) -> Result<Vec<(String, Shape)>, StoreError> {
        let rows: Vec<(String, String, i64)> =
            sqlx::query_as("SELECT tool, shape, version FROM shapes WHERE owner = ?1 AND server = ?2 ORDER BY tool")
                .bind(owner.to_string())
                .bind(server.as_str())
                .fetch_all(&self.pool)
                .await
                .map_err(self.failed("read shapes"))?;
        let shapes = rows.into_iter().map(|(tool, text, version)| {
            let shape = shape(&tool, &text, version)?;
            Ok((tool, shape))
        });
        shapes.collect()
    }

    async fn remember(&self, user: &UserId, decision: &ToolDecision) -> Result<(), StoreError> {
        self.put_decision(user, decision).await
    }

    async fn decision(
        &self,
        user: &UserId,
        server: &ServerName,
        tool: &str,
    ) -> Result<Option<ToolDecision>, StoreError> {
        self.find_decision(user, server, tool).await
    }

    async fn decisions_about(
        &self,
        user: &UserId,
        server: &ServerName,
        tool: &str,
    ) -> Result<Vec<ToolDecision>, StoreError> {
        self.find_decisions(user, server, tool).await
    }

    async fn decisions(&self, user: &UserId) -> Result<Vec<ToolDecision>, StoreError> {
        self.all_decisions(user).await
    }

    async fn forget(&self, user: &UserId, server: &ServerName, tool: &str) -> Result<bool, StoreError> {
        self.delete_decisions(user, server, tool, None).await
    }

    async fn forget_arguments(
        &self,
        user: &UserId,
        server: &ServerName,
        tool: &str,
        arguments: &str,
    ) -> Result<bool, StoreError> {
        self.delete_decisions(user, server, tool, Some(arguments)).await
    }

    async fn forget_server(&self, server: &ServerName) -> Result<(), StoreError> {
        let failed = self.failed("forget a server");
        let mut writer = self.writer().await?;
        let mut transaction = writer.begin_with("BEGIN IMMEDIATE").await.map_err(&failed)?;
        for statement in [
            "DELETE FROM server_tools WHERE server = ?1",
            "DELETE FROM shapes WHERE server = ?1",
            "DELETE FROM decisions WHERE server = ?1",
            "DELETE FROM flow_approvals WHERE server = ?1",
        ] {
            sqlx::query(statement).bind(server.as_str()).execute(&mut *transaction).await.map_err(&failed)?;
        }
        let delete = sqlx::query("DELETE FROM secrets WHERE name = ?1").bind(sign_in_secret(server));
        delete.execute(&mut *transaction).await.map_err(&failed)?;
        transaction.commit().await.map_err(&failed)
    }

    async fn delete_user(&self, user: &UserId) -> Result<bool, StoreError> {
        let failed = self.failed("delete a user");
        let mut writer = self.writer().await?;
        let mut transaction = writer.begin_with("BEGIN IMMEDIATE").await.map_err(&failed)?;
        self.delete_data(&mut transaction, user).await?;
        for statement in [
            "DELETE FROM api_keys WHERE user_id = ?1",
            "DELETE FROM browser_sessions WHERE user_id = ?1",
            "DELETE FROM sign_in_links WHERE user_id = ?1",
        ] {
            sqlx::query(statement).bind(user.as_str()).execute(&mut *transaction).await.map_err(&failed)?;
        }
        let account = sqlx::query("DELETE FROM users WHERE id = ?1").bind(user.as_str());
        let deleted = account.execute(&mut *transaction).await.map_err(&failed)?;
        transaction.commit().await.map_err(&failed)?;
        drop(writer);
        self.durable.wait().await?;
        Ok(deleted.rows_affected() > 0)
    }

    async fn delete_user_data(&self, user: &UserId) -> Result<(), StoreError> {
        let failed = self.failed("delete the data of a user");
        let mut writer = self.writer().await?;
        let mut transaction = writer.begin_with("BEGIN IMMEDIATE").await.map_err(&failed)?;
        self.delete_data(&mut transaction, user).await?;
        transaction.commit().await.map_err(&failed)?;
        drop(writer);
        self.durable.wait().await
    }

    async fn erase_deleted(&self) -> Result<(), StoreError> {
        self.erase().await
    }

    async fn put_secret(&self, owner: &Owner, name: &str, secret: &Secret) -> Result<(), StoreError> {
        bounds::secret(name, secret)?;
        self.vault.put(self, owner, name, secret).await
    }

    async fn secret(&self, owner: &Owner, name: &str) -> Result<Option<Secret>, StoreError> {
        self.vault.get(self, owner, name).await
    }

    async fn secret_names(&self, owner: &Owner) -> Result<Vec<String>, StoreError> {
        let names = sqlx::query_scalar("SELECT name FROM secrets WHERE owner = ?1 ORDER BY name");
        names.bind(owner.to_string()).fetch_all(&self.pool).await.map_err(self.failed("list secrets"))
    }

    async fn delete_secret(&self, owner: &Owner, name: &str) -> Result<bool, StoreError> {
        let deleted = sqlx::query("DELETE FROM secrets WHERE owner = ?1 AND name = ?2")
            .bind(owner.to_string())
            .bind(name)
            .execute(&mut *self.writer().await?)
            .await
            .map_err(self.failed("delete a secret"))?;
        Ok(deleted.rows_affected() > 0)
    }

    async fn derived_key(&self, purpose: &str) -> Result<DerivedKey, StoreError> {
        self.vault.derived(self, purpose).await
    }

    fn keep(&self, kept: Kept) {
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = kept.sane();
    }

    async fn ready(&self) -> Result<(), StoreError> {
        self.look().await
    }

    async fn record(&self, record: &ExecutionRecord) -> Result<(), StoreError> {
        let outcome = bounds::record(record)?;
        let is_begin = record.state == TaskState::Running;
        let instance = if is_begin { Some(self.life.name().await?) } else { None };
        let statement = if is_begin {
            "INSERT INTO executions (user_id, execution_id, session_id, started_at, language, code, outcome, state, instance)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
             ON CONFLICT (user_id, execution_id) DO NOTHING"
        } else {
            "INSERT INTO executions (user_id, execution_id, session_id, started_at, language, code, outcome, state, instance)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
             ON CONFLICT (user_id, execution_id) DO UPDATE
             SET session_id = excluded.session_id, started_at = excluded.started_at, language = excluded.language,
                 code = excluded.code, outcome = excluded.outcome, state = excluded.state, instance = excluded.instance"
        };
        let written = sqlx::query(statement)
            .bind(record.user.as_str())
            .bind(record.execution_id.as_str())
            .bind(record.session.as_ref().map(|session| session.as_str().to_owned()))
            .bind(to_millis(record.started_at))
            .bind(record.language.as_str())
            .bind(record.code.as_bytes())
            .bind(outcome)
            .bind(record.state.as_str())
            .bind(instance)
            .execute(&mut *self.writer().await?)
            .await;
        written.map_err(self.failed("keep an execution"))?;
        if is_begin {
            return Ok(());
        }
        // Separate from the write above, and not each time: a few too many executions may stay for a while.
        if !self.recorded.fetch_add(1, Ordering::Relaxed).is_multiple_of(PRUNED_EACH) {
            return Ok(());
        }
        let pruned = sqlx::query(
            "DELETE FROM executions WHERE user_id = ?1 AND (started_at, execution_id) < (
                 SELECT started_at, execution_id FROM executions WHERE user_id = ?1
                 ORDER BY started_at DESC, execution_id DESC LIMIT 1 OFFSET ?2)",
        )
        .bind(record.user.as_str())
        .bind(count(self.kept().executions - 1))
        .execute(&mut *self.writer().await?)
        .await;
        pruned.map_err(self.failed("drop old executions"))?;
        Ok(())
    }

    async fn execution(&self, user: &UserId, id: &ExecutionId) -> Result<Option<ExecutionRecord>, StoreError> {
        let row: Option<ExecutionRow> = sqlx::query_as(
            "SELECT execution_id, session_id, started_at, language, code, outcome, state FROM executions
             WHERE user_id = ?1 AND execution_id = ?2",
        )
        .bind(user.as_str())
        .bind(id.as_str())
        .fetch_optional(&self.pool)
        .await
        .map_err(self.failed("read an execution"))?;
        row.map(|row| execution(user, row)).transpose()
    }

    async fn executions(
        &self,
        user: &UserId,
        limit: usize,
        before: Option<&ExecutionId>,
    ) -> Result<Vec<ExecutionRecord>, StoreError> {
        let rows: Vec<ExecutionRow> = sqlx::query_as(
            "SELECT execution_id, session_id, started_at, language, code, outcome, state FROM executions
             WHERE user_id = ?1 AND (?2 IS NULL OR (started_at, execution_id) < (
                 SELECT started_at, execution_id FROM executions WHERE user_id = ?1 AND execution_id = ?2))
             ORDER BY started_at DESC, execution_id DESC LIMIT ?3",
        )
        .bind(user.as_str())
        .bind(before.map(|id| id.as_str().to_owned()))
        .bind(count(limit.min(MAX_PAGE)))
        .fetch_all(&self.pool)
        .await
        .map_err(self.failed("read executions"))?;
        rows.into_iter().map(|row| execution(user, row)).collect()
    }
}

pub(super) fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(super) fn damaged(what: &str, reason: impl Display) -> StoreError {
    StoreError::Damaged { what: what.to_owned(), reason: reason.to_string() }
}

pub(super) fn known_state(what: &str, word: &str) -> Result<TaskState, StoreError> {
    let states = [TaskState::Running, TaskState::Done, TaskState::Interrupted];
    let known = states.into_iter().find(|known| known.as_str() == word);
    known.ok_or_else(|| damaged(what, "its state is not known"))
}

pub(super) fn parsed<T: DeserializeOwned>(what: &str, text: &str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|error| damaged(what, error))
}

fn shape(tool: &str, text: &str, version: i64) -> Result<Shape, StoreError> {
    let what = format!("shape of {tool:?}");
    let version = u64::try_from(version).map_err(|error| damaged(&what, error))?;
    Ok(Shape { value: parsed(&what, text)?, version })
}

fn execution(
    user: &UserId,
    (id, session, started_at, language, code, outcome, state): ExecutionRow,
) -> Result<ExecutionRecord, StoreError> {
    let what = format!("execution {id:?}");
    Ok(ExecutionRecord {
        execution_id: ExecutionId::new(&id).map_err(|error| damaged(&what, error))?,
        user: user.clone(),
        session: session.map(coracle_types::SessionId::new).transpose().map_err(|error| damaged(&what, error))?,
        started_at: from_millis(started_at),
        language: language.parse().map_err(|error| damaged(&what, error))?,
        code: String::from_utf8(code).map_err(|error| damaged(&what, error))?,
        state: known_state(&what, &state)?,
        outcome: parsed(&what, &outcome)?,
    })
}
