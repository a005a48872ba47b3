//! References to items of earlier responses, which clients send in place of the items.

use crate::error::RunError;
use crate::input::{InputOptions, Referenced, read_with};
use crate::item::StoredItem;
use crate::service::RunService;
use coracle_models::Item;
use coracle_store::{ItemPage, ItemRecord, ItemsOf};
use coracle_types::{RunId, UserId};
use serde_json::Value;
use std::collections::BTreeSet;

/// Maximum number of responses that the items of one input may belong to.
const MAX_RESPONSES: usize = 100;
/// Number of hexadecimal digits in the ID of a run, which the IDs of its items begin with.
const RUN_DIGITS: usize = 32;

impl RunService {
    /// Reads an input: a text, or a list of items, among them references to stored items of the same user.
    pub async fn read_input(&self, user: &UserId, input: &Value, options: InputOptions) -> Result<Vec<Item>, RunError> {
        read_with(input, options, &self.referenced(user, input).await?)
    }

    async fn referenced(&self, user: &UserId, input: &Value) -> Result<Referenced, RunError> {
        let runs: BTreeSet<RunId> = references(input).filter_map(run_of).collect();
        if runs.len() > MAX_RESPONSES {
            let message = format!("refers to items of more than {MAX_RESPONSES} responses: use `conversation`");
            return Err(RunError::invalid("input", message));
        }
        let mut all = Referenced::new();
        for run in runs {
            let records = self.inner.store.items(user, ItemsOf::Run(&run), ItemPage::ALL).await?;
            for id in references(input).filter(|id| run_of(id).as_ref() == Some(&run)) {
                if let Some(items) = items_of(id, &records) {
                    all.insert(id.to_owned(), items);
                }
            }
        }
        Ok(all)
    }
}

fn references(input: &Value) -> impl Iterator<Item = &str> {
    let items = input.as_array().map(Vec::as_slice).unwrap_or_default();
    let references = items.iter().filter(|item| item.get("type").is_some_and(|kind| kind == "item_reference"));
    references.filter_map(|item| item.get("id")?.as_str())
}

/// The run that an item belongs to, which follows from the item's ID.
fn run_of(id: &str) -> Option<RunId> {
    let (_, rest) = id.split_once('_')?;
    let digits = rest.get(..RUN_DIGITS)?;
    RunId::new(format!("resp_{digits}")).ok()
}

/// What an ID stands for. Clients know a call of the agent and its result as one item, or the result as another one.
fn items_of(id: &str, records: &[ItemRecord]) -> Option<Vec<Item>> {
    let find = |id: &str| StoredItem::of(records.iter().find(|record| record.id.as_str() == id)?);
    if let Some(of_result) = id.strip_prefix("out_") {
        return find(&format!("call_{of_result}")).map(|_| Vec::new());
    }
    Some(match find(id)? {
        StoredItem::Item(item @ Item::Call(_)) => {
            let result = match find(&id.replacen("call_", "res_", 1)) {
                Some(StoredItem::Result { result, .. }) => Some(Item::Result(result)),
                _ => None,
            };
            std::iter::once(item).chain(result).collect()
        }
        StoredItem::Item(item) => vec![item],
        StoredItem::Result { .. } | StoredItem::Asked(_) | StoredItem::Answer(_) => Vec::new(),
        StoredItem::Compaction(items) => items,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_run_of_an_item_follows_from_its_id() {
        let run = "0123456789abcdef0123456789abcdef";
        for id in [format!("msg_{run}1s2n0"), format!("call_{run}1s2n0"), format!("msg_{run}i0")] {
            assert_eq!(run_of(&id).unwrap().as_str(), format!("resp_{run}"), "{id}");
        }
        for id in ["", "msg_", "msg_1", "é_é", "call_18e915c50461750000001e00"] {
            assert_eq!(run_of(id), None, "{id}");
        }
    }

    #[test]
    fn a_reference_is_found_once_and_unknown_ones_are_refused() {
        let item = Item::Assistant { text: "Hello".to_owned(), native: None };
        let known = Referenced::from([("msg_1".to_owned(), vec![item.clone()])]);
        let reference = |id: &str| json!({"type": "item_reference", "id": id});
        let read = |input: Value| read_with(&input, InputOptions::default(), &known);
        assert_eq!(read(json!([reference("msg_1"), reference("msg_1")])).unwrap(), [item]);
        let error = read(json!([reference("msg_1"), reference("msg_2")])).unwrap_err().to_string();
        assert!(error.contains("input[1]: item `msg_2` not found"), "{error}");
    }
}
