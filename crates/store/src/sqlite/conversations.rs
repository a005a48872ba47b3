//! Searching, renaming and forking conversations, as rows.

use super::SqliteStore;
use super::rows::{count, damaged};
use super::runs::{CONVERSATION, ConversationRow, RUN, RunRow, conversation, insert_conversation, run, taken};
use crate::{ConversationRecord, Conversations, ForkedItem, MAX_PAGE, QueueRecord, RunRecord, StoreError, bounds};
use async_trait::async_trait;
use coracle_types::{ConversationId, RunId, UserId};
use serde_json::Value;
use sqlx::{AssertSqlSafe, Connection as _};

#[async_trait]
impl Conversations for SqliteStore {
    async fn search_conversations(
        &self,
        user: &UserId,
        text: &str,
        limit: usize,
        before: Option<&ConversationId>,
    ) -> Result<Vec<ConversationRecord>, StoreError> {
        let text = bounds::search(text)?;
        // Most items are dismissed by looking at them as they are stored, which is cheaper than parsing them.
        let rows: Vec<ConversationRow> = sqlx::query_as(AssertSqlSafe(format!(
            "{CONVERSATION} AS found WHERE user_id = ?1 AND (?2 IS NULL OR (changed_at, conversation_id) < (
                 SELECT changed_at, conversation_id FROM conversations WHERE user_id = ?1 AND conversation_id = ?2))
             AND (instr(lower(COALESCE(title, '')), ?4) > 0 OR EXISTS (
                 SELECT 1 FROM items WHERE items.user_id = ?1 AND items.conversation_id = found.conversation_id
                 AND instr(lower(content), ?5) > 0 AND EXISTS (
                     SELECT 1 FROM json_tree(items.content) AS part
                     WHERE part.key = 'text' AND part.type = 'text' AND instr(lower(part.value), ?4) > 0)))
             ORDER BY changed_at DESC, conversation_id DESC LIMIT ?3"
        )))
        .bind(user.as_str())
        .bind(before.map(ConversationId::as_str))
        .bind(count(limit.min(MAX_PAGE)))
        .bind(text.plain)
        .bind(text.in_json)
        .fetch_all(&self.pool)
        .await
        .map_err(self.failed("search conversations"))?;
        rows.into_iter().map(conversation).collect()
    }

    async fn rename_conversation(
        &self,
        user: &UserId,
        id: &ConversationId,
        title: Option<&str>,
    ) -> Result<bool, StoreError> {
        bounds::title(title)?;
        let renamed = sqlx::query("UPDATE conversations SET title = ?3 WHERE user_id = ?1 AND conversation_id = ?2")
            .bind(user.as_str())
            .bind(id.as_str())
            .bind(title)
            .execute(&mut *self.writer().await?)
            .await
            .map_err(self.failed("rename a conversation"))?;
        Ok(renamed.rows_affected() > 0)
    }

    async fn fork_conversation(
        &self,
        user: &UserId,
        fork: &ConversationRecord,
        items: &[ForkedItem],
    ) -> Result<(), StoreError> {
        let failed = self.failed("fork a conversation");
        let metadata = bounds::conversation(fork.title.as_deref(), &fork.metadata)?;
        let items = bounds::forked_items(items)?;
        let mut writer = self.writer().await?;
        let mut transaction = writer.begin_with("BEGIN IMMEDIATE").await.map_err(&failed)?;
        insert_conversation(&mut transaction, user, fork, metadata, &failed).await?;
        for (id, is_output, content) in items {
            sqlx::query(
                "INSERT INTO items (user_id, item_id, conversation_id, is_output, content) VALUES (?1, ?2, ?3, ?4, ?5)",
            )
            .bind(user.as_str())
            .bind(id.as_str())
            .bind(fork.id.as_str())
            .bind(is_output)
            .bind(content)
            .execute(&mut *transaction)
            .await
            .map_err(taken("item", id.as_str(), &failed))?;
        }
        transaction.commit().await.map_err(&failed)?;
        drop(writer);
        self.durable.wait().await
    }

    async fn conversation_runs(
        &self,
        user: &UserId,
        id: &ConversationId,
        limit: usize,
        before: Option<&RunId>,
    ) -> Result<Vec<RunRecord>, StoreError> {
        let rows: Vec<RunRow> = sqlx::query_as(AssertSqlSafe(format!(
            "{RUN} WHERE user_id = ?1 AND conversation_id = ?2 AND (?3 IS NULL OR (created_at, run_id) < (
                 SELECT created_at, run_id FROM runs WHERE user_id = ?1 AND conversation_id = ?2 AND run_id = ?3))
             ORDER BY created_at DESC, run_id DESC LIMIT ?4"
        )))
        .bind(user.as_str())
        .bind(id.as_str())
        .bind(before.map(RunId::as_str))
        .bind(count(limit.min(MAX_PAGE)))
        .fetch_all(&self.pool)
        .await
        .map_err(self.failed("read the runs of a conversation"))?;
        rows.into_iter().map(run).collect()
    }

    async fn queue(&self, user: &UserId, id: &ConversationId) -> Result<Option<QueueRecord>, StoreError> {
        let row: Option<(i64, Option<String>)> = sqlx::query_as(
            "SELECT queue_version, queue FROM conversations WHERE user_id = ?1 AND conversation_id = ?2",
        )
        .bind(user.as_str())
        .bind(id.as_str())
        .fetch_optional(&self.pool)
        .await
        .map_err(self.failed("read a queue"))?;
        let Some((version, text)) = row else { return Ok(None) };
        let content: Option<Value> = text
            .map(|text| serde_json::from_str(&text).map_err(|error| damaged(&format!("queue of {id}"), error)))
            .transpose()?;
        Ok(Some(QueueRecord { version: version as u64, content }))
    }

    async fn put_queue(
        &self,
        user: &UserId,
        id: &ConversationId,
        content: Option<&Value>,
        expected: u64,
    ) -> Result<u64, StoreError> {
        let text = content.map(bounds::queue).transpose()?;
        let failed = self.failed("write a queue");
        let mut writer = self.writer().await?;
        let written = sqlx::query(
            "UPDATE conversations SET queue = ?3, queue_version = ?4 + 1
             WHERE user_id = ?1 AND conversation_id = ?2 AND queue_version = ?4",
        )
        .bind(user.as_str())
        .bind(id.as_str())
        .bind(text)
        .bind(i64::try_from(expected).unwrap_or(i64::MAX))
        .execute(&mut *writer)
        .await
        .map_err(&failed)?;
        drop(writer);
        if written.rows_affected() == 0 {
            return Err(match self.queue(user, id).await? {
                Some(_) => StoreError::Conflict { what: format!("the queue of {id}"), expected },
                None => StoreError::NoConversation { id: id.to_string() },
            });
        }
        self.durable.wait().await?;
        Ok(expected + 1)
    }

    async fn queues(&self) -> Result<Vec<(UserId, ConversationId)>, StoreError> {
        let rows: Vec<(String, String)> =
            sqlx::query_as("SELECT user_id, conversation_id FROM conversations WHERE queue IS NOT NULL")
                .fetch_all(&self.pool)
                .await
                .map_err(self.failed("list queues"))?;
        rows.into_iter()
            .map(|(user, id)| {
                let user = UserId::new(user).map_err(|error| damaged("user of a queue", error))?;
                Ok((user, ConversationId::new(id).map_err(|error| damaged("conversation of a queue", error))?))
            })
            .collect()
    }
}
