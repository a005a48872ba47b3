//! A conversation as a person reads it, for the formats of an export.

use crate::item::StoredItem;
use crate::wire::items::{self, Place, Shown};
use coracle_models::{Call, CallResult, Item, Part};
use coracle_store::ItemRecord;
use serde_json::Value;
use std::collections::BTreeMap;

/// A part of a conversation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Passage {
    /// A message.
    Message { speaker: Speaker, parts: Vec<Part> },
    /// Reasoning of the model.
    Reasoning(String),
    /// Code that the agent ran.
    Code { language: CodeLanguage, code: String, result: Option<CodeResult> },
    /// Another tool call.
    Call { name: String, arguments: String, result: Option<CodeResult> },
    /// Everything before was replaced by a summary in what the model sees.
    Shortened,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaker {
    User,
    Assistant,
    System,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CodeLanguage {
    Python,
    TypeScript,
    Bash,
}

/// What became of a call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CodeResult {
    pub(crate) text: String,
    pub(crate) images: Vec<Part>,
    pub(crate) is_error: bool,
}

/// The passages of a conversation. `functions` are the names of the client's functions.
pub(crate) fn passages(records: &[ItemRecord], functions: &[String]) -> Vec<Passage> {
    let stored: Vec<StoredItem> = records.iter().filter_map(StoredItem::of).collect();
    let mut results: BTreeMap<&str, Vec<CodeResult>> = BTreeMap::new();
    for item in stored.iter().rev() {
        match item {
            StoredItem::Result { result, structured, .. } => {
                results.entry(&result.call_id).or_default().push(result_of(result, structured.as_ref()));
            }
            StoredItem::Item(Item::Result(result)) => {
                results.entry(&result.call_id).or_default().push(result_of(result, None));
            }
            StoredItem::Item(_) | StoredItem::Compaction(_) | StoredItem::Asked(_) | StoredItem::Answer(_) => {}
        }
    }
    let mut passages = Vec::new();
    for item in &stored {
        passages.extend(match item {
            StoredItem::Item(Item::System { text }) => Some(said(Speaker::System, text)),
            StoredItem::Item(Item::Assistant { text, .. }) => Some(said(Speaker::Assistant, text)),
            StoredItem::Item(Item::User { parts }) => {
                Some(Passage::Message { speaker: Speaker::User, parts: parts.clone() })
            }
            StoredItem::Item(Item::Reasoning { text, .. }) if text.is_empty() => None,
            StoredItem::Item(Item::Reasoning { text, .. }) => Some(Passage::Reasoning(text.clone())),
            StoredItem::Item(Item::Call(call)) => {
                let result = results.get_mut(call.id.as_str()).and_then(Vec::pop);
                Some(called(call, result, functions))
            }
            StoredItem::Compaction(_) => Some(Passage::Shortened),
            // Results are told with their calls, and questions about calls are not part of what was said.
            StoredItem::Result { .. }
            | StoredItem::Item(Item::Result(_))
            | StoredItem::Asked(_)
            | StoredItem::Answer(_) => None,
        });
    }
    passages
}

fn said(speaker: Speaker, text: &str) -> Passage {
    Passage::Message { speaker, parts: vec![Part::text(text)] }
}

fn called(call: &Call, result: Option<CodeResult>, functions: &[String]) -> Passage {
    // A person knows what a shell is, whatever the client of the conversation knew.
    let place = Place { container: "", functions, has_shell: true };
    let language = match place.shown(call) {
        Shown::Function | Shown::Tool => {
            return Passage::Call { name: call.name.clone(), arguments: call.arguments.clone(), result };
        }
        Shown::Shell => CodeLanguage::Bash,
        Shown::Code => match items::argument(call, "language").as_deref() {
            Some("typescript" | "ts" | "javascript" | "js") => CodeLanguage::TypeScript,
            _ => CodeLanguage::Python,
        },
    };
    Passage::Code { language, code: items::code_of(call), result }
}

fn result_of(result: &CallResult, structured: Option<&Value>) -> CodeResult {
    let is_image = |part: &&Part| matches!(part, Part::Image { .. } | Part::ImageUrl { .. });
    CodeResult {
        text: items::logs(result, structured),
        images: result.parts.iter().filter(is_image).cloned().collect(),
        is_error: result.is_error,
    }
}
