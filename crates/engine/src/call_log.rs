//! The seam to a log of calls that outlives the process, so that an execution can be taken up after a crash. What is done
//! with the log is in `recording.rs`.

use crate::host_calls::{HostCallError, TOOL};
use crate::json;
use async_trait::async_trait;
use coracle_policy::Doubt;
use coracle_store::StoreError;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::fmt;

/// Maximum length of an answer that is kept.
pub(crate) const MAX_ANSWER_BYTES: usize = 256 << 10;
/// Maximum length of a name that hostile code gave.
const MAX_NAME_CHARS: usize = 200;

/// Keeps the calls of one execution, so that it can be taken up after a crash.
///
/// An execution is attempted again by running its code again, with a log of the same calls. A call is identified by its
/// number: calls of an earlier attempt keep theirs, and new ones get higher numbers.
///
/// Contract: the methods are called concurrently, and are dropped at any await when the execution ends. What a method has
/// returned `Ok` for is on disk. `began` and `ended` replace what the log has under the same number.
/// `coracle_testing::call_log_contract` has tests that every implementation must pass.
#[async_trait]
pub trait CallLog: fmt::Debug + Send + Sync {
    /// A call that may have an effect is about to be sent. It is sent only after this has returned `Ok`.
    async fn began(&self, call: &LoggedCall) -> Result<(), CallLogError>;

    /// The answer of a call, before the code sees it. Calls that are not sent, or are repeatable, do not begin first.
    async fn ended(&self, call: &LoggedCall, answer: &CallAnswer) -> Result<(), CallLogError>;

    /// The calls of earlier attempts of the same execution, in the order of their numbers.
    fn earlier(&self) -> Vec<EarlierCall>;
}

/// A call as the log identifies it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoggedCall {
    /// Number of the call in its execution, from 1; the same as in events.
    pub number: u64,
    /// Name of the call: `server.tool`, or a method of the host. Untrusted, but short.
    pub what: String,
    /// Digest of method and parameters.
    pub digest: String,
    /// Whether making the call again has no further effect, because it only reads, is idempotent, or was never sent.
    pub is_repeatable: bool,
}

/// A call of an earlier attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EarlierCall {
    /// The call.
    pub call: LoggedCall,
    /// Its answer. Without one, nobody knows whether it took effect.
    pub answer: Option<CallAnswer>,
}

/// The answer to a call, as it is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallAnswer {
    /// The answer.
    Answer(Value),
    /// The call failed.
    Error {
        /// Stable error code.
        code: String,
        /// Message for people and models.
        message: String,
        /// Whether the same call may succeed later.
        retryable: bool,
    },
    /// The answer was too long to be kept.
    NotRecorded {
        /// Length of the answer.
        bytes: usize,
    },
}

impl CallAnswer {
    /// The form of an answer that is kept, if at most `most` bytes are. `bytes` is the length of the answer.
    pub(crate) fn of(outcome: Result<&Value, &HostCallError>, bytes: usize, most: usize) -> Self {
        match outcome {
            _ if bytes > most.min(MAX_ANSWER_BYTES) => Self::NotRecorded { bytes },
            Ok(answer) => Self::Answer(answer.clone()),
            Err(HostCallError { code, message, retryable }) => {
                Self::Error { code: code.clone(), message: message.clone(), retryable: *retryable }
            }
        }
    }

    /// Length of what is kept.
    pub(crate) fn kept_bytes(&self) -> usize {
        match self {
            Self::Answer(answer) => usize::try_from(json::length(answer)).unwrap_or(usize::MAX),
            Self::Error { message, .. } => message.len(),
            Self::NotRecorded { .. } => 0,
        }
    }
}

/// Whether an answer is the no of a person who was asked because of a doubt. It holds for all calls that are the same.
pub(crate) fn is_refusal(answer: &CallAnswer) -> bool {
    let codes = [Doubt::Unanswered.code(), Doubt::Differs.code()];
    matches!(answer, CallAnswer::Error { code, .. } if codes.contains(&code.as_str()))
}

/// Length of an outcome: of the answer as JSON, or of the message.
pub(crate) fn length(outcome: Result<&Value, &HostCallError>) -> usize {
    match outcome {
        Ok(answer) => usize::try_from(json::length(answer)).unwrap_or(usize::MAX),
        Err(error) => error.message.len(),
    }
}

/// Why a call could not be written to its log.
#[derive(Debug, thiserror::Error)]
pub enum CallLogError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Something else failed.
    #[error("cannot write the log of calls: {reason}")]
    Failed {
        /// The reason.
        reason: String,
    },
}

impl CallLogError {
    /// Stable error code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Store(error) => error.code(),
            Self::Failed { .. } => "call_log_failed",
        }
    }

    /// How to fix the error.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Store(error) => error.hint(),
            Self::Failed { .. } => None,
        }
    }
}

/// A readable name of a call, and the digest of its method and parameters.
pub(crate) fn digest(method: &str, params: &Map<String, Value>) -> (String, String) {
    let text = |name: &str| params.get(name).and_then(Value::as_str).unwrap_or_default();
    let what = if method == TOOL { format!("{}.{}", text("server"), text("tool")) } else { method.to_owned() };
    let mut hash = Sha256::new();
    hash.update(method);
    hash.update([0]);
    json::hash(&mut hash, params);
    (what.chars().take(MAX_NAME_CHARS).collect(), hex::encode(hash.finalize()))
}

#[cfg(test)]
mod tests {
    use super::{CallAnswer, MAX_ANSWER_BYTES, digest, length};
    use crate::host_calls::refused;
    use serde_json::{Value, json};

    #[test]
    fn the_order_of_arguments_makes_no_difference_and_their_values_do() {
        let of = |value: Value| digest("tool", value.as_object().unwrap());
        let one = of(json!({"server": "s", "tool": "t", "arguments": {"a": 1, "b": {"c": 2, "d": 3}}}));
        assert_eq!(one.0, "s.t");
        assert_eq!(one, of(json!({"tool": "t", "server": "s", "arguments": {"b": {"d": 3, "c": 2}, "a": 1}})));
        assert_ne!(one, of(json!({"tool": "t", "server": "s", "arguments": {"b": {"d": 3, "c": 2}, "a": 2}})));
    }

    #[test]
    fn digests_of_recordings_stay_as_they_are() {
        let params = json!({"tool": "t", "server": "s", "arguments": {"b": {"d": 3, "c": 2.5}, "a": "é\n"}});
        let known = "66e32b685b7617c107170d7a0f9cb0439db717556171c4dcc47beaf5a30221b8";
        assert_eq!(digest("tool", params.as_object().unwrap()).1, known);
    }

    #[test]
    fn answers_keep_their_stored_form() {
        let of = |outcome: Result<&Value, _>| CallAnswer::of(outcome, length(outcome), usize::MAX);
        let error = refused("timeout", "too late");
        let long = json!("x".repeat(MAX_ANSWER_BYTES));
        for (answer, stored) in [
            (of(Ok(&json!([1]))), json!({"answer": [1]})),
            (of(Err(&error)), json!({"error": {"code": "timeout", "message": "too late", "retryable": false}})),
            (of(Ok(&long)), json!({"not_recorded": {"bytes": MAX_ANSWER_BYTES + 2}})),
        ] {
            assert_eq!(serde_json::to_value(&answer).unwrap(), stored);
            assert_eq!(serde_json::from_value::<CallAnswer>(stored).unwrap(), answer);
        }
    }
}
