//! The conversation that a model sees, from stored items.

use crate::item::StoredItem;
use coracle_models::{Call, CallResult, Item, Part};
use coracle_store::{ItemPage, ItemRecord, ItemsOf, MAX_ITEMS, Store, StoreError};
use coracle_types::{ConversationId, RunId, UserId};

/// Maximum number of runs that a run can continue, one after the other.
const MAX_CHAIN: usize = 1_000;

/// The result of a client's call that the client has not answered.
const UNANSWERED: &str = "there is no result: the conversation went on without it";

/// Where a conversation is read from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Thread<'a> {
    /// All items of a conversation.
    Conversation(&'a ConversationId),
    /// The items of a run and of those that it continues.
    Run(&'a RunId),
}

/// The stored items of a conversation, oldest first. If there are too many, the oldest are left out.
pub(crate) async fn records(
    store: &dyn Store,
    user: &UserId,
    thread: Thread<'_>,
) -> Result<Vec<ItemRecord>, StoreError> {
    const NEWEST: ItemPage<'_> = ItemPage { after: None, limit: None, newest_first: true };
    let mut newest_first = Vec::new();
    match thread {
        Thread::Conversation(id) => {
            newest_first = store.items(user, ItemsOf::Conversation(id), NEWEST).await?;
        }
        Thread::Run(id) => {
            let mut next = Some(id.clone());
            let mut runs = 0;
            while let Some(id) = next.take().filter(|_| runs < MAX_CHAIN && newest_first.len() < MAX_ITEMS) {
                let Some(run) = store.run(user, &id).await? else { break };
                newest_first.extend(store.items(user, ItemsOf::Run(&id), NEWEST).await?);
                next = run.previous;
                runs += 1;
            }
        }
    }
    newest_first.reverse();
    Ok(newest_first)
}

/// The conversation as the model sees it: from the last summary on.
pub(crate) fn model_items(records: &[ItemRecord]) -> Vec<Item> {
    let mut items = Vec::new();
    for stored in records.iter().filter_map(StoredItem::of) {
        match stored {
            StoredItem::Item(item) => items.push(item),
            StoredItem::Result { result, .. } => items.push(Item::Result(result)),
            StoredItem::Compaction(shorter) => items = shorter,
            StoredItem::Asked(_) | StoredItem::Answer(_) => {}
        }
    }
    items
}

/// Gives every call a result before the conversation goes on, except the calls of the last answer. Providers reject
/// conversations with open calls.
pub(crate) fn close_calls(items: Vec<Item>) -> Vec<Item> {
    let mut closed = Vec::with_capacity(items.len());
    let mut open: Vec<String> = Vec::new();
    for item in items {
        match &item {
            Item::Call(call) => open.push(call.id.clone()),
            Item::Result(result) => {
                let Some(place) = open.iter().position(|id| *id == result.call_id) else { continue };
                open.remove(place);
            }
            Item::System { .. } | Item::User { .. } => {
                for call_id in open.drain(..) {
                    let parts = vec![Part::text(UNANSWERED)];
                    closed.push(Item::Result(CallResult { call_id, parts, is_error: true }));
                }
            }
            Item::Assistant { .. } | Item::Reasoning { .. } => {}
        }
        closed.push(item);
    }
    closed
}

/// The calls without a result, in order.
pub(crate) fn open_calls(items: &[Item]) -> Vec<Call> {
    let mut open: Vec<Call> = Vec::new();
    for item in items {
        match item {
            Item::Call(call) => open.push(call.clone()),
            Item::Result(result) => {
                if let Some(place) = open.iter().position(|call| call.id == result.call_id) {
                    open.remove(place);
                }
            }
            Item::System { .. } | Item::User { .. } | Item::Assistant { .. } | Item::Reasoning { .. } => {}
        }
    }
    open
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(id: &str) -> Item {
        Item::Call(Call { id: id.to_owned(), name: "f".to_owned(), arguments: "{}".to_owned(), native: None })
    }

    fn result(id: &str) -> Item {
        Item::Result(CallResult { call_id: id.to_owned(), parts: Vec::new(), is_error: false })
    }

    fn user() -> Item {
        Item::User { parts: vec![Part::text("go on")] }
    }

    #[test]
    fn every_call_has_one_result_before_the_next_message() {
        let closed = close_calls(vec![call("a"), call("b"), result("b"), user(), call("a"), result("a"), result("x")]);
        let Item::Result(added) = &closed[3] else { panic!("{closed:?}") };
        assert_eq!((added.call_id.as_str(), added.is_error), ("a", true));
        assert_eq!(closed.len(), 7, "{closed:?}");
        assert_eq!(open_calls(&closed), []);
    }

    #[test]
    fn the_calls_of_the_last_answer_may_be_open() {
        let items = vec![call("a"), call("b"), result("a")];
        assert_eq!(close_calls(items.clone()), items);
        assert_eq!(open_calls(&items).len(), 1);
    }
}
