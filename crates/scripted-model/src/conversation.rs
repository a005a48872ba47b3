//! A request in a form that all wires share.

use serde_json::Value;

use crate::tokens::Prompt;

/// A wire format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wire {
    /// OpenAI Chat Completions.
    Chat,
    /// OpenAI Responses.
    Responses,
    /// Anthropic Messages.
    Messages,
}

/// A valid request.
#[derive(Clone, Debug)]
pub(crate) struct Conversation {
    pub(crate) wire: Wire,
    pub(crate) model: String,
    pub(crate) items: Vec<Item>,
    pub(crate) tools: Vec<Tool>,
    pub(crate) choice: Choice,
    pub(crate) format: Format,
    pub(crate) stream: bool,
    /// Chat: whether the stream ends with token counts.
    pub(crate) include_usage: bool,
    /// Responses: whether reasoning may have encrypted content.
    pub(crate) include_encrypted: bool,
    pub(crate) cache_key: Option<String>,
    pub(crate) prompt: Prompt,
    /// The body, whose settings some answers repeat.
    pub(crate) request: Value,
}

impl Conversation {
    /// The text of the last user message.
    pub(crate) fn user_text(&self) -> &str {
        self.items
            .iter()
            .rev()
            .find_map(|item| if let Item::User(text) = item { Some(&**text) } else { None })
            .unwrap_or("")
    }

    /// The text of the last tool result.
    pub(crate) fn last_result(&self) -> Option<&str> {
        self.items.iter().rev().find_map(|item| if let Item::Result(text) = item { Some(&**text) } else { None })
    }

    /// What happened since the last user message.
    pub(crate) fn since_user(&self) -> &[Item] {
        let start = self.items.iter().rposition(|item| matches!(item, Item::User(_))).map_or(0, |user| user + 1);
        self.items.get(start..).unwrap_or_default()
    }
}

/// One entry of the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    /// Instructions.
    System,
    User(String),
    /// Text of the model.
    Said,
    /// Reasoning of the model.
    Reasoned,
    /// A call of the model.
    Called {
        id: String,
        name: String,
        is_signed: bool,
    },
    /// The result of a call.
    Result(String),
}

impl Item {
    /// Whether the model has produced it.
    pub(crate) fn is_of_model(&self) -> bool {
        matches!(self, Self::Said | Self::Reasoned | Self::Called { .. })
    }
}

/// A function that the client offers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tool {
    pub(crate) name: String,
    pub(crate) parameters: Value,
}

/// What the client demands about calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Choice {
    #[default]
    Auto,
    None,
    Required,
    Named(String),
}

/// What the client demands about text.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Format {
    #[default]
    Text,
    Object,
    Schema(Value),
}

/// The text of a content: a string, or an array of parts of which those with text count.
pub(crate) fn content_text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts = parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str));
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}
