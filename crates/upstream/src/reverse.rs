//! What servers ask of their client while a call runs.

use async_trait::async_trait;
use serde_json::{Map, Value};

/// Answers what a server asks of its client during one call: a person, a model, a list of folders.
///
/// Everything in a question is hostile. How long an answer may take is for the implementation to decide; the time of
/// the call stands still meanwhile. When the call is over, the future is dropped.
#[async_trait]
pub trait Reverse: Send + Sync {
    /// The answer as the protocol wants it, or why there is none.
    async fn ask(&self, question: Question) -> Result<Value, Refusal>;
}

/// Something that a server asks.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// What kind of question it is.
    pub kind: QuestionKind,
    /// The parameters as they came; null if there were none.
    pub params: Value,
}

/// What can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QuestionKind {
    /// `sampling/createMessage`: let a model say something.
    Sampling,
    /// `elicitation/create`: ask a person.
    Elicitation,
    /// `roots/list`: which folders are open.
    Roots,
}

impl QuestionKind {
    /// Its method in the protocol.
    pub fn method(self) -> &'static str {
        match self {
            Self::Sampling => "sampling/createMessage",
            Self::Elicitation => "elicitation/create",
            Self::Roots => "roots/list",
        }
    }

    /// The kind with this method.
    pub fn of(method: &str) -> Option<Self> {
        [Self::Sampling, Self::Elicitation, Self::Roots].into_iter().find(|kind| kind.method() == method)
    }

    /// The member of a client's capabilities that announces it.
    pub fn capability(self) -> &'static str {
        match self {
            Self::Sampling => "sampling",
            Self::Elicitation => "elicitation",
            Self::Roots => "roots",
        }
    }

    /// Whether a client with these capabilities, in the protocol's shape, can be asked this.
    pub fn is_within(self, capabilities: &Map<String, Value>, params: &Value) -> bool {
        let announced = capabilities.get(self.capability()).filter(|value| !value.is_null());
        let by_address = self == Self::Elicitation && params.get("mode").and_then(Value::as_str) == Some("url");
        announced.is_some_and(|announced| !by_address || announced.get("url").is_some())
    }
}

/// Why a question gets no answer; the server is told so by an error of JSON-RPC.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// The error's number in JSON-RPC.
    pub number: i32,
    /// For the server.
    pub message: String,
}

impl Refusal {
    /// Nobody can be asked such a thing.
    pub fn unsupported(message: impl Into<String>) -> Self {
        const METHOD_NOT_FOUND: i32 = -32_601;
        Self { number: METHOD_NOT_FOUND, message: message.into() }
    }

    /// The question is not one that can be answered now.
    pub fn invalid(message: impl Into<String>) -> Self {
        const INVALID_REQUEST: i32 = -32_600;
        Self { number: INVALID_REQUEST, message: message.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_what_was_announced_may_be_asked() {
        let Value::Object(announced) = json!({"elicitation": {"form": {}}, "sampling": {}}) else { unreachable!() };
        assert!(QuestionKind::Sampling.is_within(&announced, &json!({})));
        assert!(QuestionKind::Elicitation.is_within(&announced, &json!({"mode": "form"})));
        assert!(!QuestionKind::Elicitation.is_within(&announced, &json!({"mode": "url"})));
        assert!(!QuestionKind::Roots.is_within(&announced, &json!({})));
        assert_eq!(QuestionKind::of("elicitation/create"), Some(QuestionKind::Elicitation));
        assert_eq!(QuestionKind::of("tools/list"), None);
    }
}
