use crate::{ConversationRecord, NewItem, RunRecord, StoreError};
use async_trait::async_trait;
use coracle_types::{ConversationId, RunId, UserId};
use serde_json::Value;
use std::fmt;

/// The maximum length of a text to search for, in bytes.
pub const MAX_SEARCH_BYTES: usize = 1 << 10;

/// The messages that wait for the runs of a conversation, as the program that runs them writes them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueueRecord {
    /// Number of changes so far.
    pub version: u64,
    /// The messages; `None` if there are none.
    pub content: Option<Value>,
}

/// An item of a conversation that is created from another one.
#[derive(Clone, Debug, PartialEq)]
pub struct ForkedItem {
    /// The item, with an ID of its own.
    pub item: NewItem,
    /// Whether a run wrote the item, and not a client.
    pub is_output: bool,
}

/// Lists of conversations, and changes to them. Basic access is in [`crate::Runs`], whose contract holds here too.
#[async_trait]
pub trait Conversations: Send + Sync + fmt::Debug {
    /// Conversations of a user whose title contains a text, or a value of the key `text` anywhere in one of their
    /// items. Upper and lower case are the same for ASCII letters. Order, `limit` and `before` are those of
    /// [`crate::Runs::conversations`].
    async fn search_conversations(
        &self,
        user: &UserId,
        text: &str,
        limit: usize,
        before: Option<&ConversationId>,
    ) -> Result<Vec<ConversationRecord>, StoreError>;

    /// Sets or removes the title of a conversation. Returns whether it exists.
    async fn rename_conversation(
        &self,
        user: &UserId,
        id: &ConversationId,
        title: Option<&str>,
    ) -> Result<bool, StoreError>;

    /// Creates a conversation with copies of items that belong to no run. On the disk when this returns.
    async fn fork_conversation(
        &self,
        user: &UserId,
        conversation: &ConversationRecord,
        items: &[ForkedItem],
    ) -> Result<(), StoreError>;

    /// The runs of a conversation, newest first. At most `limit`, and never more than [`crate::MAX_PAGE`]. If `before`
    /// is given, only those after it in this order, and none if it is unknown.
    async fn conversation_runs(
        &self,
        user: &UserId,
        id: &ConversationId,
        limit: usize,
        before: Option<&RunId>,
    ) -> Result<Vec<RunRecord>, StoreError>;

    /// The queue of a conversation; `None` if the conversation does not exist. It is deleted with the conversation, and a
    /// fork has none.
    async fn queue(&self, user: &UserId, id: &ConversationId) -> Result<Option<QueueRecord>, StoreError>;

    /// Writes the queue of a conversation if its version is still `expected`, and returns the new version. On the disk
    /// when this returns.
    ///
    /// Exactly one of several writers with the same `expected` succeeds. The others get [`StoreError::Conflict`].
    async fn put_queue(
        &self,
        user: &UserId,
        id: &ConversationId,
        content: Option<&Value>,
        expected: u64,
    ) -> Result<u64, StoreError>;

    /// The conversations of all users that have a queue.
    async fn queues(&self) -> Result<Vec<(UserId, ConversationId)>, StoreError>;
}
