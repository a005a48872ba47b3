//! Questions that servers ask their client during a call.

use async_trait::async_trait;
use serde_json::{Map, Value};

/// Answers the questions of a server during one call, with the help of a person, a model or a list of folders.
///
/// Everything in a question is untrusted. The implementation decides how long an answer may take; the clock of the call
/// is stopped meanwhile. When the call is over, the future is dropped.
#[async_trait]
pub trait Reverse: Send + Sync {
    /// Returns the answer in the protocol's shape, or why there is none.
    async fn ask(&self, question: Question) -> Result<Value, Refusal>;
}

/// A question of a server.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// The kind of question.
    pub kind: QuestionKind,
    /// The parameters, unchanged. Null if there are none.
    pub params: Value,
}

/// The kinds of questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QuestionKind {
    /// `sampling/createMessage`: a model generates a message.
    Sampling,
    /// `elicitation/create`: a person is asked.
    Elicitation,
    /// `roots/list`: lists the open folders.
    Roots,
}

impl QuestionKind {
    /// The method in the protocol.
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

    /// The client capability that announces this kind.
    pub fn capability(self) -> &'static str {
        match self {
            Self::Sampling => "sampling",
            Self::Elicitation => "elicitation",
            Self::Roots => "roots",
        }
    }

    /// Whether a client with these capabilities, in the protocol's shape, can be asked this question.
    pub fn is_within(self, capabilities: &Map<String, Value>, params: &Value) -> bool {
        let announced = capabilities.get(self.capability()).filter(|value| !value.is_null());
        let by_address = self == Self::Elicitation && params.get("mode").and_then(Value::as_str) == Some("url");
        announced.is_some_and(|announced| !by_address || announced.get("url").is_some())
    }
}

/// Why a question is not answered. The server gets a JSON-RPC error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// The JSON-RPC error number.
    pub number: i32,
    /// The message for the server.
    pub message: String,
}

impl Refusal {
    /// The client cannot answer such questions.
    pub fn unsupported(message: impl Into<String>) -> Self {
        const METHOD_NOT_FOUND: i32 = -32_601;
        Self { number: METHOD_NOT_FOUND, message: message.into() }
    }

    /// The question cannot be answered now.
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
    fn only_announced_kinds_of_questions_may_be_asked() {
        let Value::Object(announced) = json!({"elicitation": {"form": {}}, "sampling": {}}) else { unreachable!() };
        assert!(QuestionKind::Sampling.is_within(&announced, &json!({})));
        assert!(QuestionKind::Elicitation.is_within(&announced, &json!({"mode": "form"})));
        assert!(!QuestionKind::Elicitation.is_within(&announced, &json!({"mode": "url"})));
        assert!(!QuestionKind::Roots.is_within(&announced, &json!({})));
        assert_eq!(QuestionKind::of("elicitation/create"), Some(QuestionKind::Elicitation));
        assert_eq!(QuestionKind::of("tools/list"), None);
    }
}
