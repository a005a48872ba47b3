//! Conversations and lists of items, as clients see them.

use crate::error::RunError;
use crate::item::{Kind, StoredItem};
use crate::service::{RunService, random};
use crate::surroundings::container;
use crate::wire::items::{self, Place};
use crate::wire::response::{self, seconds};
use coracle_models::{Call, Item, Usage};
use coracle_store::{ConversationRecord, ItemPage, ItemRecord, ItemsOf, NewItem};
use coracle_types::{ConversationId, ItemId, RunId, UserId};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::time::SystemTime;

/// Which part of a list of items is wanted.
#[derive(Clone, Debug)]
pub struct ItemList {
    /// Start after the item with this ID.
    pub after: Option<String>,
    /// Maximum number of items.
    pub limit: usize,
    /// Start with the oldest item.
    pub oldest_first: bool,
}

impl RunService {
    /// Creates a conversation with these items.
    pub async fn create_conversation(
        &self,
        user: &UserId,
        metadata: Map<String, Value>,
        items: Vec<Item>,
    ) -> Result<Value, RunError> {
        let now = SystemTime::now();
        let id = ConversationId::from_random(random()?);
        let record = ConversationRecord { id, title: None, metadata, created_at: now, changed_at: now };
        self.inner.store.create_conversation(user, &record, &new_items(items)?).await?;
        Ok(conversation(&record))
    }

    /// A conversation.
    pub async fn conversation(&self, user: &UserId, id: &ConversationId) -> Result<Option<Value>, RunError> {
        Ok(self.inner.store.conversation(user, id).await?.as_ref().map(conversation))
    }

    /// Replaces the metadata of a conversation.
    pub async fn update_conversation(
        &self,
        user: &UserId,
        id: &ConversationId,
        metadata: &Map<String, Value>,
    ) -> Result<Option<Value>, RunError> {
        self.inner.store.update_conversation(user, id, metadata).await?;
        self.conversation(user, id).await
    }

    /// Deletes a conversation with its runs. Returns whether there was one.
    pub async fn delete_conversation(&self, user: &UserId, id: &ConversationId) -> Result<bool, RunError> {
        let store = &self.inner.store;
        let records = store.items(user, ItemsOf::Conversation(id), ItemPage::ALL).await?;
        if store.delete_conversation(user, id).await? {
            let runs: BTreeSet<&RunId> = records.iter().filter_map(|record| record.run.as_ref()).collect();
            for run in runs {
                self.inner.surroundings.let_go(user, run);
            }
            return Ok(true);
        }
        match store.conversation(user, id).await? {
            Some(_) => Err(RunError::Busy),
            None => Ok(false),
        }
    }

    /// A shortened conversation in the form that clients send back.
    pub fn compaction(&self, items: &[Item], usage: &Usage) -> Result<Value, RunError> {
        let id = random()?;
        Ok(json!({
            "id": format!("resp_{id:032x}"), "object": "response.compaction", "created_at": seconds(SystemTime::now()),
            "output": [items::compaction(&format!("cmp_{id:032x}"), items)], "usage": response::usage(usage),
        }))
    }

    /// Adds items to a conversation, and returns them.
    pub async fn add_items(
        &self,
        user: &UserId,
        id: &ConversationId,
        items: Vec<Item>,
    ) -> Result<Vec<Value>, RunError> {
        let new = new_items(items)?;
        self.inner.store.add_items(user, id, &new, SystemTime::now()).await?;
        let added: BTreeSet<ItemId> = new.into_iter().map(|item| item.id).collect();
        let records = self.inner.store.items(user, ItemsOf::Conversation(id), ItemPage::ALL).await?;
        let records: Vec<ItemRecord> = records.into_iter().filter(|record| added.contains(&record.id)).collect();
        self.views(user, &records).await
    }

    /// Deletes an item of a conversation. Returns whether there was one.
    pub async fn delete_item(&self, user: &UserId, of: &ConversationId, id: &ItemId) -> Result<bool, RunError> {
        Ok(self.inner.store.delete_item(user, of, id).await?)
    }

    /// The items of a conversation.
    pub async fn conversation_items(
        &self,
        user: &UserId,
        id: &ConversationId,
        list: &ItemList,
    ) -> Result<Option<Value>, RunError> {
        let store = &self.inner.store;
        if store.conversation(user, id).await?.is_none() {
            return Ok(None);
        }
        let records = store.items(user, ItemsOf::Conversation(id), ItemPage::ALL).await?;
        Ok(Some(page(self.views(user, &records).await?, list)))
    }

    /// The input of a run.
    pub async fn input_items(&self, user: &UserId, id: &RunId, list: &ItemList) -> Result<Option<Value>, RunError> {
        let store = &self.inner.store;
        if store.run(user, id).await?.is_none() {
            return Ok(None);
        }
        let records = store.items(user, ItemsOf::Run(id), ItemPage::ALL).await?;
        let input: Vec<ItemRecord> = records.into_iter().filter(|record| !record.is_output).collect();
        Ok(Some(page(self.views(user, &input).await?, list)))
    }

    /// Items as clients see them.
    pub(crate) async fn views(&self, user: &UserId, records: &[ItemRecord]) -> Result<Vec<Value>, RunError> {
        let (container, (functions, has_shell)) = (container(user), self.functions(user, records).await?);
        Ok(items::all(records, &Place { container: &container, functions: &functions, has_shell }))
    }

    /// The names of functions of clients that items call, and whether the clients know calls of a shell. Both are in the
    /// requests of the runs.
    pub(crate) async fn functions(
        &self,
        user: &UserId,
        records: &[ItemRecord],
    ) -> Result<(Vec<String>, bool), RunError> {
        let runs: BTreeSet<&RunId> = records.iter().filter_map(|record| record.run.as_ref()).collect();
        let (mut functions, mut has_shell) = (Vec::new(), false);
        for id in runs {
            let Some(run) = self.inner.store.run(user, id).await? else { continue };
            if let Ok((spec, _)) = response::read(&run) {
                functions.extend(spec.functions());
                has_shell |= spec.has_shell();
            }
        }
        // Calls that a client has written into the conversation are its own too. Those of `coracle chat` are the agent's:
        // only the agent stores results in this form.
        let input = records.iter().filter(|record| !record.is_output);
        let input: Vec<StoredItem> = input.filter_map(StoredItem::of).collect();
        let is_own = |call: &Call| {
            let has_id =
                |item: &StoredItem| matches!(item, StoredItem::Result { result, .. } if result.call_id == call.id);
            input.iter().any(has_id)
        };
        for item in &input {
            if let StoredItem::Item(Item::Call(call)) = item
                && !is_own(call)
            {
                functions.push(call.name.clone());
            }
        }
        Ok((functions, has_shell))
    }
}

fn new_items(items: Vec<Item>) -> Result<Vec<NewItem>, RunError> {
    items.into_iter().map(|item| new_item(StoredItem::Item(item))).collect()
}

/// An item with a new ID.
pub(crate) fn new_item(item: StoredItem) -> Result<NewItem, RunError> {
    let prefix = match &item {
        StoredItem::Item(item) => match Kind::of(item) {
            Kind::Message => "msg",
            Kind::Reasoning => "rs",
            Kind::Call | Kind::Result | Kind::Compaction | Kind::Answer => "fc",
        },
        StoredItem::Result { .. } => "fc",
        StoredItem::Asked(_) | StoredItem::Answer(_) => "mcpr",
        StoredItem::Compaction(_) => "cmp",
    };
    let id = ItemId::new(format!("{prefix}_{:032x}", random()?));
    let id = id.map_err(|error| RunError::invalid("items", error.to_string()))?;
    Ok(item.into_new(id))
}

fn conversation(record: &ConversationRecord) -> Value {
    json!({
        "id": record.id.as_str(), "object": "conversation", "created_at": seconds(record.created_at),
        "metadata": record.metadata,
    })
}

/// A part of a list.
fn page(mut views: Vec<Value>, list: &ItemList) -> Value {
    if !list.oldest_first {
        views.reverse();
    }
    if let Some(after) = &list.after {
        let place = views.iter().position(|view| view["id"] == after.as_str());
        views = place.map(|place| views.split_off(place + 1)).unwrap_or_default();
    }
    let has_more = views.len() > list.limit;
    views.truncate(list.limit);
    let id = |view: Option<&Value>| view.map(|view| view["id"].clone());
    json!({
        "object": "list", "first_id": id(views.first()), "last_id": id(views.last()), "has_more": has_more,
        "data": views,
    })
}
