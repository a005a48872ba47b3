//! Searching, renaming and forking conversations, in memory.

use super::MemoryStore;
use super::runs::after;
use crate::moment::kept;
use crate::{ConversationRecord, Conversations, ForkedItem, MAX_PAGE, QueueRecord, RunRecord, StoreError, bounds};
use async_trait::async_trait;
use coracle_types::{ConversationId, RunId, UserId};
use serde_json::Value;

#[async_trait]
impl Conversations for MemoryStore {
    async fn search_conversations(
        &self,
        user: &UserId,
        text: &str,
        limit: usize,
        before: Option<&ConversationId>,
    ) -> Result<Vec<ConversationRecord>, StoreError> {
        let text = bounds::search(text)?.plain;
        let all = self.all_runs();
        let Some(own) = all.get(user) else { return Ok(Vec::new()) };
        let matches = |found: &&ConversationRecord| {
            let has_title = found.title.as_ref().is_some_and(|title| title.to_ascii_lowercase().contains(&text));
            has_title || own.items_in(&found.id).any(|item| has_text(&item.content, &text))
        };
        let newest_first = own.newest_conversations();
        let found = after(newest_first.into_iter(), before, |found| &found.id).filter(matches);
        Ok(found.take(limit.min(MAX_PAGE)).cloned().collect())
    }

    async fn rename_conversation(
        &self,
        user: &UserId,
        id: &ConversationId,
        title: Option<&str>,
    ) -> Result<bool, StoreError> {
        bounds::title(title)?;
        let mut all = self.all_runs();
        let Some(found) = all.get_mut(user).and_then(|own| own.conversation_mut(id)) else { return Ok(false) };
        found.title = title.map(str::to_owned);
        Ok(true)
    }

    async fn fork_conversation(
        &self,
        user: &UserId,
        fork: &ConversationRecord,
        items: &[ForkedItem],
    ) -> Result<(), StoreError> {
        bounds::conversation(fork.title.as_deref(), &fork.metadata)?;
        bounds::forked_items(items)?;
        let (created_at, changed_at) = (kept(fork.created_at), kept(fork.changed_at));
        let record = ConversationRecord { created_at, changed_at, ..fork.clone() };
        self.all_runs().entry(user.clone()).or_default().fork(record, items)
    }

    async fn conversation_runs(
        &self,
        user: &UserId,
        id: &ConversationId,
        limit: usize,
        before: Option<&RunId>,
    ) -> Result<Vec<RunRecord>, StoreError> {
        let all = self.all_runs();
        let Some(own) = all.get(user) else { return Ok(Vec::new()) };
        let runs = own.newest_runs().into_iter().filter(|run| run.conversation.as_ref() == Some(id));
        Ok(after(runs, before, |run| &run.id).take(limit.min(MAX_PAGE)).cloned().collect())
    }

    async fn queue(&self, user: &UserId, id: &ConversationId) -> Result<Option<QueueRecord>, StoreError> {
        Ok(self.all_runs().get_mut(user).and_then(|own| own.queue_mut(id)).cloned())
    }

    async fn put_queue(
        &self,
        user: &UserId,
        id: &ConversationId,
        content: Option<&Value>,
        expected: u64,
    ) -> Result<u64, StoreError> {
        content.map(bounds::queue).transpose()?;
        let mut all = self.all_runs();
        let missing = || StoreError::NoConversation { id: id.to_string() };
        let queue = all.get_mut(user).and_then(|own| own.queue_mut(id)).ok_or_else(missing)?;
        if queue.version != expected {
            return Err(StoreError::Conflict { what: format!("the queue of {id}"), expected });
        }
        *queue = QueueRecord { version: expected + 1, content: content.cloned() };
        Ok(queue.version)
    }

    async fn queues(&self) -> Result<Vec<(UserId, ConversationId)>, StoreError> {
        let all = self.all_runs();
        Ok(all.iter().flat_map(|(user, own)| own.queues().map(move |id| (user.clone(), id.clone()))).collect())
    }
}

/// Whether a value of the key `text`, at any depth, contains a text in lower case.
fn has_text(value: &Value, text: &str) -> bool {
    match value {
        Value::Object(fields) => fields.iter().any(|(name, value)| match value {
            Value::String(value) => name == "text" && value.to_ascii_lowercase().contains(text),
            other => has_text(other, text),
        }),
        Value::Array(values) => values.iter().any(|value| has_text(value, text)),
        _ => false,
    }
}
