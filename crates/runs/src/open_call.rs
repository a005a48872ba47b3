//! Calls without a result that a run has to make.

use crate::context;
use crate::item::StoredItem;
use coracle_models::{Call, Item};
use coracle_store::ItemRecord;
use coracle_types::RunId;

/// A call without a result.
#[derive(Clone, Debug)]
pub(crate) struct OpenCall {
    /// The item ID.
    pub(crate) id: String,
    /// The call.
    pub(crate) call: Call,
    /// Whether an earlier run has made and parked it.
    pub(crate) is_taken_over: bool,
}

/// The calls without a result that a run has made or taken over.
pub(crate) fn open_calls(records: &[ItemRecord], conversation: &[Item], run: &RunId) -> Vec<OpenCall> {
    let find = |call: Call| {
        let made = records.iter().rev().filter(|record| record.is_output).find(
            |record| matches!(StoredItem::of(record), Some(StoredItem::Item(Item::Call(stored))) if stored == call),
        );
        let made = made?;
        Some(OpenCall { id: made.id.to_string(), call, is_taken_over: made.run.as_ref() != Some(run) })
    };
    context::open_calls(conversation).into_iter().filter_map(find).collect()
}
