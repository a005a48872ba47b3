//! The log of sessions, as rows.

use super::SqliteStore;
use super::rows::{count, damaged, parsed};
use crate::moment::{from_millis, to_millis};
use crate::{
    Checkpoint, Journal, KEPT_CHECKPOINTS, KEPT_RECORDINGS, LostTask, MAX_PAGE, NewTask, SessionRecord, StoreError,
    TaskEnd, TaskRecord, TaskState, bounds,
};
use async_trait::async_trait;
use coracle_types::{ExecutionId, SessionId, UserId};
use serde_json::Value;
use sqlx::Connection as _;
use std::time::SystemTime;

/// Old tasks are deleted once per this number of new ones.
const PRUNED_EACH: u64 = 16;

type SessionRow = (String, i64, Option<String>, i64, i64, Option<i64>, i64);

/// Number, execution, description, language, code, variables, state, begin, end, outcome.
type TaskRow = (i64, String, Option<String>, String, Vec<u8>, Option<String>, String, i64, Option<i64>, Option<String>);

#[async_trait]
impl Journal for SqliteStore {
    async fn open_session(
        &self,
        user: &UserId,
        new_id: &SessionId,
        label: Option<&str>,
        at: SystemTime,
    ) -> Result<SessionRecord, StoreError> {
        let failed = self.failed("open a session");
        if let Some(label) = label {
            bounds::label(label)?;
            if let Some(found) = self.open_labelled(user, label).await? {
                return Ok(found);
            }
        }
        let mut writer = self.writer().await?;
        let mut transaction = writer.begin_with("BEGIN IMMEDIATE").await.map_err(&failed)?;
        // Another process may have been faster: then the label is taken, and its session is used.
        let made = sqlx::query(
            "INSERT INTO sessions (user_id, session_id, number, label, started_at, last_used)
             SELECT ?1, ?2, COALESCE(MAX(number), 0) + 1, ?3, ?4, ?4 FROM sessions WHERE user_id = ?1
             ON CONFLICT (user_id, label) WHERE ended_at IS NULL DO NOTHING",
        )
        .bind(user.as_str())
        .bind(new_id.as_str())
        .bind(label)
        .bind(to_millis(at))
        .execute(&mut *transaction)
        .await
        .map_err(&failed)?;
        if made.rows_affected() > 0 {
            let kept = self.kept();
            // Sessions that may have an interpreter are in use, however many there are.
            sqlx::query(
                "DELETE FROM sessions WHERE user_id = ?1 AND session_id <> ?2 AND session_id IN (
                     SELECT session_id FROM sessions WHERE user_id = ?1
                     ORDER BY last_used DESC, number DESC LIMIT -1 OFFSET ?3)
                 AND (ended_at IS NOT NULL OR (last_used <= ?4 AND NOT EXISTS (
                     SELECT 1 FROM tasks WHERE tasks.user_id = sessions.user_id
                     AND tasks.session_id = sessions.session_id AND tasks.number = sessions.tasks
                     AND (tasks.state = 'running' OR tasks.ended_at > ?4))))",
            )
            .bind(user.as_str())
            .bind(new_id.as_str())
            .bind(count(kept.sessions))
            .bind(to_millis(at.checked_sub(kept.live_for).unwrap_or(SystemTime::UNIX_EPOCH)))
            .execute(&mut *transaction)
            .await
            .map_err(&failed)?;
        }
        transaction.commit().await.map_err(&failed)?;
        drop(writer);
        let found = match label {
            Some(label) => self.open_labelled(user, label).await?,
            None => self.session(user, new_id).await?,
        };
        found.ok_or_else(|| StoreError::NoSession { id: new_id.to_string() })
    }

    async fn session(&self, user: &UserId, id: &SessionId) -> Result<Option<SessionRecord>, StoreError> {
        let row: Option<SessionRow> = sqlx::query_as(
            "SELECT session_id, number, label, started_at, last_used, ended_at, tasks FROM sessions
             WHERE user_id = ?1 AND session_id = ?2",
        )
        .bind(user.as_str())
        .bind(id.as_str())
        .fetch_optional(&self.pool)
        .await
        .map_err(self.failed("read a session"))?;
        row.map(session).transpose()
    }

    async fn session_labelled(&self, user: &UserId, label: &str) -> Result<Option<SessionRecord>, StoreError> {
        let row: Option<SessionRow> = sqlx::query_as(
            "SELECT session_id, number, label, started_at, last_used, ended_at, tasks FROM sessions
             WHERE user_id = ?1 AND label = ?2 ORDER BY ended_at IS NOT NULL, number DESC LIMIT 1",
        )
        .bind(user.as_str())
        .bind(label)
        .fetch_optional(&self.pool)
        .await
        .map_err(self.failed("read a session"))?;
        row.map(session).transpose()
    }

    async fn sessions(
        &self,
        user: &UserId,
        limit: usize,
        before: Option<u64>,
    ) -> Result<Vec<SessionRecord>, StoreError> {
        let rows: Vec<SessionRow> = sqlx::query_as(
            "SELECT session_id, number, label, started_at, last_used, ended_at, tasks FROM sessions
             WHERE user_id = ?1 AND (?2 IS NULL OR number < ?2) ORDER BY number DESC LIMIT ?3",
        )
        .bind(user.as_str())
        .bind(before.map(number))
        .bind(count(limit.min(MAX_PAGE)))
        .fetch_all(&self.pool)
        .await
        .map_err(self.failed("read sessions"))?;
        rows.into_iter().map(session).collect()
    }

    async fn end_session(&self, user: &UserId, id: &SessionId, at: SystemTime) -> Result<bool, StoreError> {
        let ended = sqlx::query(
            "UPDATE sessions SET ended_at = ?3 WHERE user_id = ?1 AND session_id = ?2 AND ended_at IS NULL",
        )
        .bind(user.as_str())
        .bind(id.as_str())
        .bind(to_millis(at))
        .execute(&mut *self.writer().await?)
        .await
        .map_err(self.failed("end a session"))?;
        self.durable.wait().await?;
        Ok(ended.rows_affected() > 0)
    }

    async fn delete_session(&self, user: &UserId, id: &SessionId) -> Result<bool, StoreError> {
        let deleted = sqlx::query(
            "DELETE FROM sessions WHERE user_id = ?1 AND session_id = ?2 AND NOT EXISTS (
               SELECT 1 FROM tasks WHERE tasks.user_id = ?1 AND tasks.session_id = ?2 AND state = 'running')",
        )
        .bind(user.as_str())
        .bind(id.as_str())
        .execute(&mut *self.writer().await?)
        .await
        .map_err(self.failed("delete a session"))?;
        self.durable.wait().await?;
        Ok(deleted.rows_affected() > 0)
    }

    async fn begin_task(&self, user: &UserId, session: &SessionId, task: &NewTask) -> Result<u64, StoreError> {
        let failed = self.failed("begin a task");
        let vars = bounds::task(task)?;
        let instance = self.life.name().await?;
        let mut writer = self.writer().await?;
        // One statement, because each one is a round trip to SQLite's thread that the code waits for. All rows are
        // fetched: the statement commits, and may fail to, after the last row.
        let own: Vec<i64> = sqlx::query_scalar(
            "INSERT INTO tasks (user_id, session_id, number, execution_id, instance, description, language, code, vars,
                                state, started_at)
             SELECT user_id, session_id, tasks + 1, ?3, ?4, ?5, ?6, ?7, ?8, 'running', ?9 FROM sessions
             WHERE user_id = ?1 AND session_id = ?2 AND ended_at IS NULL RETURNING number",
        )
        .bind(user.as_str())
        .bind(session.as_str())
        .bind(task.execution_id.as_str())
        .bind(instance)
        .bind(task.description.as_deref())
        .bind(task.language.as_str())
        .bind(task.code.as_bytes())
        .bind(vars)
        .bind(to_millis(task.started_at))
        .fetch_all(&mut *writer)
        .await
        .map_err(&failed)?;
        let Some(own) = own.first() else { return Err(StoreError::NoSession { id: session.to_string() }) };
        let begun = unsigned("task", *own)?;
        if begun.is_multiple_of(PRUNED_EACH) {
            for (statement, kept) in [
                ("DELETE FROM tasks WHERE user_id = ?1 AND session_id = ?2 AND number <= ?3", self.kept().tasks),
                (
                    "UPDATE tasks SET recording = NULL
                     WHERE user_id = ?1 AND session_id = ?2 AND number <= ?3 AND recording IS NOT NULL",
                    KEPT_RECORDINGS,
                ),
            ] {
                let pruned = sqlx::query(statement)
                    .bind(user.as_str())
                    .bind(session.as_str())
                    .bind(number(begun.saturating_sub(kept)))
                    .execute(&mut *writer)
                    .await;
                // The task has begun. A few too many tasks may stay for a while.
                if let Err(error) = pruned.map_err(self.failed("drop old tasks")) {
                    tracing::warn!(%session, %error, "cannot delete old tasks of a session");
                }
            }
        }
        Ok(begun)
    }

    async fn finish_task(
        &self,
        user: &UserId,
        session: &SessionId,
        task: u64,
        end: &TaskEnd,
    ) -> Result<(), StoreError> {
        let (outcome, recording) = bounds::task_end(end)?;
        let written = sqlx::query(
            "UPDATE tasks SET state = ?4, ended_at = ?5, outcome = ?6, recording = ?7
             WHERE user_id = ?1 AND session_id = ?2 AND number = ?3 AND state = 'running'",
        )
        .bind(user.as_str())
        .bind(session.as_str())
        .bind(number(task))
        .bind(end.state.as_str())
        .bind(to_millis(end.ended_at))
        .bind(outcome)
        .bind(recording)
        .execute(&mut *self.writer().await?)
        .await;
        written.map_err(self.failed("finish a task"))?;
        self.durable.wait().await
    }

    async fn tasks(
        &self,
        user: &UserId,
        session: &SessionId,
        limit: usize,
        before: Option<u64>,
    ) -> Result<Vec<TaskRecord>, StoreError> {
        let rows: Vec<TaskRow> = sqlx::query_as(
            "SELECT number, execution_id, description, language, code, vars, state, started_at, ended_at, outcome
             FROM tasks WHERE user_id = ?1 AND session_id = ?2 AND (?3 IS NULL OR number < ?3)
             ORDER BY number DESC LIMIT ?4",
        )
        .bind(user.as_str())
        .bind(session.as_str())
        .bind(before.map(number))
        .bind(count(limit.min(MAX_PAGE)))
        .fetch_all(&self.pool)
        .await
        .map_err(self.failed("read tasks"))?;
        rows.into_iter().map(task).collect()
    }

    async fn recording(&self, user: &UserId, session: &SessionId, task: u64) -> Result<Option<Value>, StoreError> {
        let text: Option<Option<String>> =
            sqlx::query_scalar("SELECT recording FROM tasks WHERE user_id = ?1 AND session_id = ?2 AND number = ?3")
                .bind(user.as_str())
                .bind(session.as_str())
                .bind(number(task))
                .fetch_optional(&self.pool)
                .await
                .map_err(self.failed("read a recording"))?;
        text.flatten().map(|text| parsed("recording", &text)).transpose()
    }

    async fn checkpoint(&self, user: &UserId, session: &SessionId, checkpoint: &Checkpoint) -> Result<(), StoreError> {
        let failed = self.failed("keep a checkpoint");
        let context = bounds::checkpoint(checkpoint)?;
        let mut writer = self.writer().await?;
        let mut transaction = writer.begin_with("BEGIN IMMEDIATE").await.map_err(&failed)?;
        let own: Option<i64> = sqlx::query_scalar(
            "UPDATE sessions SET checkpoints = checkpoints + 1
             WHERE user_id = ?1 AND session_id = ?2 AND ended_at IS NULL RETURNING checkpoints",
        )
        .bind(user.as_str())
        .bind(session.as_str())
        .fetch_optional(&mut *transaction)
        .await
        .map_err(&failed)?;
        let Some(own) = own else { return Err(StoreError::NoSession { id: session.to_string() }) };
        sqlx::query(
            "INSERT INTO checkpoints (user_id, session_id, number, step, context, last_task, made_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )
        .bind(user.as_str())
        .bind(session.as_str())
        .bind(own)
        .bind(&checkpoint.step)
        .bind(context)
        .bind(number(checkpoint.last_task))
        .bind(to_millis(checkpoint.made_at))
        .execute(&mut *transaction)
        .await
        .map_err(&failed)?;
        sqlx::query("DELETE FROM checkpoints WHERE user_id = ?1 AND session_id = ?2 AND number <= ?3")
            .bind(user.as_str())
            .bind(session.as_str())
            .bind(own.saturating_sub(number(KEPT_CHECKPOINTS)))
            .execute(&mut *transaction)
            .await
            .map_err(&failed)?;
        transaction.commit().await.map_err(&failed)?;
        drop(writer);
        self.durable.wait().await
    }

    async fn last_checkpoint(&self, user: &UserId, session: &SessionId) -> Result<Option<Checkpoint>, StoreError> {
        let row: Option<(String, String, i64, i64)> = sqlx::query_as(
            "SELECT step, context, last_task, made_at FROM checkpoints WHERE user_id = ?1 AND session_id = ?2
             ORDER BY number DESC LIMIT 1",
        )
        .bind(user.as_str())
        .bind(session.as_str())
        .fetch_optional(&self.pool)
        .await
        .map_err(self.failed("read a checkpoint"))?;
        row.map(|(step, context, last_task, made_at)| {
            Ok(Checkpoint {
                context: parsed("context of a checkpoint", &context)?,
                last_task: unsigned("checkpoint", last_task)?,
                made_at: from_millis(made_at),
                step,
            })
        })
        .transpose()
    }

    async fn interrupt_lost(&self) -> Result<Vec<LostTask>, StoreError> {
        let failed = self.failed("mark what was interrupted");
        let running: Vec<String> = sqlx::query_scalar("SELECT DISTINCT instance FROM tasks WHERE state = 'running'")
            .fetch_all(&self.pool)
            .await
            .map_err(&failed)?;
        let mut lost = Vec::new();
        for instance in self.life.gone(running).await? {
            let rows: Vec<(String, String, i64)> = sqlx::query_as(
                "UPDATE tasks SET state = 'interrupted' WHERE state = 'running' AND instance = ?1
                 RETURNING user_id, session_id, number",
            )
            .bind(instance)
            .fetch_all(&mut *self.writer().await?)
            .await
            .map_err(&failed)?;
            for (user, session, number) in rows {
                lost.push(LostTask {
                    user: UserId::new(user).map_err(|error| damaged("user of a task", error))?,
                    session: SessionId::new(session).map_err(|error| damaged("session of a task", error))?,
                    number: unsigned("task", number)?,
                });
            }
        }
        let running: Vec<String> =
            sqlx::query_scalar("SELECT DISTINCT instance FROM executions WHERE state = 'running'")
                .fetch_all(&self.pool)
                .await
                .map_err(&failed)?;
        for instance in self.life.gone(running).await? {
            sqlx::query(
                "UPDATE executions SET state = 'interrupted', outcome = ?2 WHERE state = 'running' AND instance = ?1",
            )
            .bind(instance)
            .bind(bounds::lost().to_string())
            .execute(&mut *self.writer().await?)
            .await
            .map_err(&failed)?;
        }
        Ok(lost)
    }
}

impl SqliteStore {
    async fn open_labelled(&self, user: &UserId, label: &str) -> Result<Option<SessionRecord>, StoreError> {
        let row: Option<SessionRow> = sqlx::query_as(
            "SELECT session_id, number, label, started_at, last_used, ended_at, tasks FROM sessions
             WHERE user_id = ?1 AND label = ?2 AND ended_at IS NULL",
        )
        .bind(user.as_str())
        .bind(label)
        .fetch_optional(&self.pool)
        .await
        .map_err(self.failed("read a session"))?;
        row.map(session).transpose()
    }
}

pub(super) fn known_state(what: &str, word: &str) -> Result<TaskState, StoreError> {
    let states = [TaskState::Running, TaskState::Done, TaskState::Interrupted];
    let known = states.into_iter().find(|known| known.as_str() == word);
    known.ok_or_else(|| damaged(what, "its state is not known"))
}

fn number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn unsigned(what: &str, number: i64) -> Result<u64, StoreError> {
    u64::try_from(number).map_err(|error| damaged(what, error))
}

fn session(
    (id, number, label, started_at, last_used, ended_at, tasks): SessionRow,
) -> Result<SessionRecord, StoreError> {
    Ok(SessionRecord {
        id: SessionId::new(id).map_err(|error| damaged("id of a session", error))?,
        number: unsigned("number of a session", number)?,
        label,
        started_at: from_millis(started_at),
        last_used: from_millis(last_used),
        ended_at: ended_at.map(from_millis),
        tasks: unsigned("number of tasks", tasks)?,
    })
}

fn task(
    (number, execution_id, description, language, code, vars, state, started_at, ended_at, outcome): TaskRow,
) -> Result<TaskRecord, StoreError> {
    let what = format!("task {number}");
    Ok(TaskRecord {
        number: unsigned(&what, number)?,
        begun: NewTask {
            execution_id: ExecutionId::new(&execution_id).map_err(|error| damaged(&what, error))?,
            description,
            language: language.parse().map_err(|error| damaged(&what, error))?,
            code: String::from_utf8(code).map_err(|error| damaged(&what, error))?,
            vars: vars.map(|vars| parsed(&what, &vars)).transpose()?,
            started_at: from_millis(started_at),
        },
        state: known_state(&what, &state)?,
        ended_at: ended_at.map(from_millis),
        outcome: outcome.map(|outcome| parsed(&what, &outcome)).transpose()?,
    })
}
