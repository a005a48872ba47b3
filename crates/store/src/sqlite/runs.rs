//! Conversations and runs, as rows.

use super::SqliteStore;
use super::rows::{count, damaged, parsed};
use crate::moment::{from_millis, to_millis};
use crate::{
    ConversationRecord, ItemPage, ItemRecord, ItemsOf, MAX_ITEMS, MAX_PAGE, NewItem, NewRun, NewStep, Progress,
    RunCall, RunRecord, RunState, Runs, StepKind, StepRecord, StoreError, bounds,
};
use async_trait::async_trait;
use coracle_types::{ConversationId, ItemId, RunId, UserId};
use serde_json::{Map, Value};
use sqlx::sqlite::SqliteConnection;
use sqlx::{AssertSqlSafe, Connection as _};
use std::time::SystemTime;

pub(super) type ConversationRow = (String, Option<String>, String, i64, i64);
/// ID, conversation, previous, background, request, state, attempts, creation, end, outcome.
pub(super) type RunRow =
    (String, Option<String>, Option<String>, bool, String, String, i64, i64, Option<i64>, Option<String>);
type ItemRow = (String, Option<String>, bool, String);

pub(super) const RUN: &str =
    "SELECT run_id, conversation_id, previous_id, is_background, request, state, attempts, created_at,
    ended_at, outcome FROM runs";
pub(super) const CONVERSATION: &str =
    "SELECT conversation_id, title, metadata, created_at, changed_at FROM conversations";

#[async_trait]
impl Runs for SqliteStore {
    async fn create_conversation(
        &self,
        user: &UserId,
        conversation: &ConversationRecord,
        items: &[NewItem],
    ) -> Result<(), StoreError> {
        let failed = self.failed("create a conversation");
        let metadata = bounds::conversation(conversation.title.as_deref(), &conversation.metadata)?;
        let items = bounds::items(items)?;
        let mut writer = self.writer().await?;
        let mut transaction = writer.begin_with("BEGIN IMMEDIATE").await.map_err(&failed)?;
        insert_conversation(&mut transaction, user, conversation, metadata, &failed).await?;
        self.insert(&mut transaction, user, &items, Some(&conversation.id), None, false).await?;
        transaction.commit().await.map_err(&failed)?;
        drop(writer);
        self.durable.wait().await
    }

    async fn conversation(&self, user: &UserId, id: &ConversationId) -> Result<Option<ConversationRecord>, StoreError> {
        let row: Option<ConversationRow> =
            sqlx::query_as(AssertSqlSafe(format!("{CONVERSATION} WHERE user_id = ?1 AND conversation_id = ?2")))
                .bind(user.as_str())
                .bind(id.as_str())
                .fetch_optional(&self.pool)
                .await
                .map_err(self.failed("read a conversation"))?;
        row.map(conversation).transpose()
    }

    async fn conversations(
        &self,
        user: &UserId,
        limit: usize,
        before: Option<&ConversationId>,
    ) -> Result<Vec<ConversationRecord>, StoreError> {
        let rows: Vec<ConversationRow> = sqlx::query_as(AssertSqlSafe(format!(
            "{CONVERSATION} WHERE user_id = ?1 AND (?2 IS NULL OR (changed_at, conversation_id) < (
                 SELECT changed_at, conversation_id FROM conversations WHERE user_id = ?1 AND conversation_id = ?2))
             ORDER BY changed_at DESC, conversation_id DESC LIMIT ?3"
        )))
        .bind(user.as_str())
        .bind(before.map(ConversationId::as_str))
        .bind(count(limit.min(MAX_PAGE)))
        .fetch_all(&self.pool)
        .await
        .map_err(self.failed("read conversations"))?;
        rows.into_iter().map(conversation).collect()
    }

    async fn update_conversation(
        &self,
        user: &UserId,
        id: &ConversationId,
        metadata: &Map<String, Value>,
    ) -> Result<bool, StoreError> {
        let metadata = bounds::conversation(None, metadata)?;
        let changed = sqlx::query("UPDATE conversations SET metadata = ?3 WHERE user_id = ?1 AND conversation_id = ?2")
            .bind(user.as_str())
            .bind(id.as_str())
            .bind(metadata)
            .execute(&mut *self.writer().await?)
            .await
            .map_err(self.failed("change a conversation"))?;
        Ok(changed.rows_affected() > 0)
    }

    async fn delete_conversation(&self, user: &UserId, id: &ConversationId) -> Result<bool, StoreError> {
        let deleted = sqlx::query(
            "DELETE FROM conversations WHERE user_id = ?1 AND conversation_id = ?2 AND NOT EXISTS (
               SELECT 1 FROM runs WHERE user_id = ?1 AND conversation_id = ?2 AND state = 'running')",
        )
        .bind(user.as_str())
        .bind(id.as_str())
        .execute(&mut *self.writer().await?)
        .await
        .map_err(self.failed("delete a conversation"))?;
        self.durable.wait().await?;
        Ok(deleted.rows_affected() > 0)
    }

    async fn add_items(
        &self,
        user: &UserId,
        id: &ConversationId,
        items: &[NewItem],
        at: SystemTime,
    ) -> Result<(), StoreError> {
        let failed = self.failed("add to a conversation");
        let items = bounds::items(items)?;
        let mut writer = self.writer().await?;
        let mut transaction = writer.begin_with("BEGIN IMMEDIATE").await.map_err(&failed)?;
        self.touch_idle(&mut transaction, user, id, at).await?;
        self.insert(&mut transaction, user, &items, Some(id), None, false).await?;
        transaction.commit().await.map_err(&failed)?;
        drop(writer);
        self.durable.wait().await
    }

    async fn item(&self, user: &UserId, id: &ItemId) -> Result<Option<ItemRecord>, StoreError> {
        let row: Option<ItemRow> =
            sqlx::query_as("SELECT item_id, run_id, is_output, content FROM items WHERE user_id = ?1 AND item_id = ?2")
                .bind(user.as_str())
                .bind(id.as_str())
                .fetch_optional(&self.pool)
                .await
                .map_err(self.failed("read an item"))?;
        row.map(item).transpose()
    }

    async fn delete_item(&self, user: &UserId, of: &ConversationId, id: &ItemId) -> Result<bool, StoreError> {
        let deleted = sqlx::query(
            "DELETE FROM items WHERE user_id = ?1 AND conversation_id = ?2 AND item_id = ?3 AND NOT EXISTS (
               SELECT 1 FROM runs WHERE user_id = ?1 AND conversation_id = ?2 AND state = 'running')",
        )
        .bind(user.as_str())
        .bind(of.as_str())
        .bind(id.as_str())
        .execute(&mut *self.writer().await?)
        .await
        .map_err(self.failed("delete an item"))?;
        self.durable.wait().await?;
        Ok(deleted.rows_affected() > 0)
    }

    async fn items(&self, user: &UserId, of: ItemsOf<'_>, page: ItemPage<'_>) -> Result<Vec<ItemRecord>, StoreError> {
        let (column, id) = match of {
            ItemsOf::Run(id) => ("run_id", id.as_str()),
            ItemsOf::Conversation(id) => ("conversation_id", id.as_str()),
        };
        let (sign, order) = if page.newest_first { ("<", "DESC") } else { (">", "ASC") };
        let rows: Vec<ItemRow> = sqlx::query_as(AssertSqlSafe(format!(
            "SELECT item_id, run_id, is_output, content FROM items WHERE user_id = ?1 AND {column} = ?2
             AND (?3 IS NULL OR position {sign} (
                 SELECT position FROM items WHERE user_id = ?1 AND {column} = ?2 AND item_id = ?3))
             ORDER BY position {order} LIMIT ?4"
        )))
        .bind(user.as_str())
        .bind(id)
        .bind(page.after.map(ItemId::as_str))
        .bind(count(page.limit.unwrap_or(MAX_ITEMS).min(MAX_ITEMS)))
        .fetch_all(&self.pool)
        .await
        .map_err(self.failed("read items"))?;
        rows.into_iter().map(item).collect()
    }

    async fn begin_run(&self, user: &UserId, run: &NewRun) -> Result<(), StoreError> {
        let failed = self.failed("begin a run");
        let request = bounds::run(run)?;
        let items = bounds::items(&run.input)?;
        let instance = self.life.name().await?;
        let mut writer = self.writer().await?;
        let mut transaction = writer.begin_with("BEGIN IMMEDIATE").await.map_err(&failed)?;
        if let Some(conversation) = &run.conversation {
            self.touch_idle(&mut transaction, user, conversation, run.created_at).await?;
        }
        sqlx::query(
            "INSERT INTO runs (user_id, run_id, conversation_id, previous_id, is_background, request, state, instance,
                               created_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, 'running', ?7, ?8)",
        )
        .bind(user.as_str())
        .bind(run.id.as_str())
        .bind(run.conversation.as_ref().map(ConversationId::as_str))
        .bind(run.previous.as_ref().map(RunId::as_str))
        .bind(run.is_background)
        .bind(request)
        .bind(instance)
        .bind(to_millis(run.created_at))
        .execute(&mut *transaction)
        .await
        .map_err(taken("run", run.id.as_str(), &failed))?;
        self.insert(&mut transaction, user, &items, run.conversation.as_ref(), Some(&run.id), false).await?;
        if let Some(step) = &run.begun {
            self.begin_step(&mut transaction, user, &run.id, step).await?;
        }
        if let Some(earlier) = &run.continues {
            self.hand_over(&mut transaction, user, earlier, run).await?;
        }
        transaction.commit().await.map_err(&failed)?;
        drop(writer);
        self.durable.wait().await
    }

    async fn advance(&self, user: &UserId, run: &RunId, progress: &Progress) -> Result<(), StoreError> {
        let failed = self.failed("keep the progress of a run");
        let kept = bounds::progress(progress)?;
        let mut writer = self.writer().await?;
        let mut transaction = writer.begin_with("BEGIN IMMEDIATE").await.map_err(&failed)?;
        let conversation: Option<Option<String>> = sqlx::query_scalar(
            "SELECT conversation_id FROM runs WHERE user_id = ?1 AND run_id = ?2 AND state = 'running'",
        )
        .bind(user.as_str())
        .bind(run.as_str())
        .fetch_optional(&mut *transaction)
        .await
        .map_err(&failed)?;
        let Some(conversation) = conversation else { return Err(StoreError::NoRun { id: run.to_string() }) };
        let conversation = conversation.map(|id| ConversationId::new(id).map_err(|error| damaged("run", error)));
        let conversation = conversation.transpose()?;
        for (end, outcome) in progress.ended.iter().zip(&kept.outcomes) {
            sqlx::query(
                "UPDATE steps SET ended_at = ?5, outcome = ?6 WHERE user_id = ?1 AND run_id = ?2 AND number = (
                     SELECT MAX(number) FROM steps WHERE user_id = ?1 AND run_id = ?2 AND kind = ?3 AND subject = ?4
                     AND ended_at IS NULL)",
            )
            .bind(user.as_str())
            .bind(run.as_str())
            .bind(end.kind.as_str())
            .bind(&end.subject)
            .bind(to_millis(end.ended_at))
            .bind(outcome)
            .execute(&mut *transaction)
            .await
            .map_err(&failed)?;
        }
        self.insert(&mut transaction, user, &kept.items, conversation.as_ref(), Some(run), true).await?;
        for step in &progress.begun {
            self.begin_step(&mut transaction, user, run, step).await?;
        }
        if let (Some(end), Some(outcome)) = (&progress.end, &kept.end) {
            sqlx::query("UPDATE runs SET state = ?3, ended_at = ?4, outcome = ?5 WHERE user_id = ?1 AND run_id = ?2")
                .bind(user.as_str())
                .bind(run.as_str())
                .bind(end.state.as_str())
                .bind(to_millis(end.ended_at))
                .bind(outcome)
                .execute(&mut *transaction)
                .await
                .map_err(&failed)?;
            self.forget_calls(&mut transaction, user, run).await?;
            sqlx::query("UPDATE conversations SET changed_at = ?3 WHERE user_id = ?1 AND conversation_id = ?2")
                .bind(user.as_str())
                .bind(conversation.as_ref().map(ConversationId::as_str))
                .bind(to_millis(end.ended_at))
                .execute(&mut *transaction)
                .await
                .map_err(&failed)?;
        }
        transaction.commit().await.map_err(&failed)?;
        drop(writer);
        self.durable.wait().await
    }

    async fn run(&self, user: &UserId, id: &RunId) -> Result<Option<RunRecord>, StoreError> {
        let row: Option<RunRow> = sqlx::query_as(AssertSqlSafe(format!("{RUN} WHERE user_id = ?1 AND run_id = ?2")))
            .bind(user.as_str())
            .bind(id.as_str())
            .fetch_optional(&self.pool)
            .await
            .map_err(self.failed("read a run"))?;
        row.map(run).transpose()
    }

    async fn runs(&self, user: &UserId, limit: usize, before: Option<&RunId>) -> Result<Vec<RunRecord>, StoreError> {
        let rows: Vec<RunRow> = sqlx::query_as(AssertSqlSafe(format!(
            "{RUN} WHERE user_id = ?1 AND (?2 IS NULL OR (created_at, run_id) < (
                 SELECT created_at, run_id FROM runs WHERE user_id = ?1 AND run_id = ?2))
             ORDER BY created_at DESC, run_id DESC LIMIT ?3"
        )))
        .bind(user.as_str())
        .bind(before.map(RunId::as_str))
        .bind(count(limit.min(MAX_PAGE)))
        .fetch_all(&self.pool)
        .await
        .map_err(self.failed("read runs"))?;
        rows.into_iter().map(run).collect()
    }

    async fn delete_run(&self, user: &UserId, id: &RunId) -> Result<bool, StoreError> {
        let deleted = sqlx::query("DELETE FROM runs WHERE user_id = ?1 AND run_id = ?2 AND state <> 'running'")
            .bind(user.as_str())
            .bind(id.as_str())
            .execute(&mut *self.writer().await?)
            .await
            .map_err(self.failed("delete a run"))?;
        self.durable.wait().await?;
        Ok(deleted.rows_affected() > 0)
    }

    async fn steps(&self, user: &UserId, run: &RunId) -> Result<Vec<StepRecord>, StoreError> {
        let rows: Vec<(i64, String, String, i64, Option<i64>, Option<String>)> = sqlx::query_as(
            "SELECT number, kind, subject, begun_at, ended_at, outcome FROM steps WHERE user_id = ?1 AND run_id = ?2
             ORDER BY number",
        )
        .bind(user.as_str())
        .bind(run.as_str())
        .fetch_all(&self.pool)
        .await
        .map_err(self.failed("read the steps of a run"))?;
        let steps = rows.into_iter().map(|(number, kind, subject, begun_at, ended_at, outcome)| {
            let known = StepKind::ALL.into_iter().find(|known| known.as_str() == kind);
            let kind = known.ok_or_else(|| damaged("step of a run", format!("unknown kind {kind:?}")))?;
            Ok(StepRecord {
                number: unsigned("step of a run", number)?,
                begun: NewStep { kind, subject, begun_at: from_millis(begun_at) },
                ended_at: ended_at.map(from_millis),
                outcome: outcome.map(|outcome| parsed("step of a run", &outcome)).transpose()?,
            })
        });
        steps.collect()
    }

    async fn begin_call(
        &self,
        user: &UserId,
        run: &RunId,
        subject: &str,
        number: u64,
        call: &Value,
    ) -> Result<(), StoreError> {
        self.put_call(user, run, subject, number, bounds::run_call(call, None)?).await?;
        self.durable.wait().await
    }

    async fn end_call(
        &self,
        user: &UserId,
        run: &RunId,
        subject: &str,
        number: u64,
        call: &Value,
        answer: &Value,
    ) -> Result<(), StoreError> {
        self.put_call(user, run, subject, number, bounds::run_call(call, Some(answer))?).await?;
        self.durable.wait().await
    }

    async fn calls(&self, user: &UserId, run: &RunId, subject: &str) -> Result<Vec<RunCall>, StoreError> {
        let rows: Vec<(i64, String, Option<String>)> = sqlx::query_as(
            "SELECT number, call, answer FROM run_calls WHERE user_id = ?1 AND run_id = ?2 AND subject = ?3
             ORDER BY number",
        )
        .bind(user.as_str())
        .bind(run.as_str())
        .bind(subject)
        .fetch_all(&self.pool)
        .await
        .map_err(self.failed("read the calls of a run"))?;
        let calls = rows.into_iter().map(|(number, call, answer)| {
            Ok(RunCall {
                number: unsigned("call of a run", number)?,
                call: parsed("call of a run", &call)?,
                answer: answer.map(|answer| parsed("call of a run", &answer)).transpose()?,
            })
        });
        calls.collect()
    }

    async fn take_lost_runs(&self) -> Result<Vec<(UserId, RunId)>, StoreError> {
        let failed = self.failed("take over runs");
        let running: Vec<String> = sqlx::query_scalar("SELECT DISTINCT instance FROM runs WHERE state = 'running'")
            .fetch_all(&self.pool)
            .await
            .map_err(&failed)?;
        let own = self.life.name().await?;
        let mut taken = Vec::new();
        for instance in self.life.gone(running).await? {
            // Another process that takes over the same runs at the same time changes none, or leaves none.
            let rows: Vec<(String, String)> = sqlx::query_as(
                "UPDATE runs SET instance = ?2, attempts = attempts + 1 WHERE state = 'running' AND instance = ?1
                 RETURNING user_id, run_id",
            )
            .bind(instance)
            .bind(own)
            .fetch_all(&mut *self.writer().await?)
            .await
            .map_err(&failed)?;
            for (user, run) in rows {
                let user = UserId::new(user).map_err(|error| damaged("user of a run", error))?;
                taken.push((user, RunId::new(run).map_err(|error| damaged("id of a run", error))?));
            }
        }
        self.durable.wait().await?;
        Ok(taken)
    }

    async fn delete_old_runs(&self, before: SystemTime) -> Result<u64, StoreError> {
        let failed = self.failed("delete old conversations");
        let mut deleted = 0;
        for statement in [
            "DELETE FROM conversations WHERE changed_at < ?1 AND NOT EXISTS (
               SELECT 1 FROM runs WHERE runs.user_id = conversations.user_id
               AND runs.conversation_id = conversations.conversation_id AND state = 'running')",
            // A run that a later one continues is the beginning of that one's conversation.
            "WITH RECURSIVE needed (user_id, run_id) AS (
                 SELECT user_id, previous_id FROM runs
                 WHERE previous_id IS NOT NULL AND (ended_at IS NULL OR ended_at >= ?1)
                 UNION
                 SELECT runs.user_id, runs.previous_id FROM runs
                 JOIN needed ON runs.user_id = needed.user_id AND runs.run_id = needed.run_id
                 WHERE runs.previous_id IS NOT NULL)
             DELETE FROM runs WHERE conversation_id IS NULL AND ended_at < ?1
             AND (user_id, run_id) NOT IN (SELECT user_id, run_id FROM needed)",
        ] {
            let statement = sqlx::query(statement).bind(to_millis(before));
            let done = statement.execute(&mut *self.writer().await?).await.map_err(&failed)?;
            deleted += done.rows_affected();
        }
        self.durable.wait().await?;
        Ok(deleted)
    }
}

impl SqliteStore {
    /// Marks a conversation as changed, if it exists and no run is running in it.
    async fn touch_idle(
        &self,
        connection: &mut SqliteConnection,
        user: &UserId,
        id: &ConversationId,
        at: SystemTime,
    ) -> Result<(), StoreError> {
        let failed = self.failed("change a conversation");
        let changed =
            sqlx::query("UPDATE conversations SET changed_at = ?3 WHERE user_id = ?1 AND conversation_id = ?2")
                .bind(user.as_str())
                .bind(id.as_str())
                .bind(to_millis(at))
                .execute(&mut *connection)
                .await
                .map_err(&failed)?;
        if changed.rows_affected() == 0 {
            return Err(StoreError::NoConversation { id: id.to_string() });
        }
        let is_busy: bool = sqlx::query_scalar(
            "SELECT EXISTS (SELECT 1 FROM runs WHERE user_id = ?1 AND conversation_id = ?2 AND state = 'running')",
        )
        .bind(user.as_str())
        .bind(id.as_str())
        .fetch_one(&mut *connection)
        .await
        .map_err(&failed)?;
        if is_busy { Err(StoreError::Busy { id: id.to_string() }) } else { Ok(()) }
    }

    async fn insert(
        &self,
        connection: &mut SqliteConnection,
        user: &UserId,
        items: &[(&ItemId, String)],
        conversation: Option<&ConversationId>,
        run: Option<&RunId>,
        is_output: bool,
    ) -> Result<(), StoreError> {
        let failed = self.failed("add items to a conversation");
        for (id, content) in items {
            sqlx::query(
                "INSERT INTO items (user_id, item_id, conversation_id, run_id, is_output, content)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )
            .bind(user.as_str())
            .bind(id.as_str())
            .bind(conversation.map(ConversationId::as_str))
            .bind(run.map(RunId::as_str))
            .bind(is_output)
            .bind(content)
            .execute(&mut *connection)
            .await
            .map_err(taken("item", id.as_str(), &failed))?;
        }
        Ok(())
    }

    async fn begin_step(
        &self,
        connection: &mut SqliteConnection,
        user: &UserId,
        run: &RunId,
        step: &NewStep,
    ) -> Result<(), StoreError> {
        sqlx::query(
            "INSERT INTO steps (user_id, run_id, number, kind, subject, begun_at)
             SELECT ?1, ?2, COALESCE(MAX(number), 0) + 1, ?3, ?4, ?5 FROM steps WHERE user_id = ?1 AND run_id = ?2",
        )
        .bind(user.as_str())
        .bind(run.as_str())
        .bind(step.kind.as_str())
        .bind(&step.subject)
        .bind(to_millis(step.begun_at))
        .execute(connection)
        .await
        .map_err(self.failed("begin a step of a run"))?;
        Ok(())
    }
}

/// Inserts a conversation whose metadata has been checked.
pub(super) async fn insert_conversation(
    connection: &mut SqliteConnection,
    user: &UserId,
    conversation: &ConversationRecord,
    metadata: String,
    failed: &impl Fn(sqlx::Error) -> StoreError,
) -> Result<(), StoreError> {
    sqlx::query(
        "INSERT INTO conversations (user_id, conversation_id, title, metadata, created_at, changed_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )
    .bind(user.as_str())
    .bind(conversation.id.as_str())
    .bind(conversation.title.as_deref())
    .bind(metadata)
    .bind(to_millis(conversation.created_at))
    .bind(to_millis(conversation.changed_at))
    .execute(connection)
    .await
    .map_err(taken("conversation", conversation.id.as_str(), failed))?;
    Ok(())
}

/// Distinguishes IDs that are taken from other errors.
pub(super) fn taken<'a>(
    what: &'static str,
    id: &'a str,
    failed: &'a impl Fn(sqlx::Error) -> StoreError,
) -> impl Fn(sqlx::Error) -> StoreError + 'a {
    move |error| match &error {
        sqlx::Error::Database(found) if found.is_unique_violation() => {
            StoreError::Conflict { what: format!("the {what} {id}"), expected: 0 }
        }
        _ => failed(error),
    }
}

fn unsigned(what: &str, number: i64) -> Result<u64, StoreError> {
    u64::try_from(number).map_err(|error| damaged(what, error))
}

pub(super) fn conversation(
    (id, title, metadata, created_at, changed_at): ConversationRow,
) -> Result<ConversationRecord, StoreError> {
    Ok(ConversationRecord {
        id: ConversationId::new(id).map_err(|error| damaged("conversation", error))?,
        title,
        metadata: parsed("conversation", &metadata)?,
        created_at: from_millis(created_at),
        changed_at: from_millis(changed_at),
    })
}

pub(super) fn run(
    (id, conversation, previous, is_background, request, state, attempts, created_at, ended_at, outcome): RunRow,
) -> Result<RunRecord, StoreError> {
    let what = "run of the agent";
    let known = RunState::ALL.into_iter().find(|known| known.as_str() == state);
    Ok(RunRecord {
        id: RunId::new(id).map_err(|error| damaged(what, error))?,
        conversation: conversation.map(ConversationId::new).transpose().map_err(|error| damaged(what, error))?,
        previous: previous.map(RunId::new).transpose().map_err(|error| damaged(what, error))?,
        is_background,
        request: parsed(what, &request)?,
        created_at: from_millis(created_at),
        state: known.ok_or_else(|| damaged(what, format!("unknown state {state:?}")))?,
        ended_at: ended_at.map(from_millis),
        outcome: outcome.map(|outcome| parsed(what, &outcome)).transpose()?,
        attempts: u32::try_from(attempts).map_err(|error| damaged(what, error))?,
    })
}

fn item((id, run, is_output, content): ItemRow) -> Result<ItemRecord, StoreError> {
    let what = "item of a conversation";
    Ok(ItemRecord {
        id: ItemId::new(id).map_err(|error| damaged(what, error))?,
        run: run.map(RunId::new).transpose().map_err(|error| damaged(what, error))?,
        is_output,
        content: parsed(what, &content)?,
    })
}
