//! How much of the results of tools the code in a conversation has kept out of the context of the model.

use crate::error::RunError;
use crate::item::StoredItem;
use crate::service::RunService;
use crate::wire::items::text_of;
use coracle_store::{ItemPage, ItemsOf};
use coracle_types::{ConversationId, UserId};
use serde_json::Value;

/// Sizes of the results of tools that code in a conversation has called, and of what the model got instead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Savings {
    /// Number of executions that called tools.
    pub executions: u64,
    /// Number of calls that were answered.
    pub calls: u64,
    /// Size of their results in bytes.
    pub result_bytes: u64,
    /// Size of what the model got from these executions, in bytes.
    pub shown_bytes: u64,
    /// Bytes of results that the model did not get. What one execution has shown in excess of its results does not reduce
    /// what others kept.
    pub kept_bytes: u64,
}

impl Savings {
    /// Adds an execution with the text that the model got of it.
    fn add(&mut self, execution: &Value, shown: &str) {
        let calls = execution.get("calls").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let answered = calls.iter().filter(|call| call.get("ok") == Some(&Value::Bool(true)));
        let sizes: Vec<u64> = answered.filter_map(|call| call.get("bytes_out")?.as_u64()).collect();
        if sizes.is_empty() {
            return;
        }
        let (results, shown) = (sizes.iter().fold(0, |sum: u64, size| sum.saturating_add(*size)), shown.len() as u64);
        self.executions += 1;
        self.calls += sizes.len() as u64;
        self.result_bytes = self.result_bytes.saturating_add(results);
        self.shown_bytes = self.shown_bytes.saturating_add(shown);
        self.kept_bytes = self.kept_bytes.saturating_add(results.saturating_sub(shown));
    }
}

impl RunService {
    /// What the code in a conversation has kept out of the context, from the stored results of its executions. `None` if
    /// there is no such conversation.
    pub async fn savings(&self, user: &UserId, id: &ConversationId) -> Result<Option<Savings>, RunError> {
        let store = &self.inner.store;
        if store.conversation(user, id).await?.is_none() {
            return Ok(None);
        }
        let mut savings = Savings::default();
        for record in store.items(user, ItemsOf::Conversation(id), ItemPage::ALL).await? {
            if let Some(StoredItem::Result { result, structured: Some(execution), .. }) = StoredItem::of(&record) {
                savings.add(&execution, &text_of(&result.parts));
            }
        }
        Ok(Some(savings))
    }
}

#[cfg(test)]
mod tests {
    use super::Savings;
    use serde_json::json;

    #[test]
    fn only_answered_calls_count_and_no_execution_takes_from_another() {
        let call = |ok: bool, bytes: u64| json!({"server": "shop", "tool": "list", "ok": ok, "bytes_out": bytes});
        let mut savings = Savings::default();
        savings.add(&json!({"calls": [call(true, 1_000), call(true, 500), call(false, 9_000)]}), "a short text");
        assert_eq!(
            savings,
            Savings { executions: 1, calls: 2, result_bytes: 1_500, shown_bytes: 12, kept_bytes: 1_488 }
        );
        // All that the tool returned is printed, and more.
        savings.add(&json!({"calls": [call(true, 10)]}), &"x".repeat(100));
        let expected = Savings { executions: 2, calls: 3, result_bytes: 1_510, shown_bytes: 112, kept_bytes: 1_488 };
        assert_eq!(savings, expected);
        // Code without calls, and results of other tools.
        savings.add(&json!({"calls": []}), "printed");
        savings.add(&json!({"tools": []}), "found");
        assert_eq!(savings, expected);
    }
}
