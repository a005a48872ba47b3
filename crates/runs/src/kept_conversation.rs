//! A conversation that a program writes itself, without a run of the service: `coracle chat`.

use crate::context::{Thread, close_calls, model_items, records};
use crate::conversations::new_item;
use crate::error::RunError;
use crate::item::StoredItem;
use crate::service::random;
use async_trait::async_trait;
use coracle_agent::{Entry, JournalError, RunJournal, RunOutcome};
use coracle_models::Item;
use coracle_store::{ConversationRecord, Store};
use coracle_types::{ConversationId, UserId};
use serde_json::Map;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

/// Maximum length of a title that is made from the first message, in bytes.
const MAX_TITLE_BYTES: usize = 200;

/// A stored conversation. As the journal of a run, it keeps each answer and each result as soon as it is there, so that a
/// conversation can be continued after a crash.
#[derive(Debug)]
pub struct KeptConversation {
    store: Arc<dyn Store>,
    user: UserId,
    id: ConversationId,
    /// Number of items of the current run that are stored.
    recorded: AtomicUsize,
}

impl KeptConversation {
    /// Creates a conversation that begins with this message.
    pub async fn create(store: Arc<dyn Store>, user: UserId, message: &str) -> Result<Self, RunError> {
        let words: Vec<&str> = message.split(|c: char| c.is_whitespace() || c.is_control()).collect();
        let mut title = words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
        title.truncate(title.floor_char_boundary(MAX_TITLE_BYTES));
        let (id, now) = (ConversationId::from_random(random()?), SystemTime::now());
        let title = Some(title).filter(|title| !title.is_empty());
        let record =
            ConversationRecord { id: id.clone(), title, metadata: Map::new(), created_at: now, changed_at: now };
        store.create_conversation(&user, &record, &[]).await?;
        Ok(Self { store, user, id, recorded: AtomicUsize::new(0) })
    }

    /// Opens a conversation, or the one that was changed last. Returns it with what the model sees of it.
    pub async fn open(
        store: Arc<dyn Store>,
        user: UserId,
        id: Option<&ConversationId>,
    ) -> Result<Option<(Self, Vec<Item>)>, RunError> {
        let found = match id {
            Some(id) => store.conversation(&user, id).await?,
            None => store.conversations(&user, 1, None).await?.pop(),
        };
        let Some(ConversationRecord { id, .. }) = found else { return Ok(None) };
        let items = close_calls(model_items(&records(&*store, &user, Thread::Conversation(&id)).await?));
        Ok(Some((Self { store, user, id, recorded: AtomicUsize::new(0) }, items)))
    }

    /// The ID of the conversation.
    pub fn id(&self) -> &ConversationId {
        &self.id
    }

    /// Adds a message of the user, with which a run begins.
    pub async fn begin(&self, message: &Item) -> Result<(), RunError> {
        self.recorded.store(0, Ordering::Relaxed);
        self.add([StoredItem::Item(message.clone())]).await
    }

    /// Adds what a run has left behind and not recorded: results of calls that were stopped.
    pub async fn end(&self, outcome: &RunOutcome) -> Result<(), RunError> {
        let from = self.recorded.load(Ordering::Relaxed).min(outcome.items.len());
        let rest = outcome.items[from..].iter().cloned().map(|item| match item {
            Item::Result(result) => StoredItem::Result { result, structured: None, call: None },
            item => StoredItem::Item(item),
        });
        self.add(rest).await
    }

    async fn add(&self, items: impl IntoIterator<Item = StoredItem>) -> Result<(), RunError> {
        let items = items.into_iter().map(new_item).collect::<Result<Vec<_>, _>>()?;
        if items.is_empty() {
            return Ok(());
        }
        Ok(self.store.add_items(&self.user, &self.id, &items, SystemTime::now()).await?)
    }
}

#[async_trait]
impl RunJournal for KeptConversation {
    async fn record(&self, entry: Entry<'_>) -> Result<(), JournalError> {
        let items = match entry {
            Entry::Asking { .. } | Entry::Compacting => return Ok(()),
            Entry::Answered { items, .. } => items.iter().cloned().map(StoredItem::Item).collect(),
            Entry::Result { result, structured } => {
                vec![StoredItem::Result { result: result.clone(), structured: structured.cloned(), call: None }]
            }
            Entry::Steered { parts } => vec![StoredItem::Item(Item::User { parts: parts.to_vec() })],
            Entry::Compacted { items, .. } => {
                let shorter = [StoredItem::Compaction(items.to_vec())];
                return self.add(shorter).await.map_err(|error| JournalError(error.to_string()));
            }
        };
        let added = items.len();
        self.add(items).await.map_err(|error| JournalError(error.to_string()))?;
        self.recorded.fetch_add(added, Ordering::Relaxed);
        Ok(())
    }
}
