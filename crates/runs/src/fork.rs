//! Creates a conversation from the beginning of another one.

use crate::error::RunError;
use crate::item::StoredItem;
use crate::service::{RunService, random};
use crate::summaries::ConversationSummary;
use coracle_models::Item;
use coracle_store::{ConversationRecord, ForkedItem, ItemPage, ItemRecord, ItemsOf, NewItem, Place};
use coracle_types::{ConversationId, ItemId, UserId};
use std::collections::BTreeSet;
use std::time::SystemTime;

impl RunService {
    /// Creates a conversation with the items of another one: up to and including `last`, with the results of its calls,
    /// or all of them. The title is that of the other one, unless it is given. `None` if there is no such conversation.
    pub async fn fork(
        &self,
        user: &UserId,
        id: &ConversationId,
        last: Option<&ItemId>,
        title: Option<String>,
    ) -> Result<Option<ConversationSummary>, RunError> {
        let store = &self.inner.store;
        let Some(original) = store.conversation(user, id).await? else { return Ok(None) };
        let mut records = store.items(user, ItemsOf::Conversation(id), ItemPage::ALL).await?;
        if let Some(last) = last {
            let place = records.iter().position(|record| record.id == *last);
            let place = place.ok_or_else(|| RunError::Missing { what: format!("item `{last}`") })?;
            records = beginning(records, place);
        }
        let functions: BTreeSet<String> = self.functions(user, &records).await?.0.into_iter().collect();
        let items = records.iter().map(|record| forked(record, &functions)).collect::<Result<Vec<_>, RunError>>()?;
        let now = SystemTime::now();
        let fork = ConversationRecord {
            id: ConversationId::from_random(random()?),
            title: title.or(original.title),
            metadata: original.metadata,
            created_at: now,
            changed_at: now,
        };
        store.fork_conversation(user, &fork, &items).await?;
        // All that the other one had: which items are made of what is not known.
        store.copy_sources(user, &Place::conversation(id), &Place::conversation(&fork.id)).await?;
        Ok(Some(self.summary(user, fork).await?))
    }
}

/// The items up to this place, with the results of their calls.
fn beginning(mut records: Vec<ItemRecord>, place: usize) -> Vec<ItemRecord> {
    let later = records.split_off(place + 1);
    let mut open: Vec<String> = Vec::new();
    for record in &records {
        match StoredItem::of(record) {
            Some(StoredItem::Item(Item::Call(call))) => open.push(call.id),
            Some(stored) => answer(&mut open, &stored),
            None => {}
        }
    }
    for record in later {
        match StoredItem::of(&record) {
            // Models may use the ID of a call again, and a message ends the calls before it.
            Some(StoredItem::Item(Item::Call(call))) => open.retain(|id| *id != call.id),
            Some(StoredItem::Item(Item::User { .. } | Item::System { .. })) | None => open.clear(),
            Some(stored) => {
                let before = open.len();
                answer(&mut open, &stored);
                if open.len() < before {
                    records.push(record);
                }
            }
        }
        if open.is_empty() {
            break;
        }
    }
    records
}

/// Removes the call that an item answers.
fn answer(open: &mut Vec<String>, stored: &StoredItem) {
    let (StoredItem::Result { result, .. } | StoredItem::Item(Item::Result(result))) = stored else { return };
    if let Some(place) = open.iter().position(|id| *id == result.call_id) {
        open.remove(place);
    }
}

/// A copy of an item. A call of a client's function looks as if the client had written it: the run that knew whose
/// function it is stays behind.
fn forked(record: &ItemRecord, functions: &BTreeSet<String>) -> Result<ForkedItem, RunError> {
    let is_of_client = match StoredItem::of(record) {
        Some(StoredItem::Item(Item::Call(call))) => functions.contains(&call.name),
        _ => false,
    };
    let prefix = record.id.as_str().split('_').next().unwrap_or("item");
    let id = ItemId::new(format!("{prefix}_{:032x}", random()?));
    let id = id.map_err(|error| RunError::invalid("item", error.to_string()))?;
    let is_output = record.is_output && !is_of_client;
    Ok(ForkedItem { item: NewItem { id, content: record.content.clone() }, is_output })
}
