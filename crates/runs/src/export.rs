//! A conversation as a file: Markdown, JSON, or a Jupyter notebook.

mod markdown;
mod notebook;

use crate::error::RunError;
use crate::service::RunService;
use crate::transcript::passages;
use crate::wire::response::seconds;
use coracle_store::{ConversationRecord, ItemPage, ItemsOf};
use coracle_types::{ConversationId, UserId};
use serde_json::{Value, json};

/// The format of an exported conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    /// Text for people.
    Markdown,
    /// All items, as `/v1/conversations` shows them.
    Json,
    /// A Jupyter notebook: messages are Markdown cells, and Python is code that can be run again.
    Notebook,
}

impl RunService {
    /// A conversation as the content of a file. `None` if there is no such conversation.
    pub async fn export(
        &self,
        user: &UserId,
        id: &ConversationId,
        format: ExportFormat,
    ) -> Result<Option<String>, RunError> {
        let store = &self.inner.store;
        let Some(record) = store.conversation(user, id).await? else { return Ok(None) };
        let items = store.items(user, ItemsOf::Conversation(id), ItemPage::ALL).await?;
        if format == ExportFormat::Json {
            let items = self.views(user, &items).await?;
            return Ok(Some(pretty(&json!({"conversation": described(&record), "items": items}))));
        }
        let (functions, _) = self.functions(user, &items).await?;
        let passages = passages(&items, &functions);
        Ok(Some(match format {
            ExportFormat::Notebook => pretty(&notebook::of(record.title.as_deref(), &passages)),
            ExportFormat::Markdown | ExportFormat::Json => markdown::of(record.title.as_deref(), &passages),
        }))
    }
}

fn described(record: &ConversationRecord) -> Value {
    json!({
        "id": record.id.as_str(), "title": record.title, "created_at": seconds(record.created_at),
        "changed_at": seconds(record.changed_at), "metadata": record.metadata,
    })
}

fn pretty(value: &Value) -> String {
    // Serializing a value cannot fail.
    serde_json::to_string_pretty(value).unwrap_or_default() + "\n"
}
