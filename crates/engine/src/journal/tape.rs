//! Records the answers of the host to the calls of one execution.

use crate::host_calls::{HostCallError, HostCalls, TOOL};
use crate::json;
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum length of an answer that is recorded.
const MAX_ANSWER_BYTES: usize = 256 << 10;
/// Maximum size of the recording of one execution; less than the store accepts.
const MAX_TAPE_BYTES: usize = 1 << 20;
/// Maximum size of an entry without its answer.
const ENTRY_BYTES: usize = 1 << 10;
/// Maximum length of a name that hostile code gave.
const MAX_NAME_CHARS: usize = 200;

/// One call and its answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Taped {
    /// Name of the call: `server.tool`, or a method of the host.
    pub(crate) what: String,
    /// Digest of the parameters.
    pub(crate) digest: String,
    #[serde(flatten)]
    pub(crate) said: Said,
}

/// The answer to a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Said {
    /// The answer.
    Answer(Value),
    /// The call failed.
    Error { code: String, message: String, retryable: bool },
    /// The answer was too long to be recorded.
    NotRecorded { bytes: usize },
}

/// Records answers while code runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tape(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    entries: Vec<Taped>,
    bytes: usize,
    /// Number of calls that were not recorded.
    missed: usize,
}

impl Kept {
    fn has_room(&self) -> bool {
        self.bytes + ENTRY_BYTES <= MAX_TAPE_BYTES
    }
}

impl Tape {
    /// Passes calls on, and records the answers.
    pub(crate) fn around(&self, calls: Arc<dyn HostCalls>) -> Arc<dyn HostCalls> {
        Arc::new(Recorder { calls, tape: self.clone() })
    }

    /// The form that is stored.
    pub(crate) fn into_value(self) -> Value {
        let kept = std::mem::take(&mut *self.lock());
        json!({ "calls": kept.entries, "missed": kept.missed })
    }

    /// Reads the form that is stored.
    pub(crate) fn entries(stored: &Value) -> (Vec<Taped>, u64) {
        let entries = stored.get("calls").cloned().and_then(|calls| serde_json::from_value(calls).ok());
        (entries.unwrap_or_default(), stored.get("missed").and_then(Value::as_u64).unwrap_or_default())
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether another call can be recorded. Once there is no room, there never is.
    fn has_room(&self) -> bool {
        self.lock().has_room()
    }

    fn keep(&self, what: String, digest: String, outcome: &Result<Value, HostCallError>) {
        let mut kept = self.lock();
        if !kept.has_room() {
            kept.missed += 1;
            return;
        }
        let bytes = match outcome {
            Ok(answer) => usize::try_from(json::length(answer)).unwrap_or(usize::MAX),
            Err(error) => error.message.len(),
        };
        let fits = bytes <= MAX_ANSWER_BYTES && kept.bytes + ENTRY_BYTES + bytes <= MAX_TAPE_BYTES;
        let said = match outcome {
            _ if !fits => Said::NotRecorded { bytes },
            Ok(answer) => Said::Answer(answer.clone()),
            Err(HostCallError { code, message, retryable }) => {
                Said::Error { code: code.clone(), message: message.clone(), retryable: *retryable }
            }
        };
        kept.bytes += ENTRY_BYTES + if fits { bytes } else { 0 };
        kept.entries.push(Taped { what, digest, said });
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

#[derive(Debug)]
struct Recorder {
    calls: Arc<dyn HostCalls>,
    tape: Tape,
}

#[async_trait]
impl HostCalls for Recorder {
    async fn call(&self, method: String, params: Map<String, Value>) -> Result<Value, HostCallError> {
        // Calls that will not be recorded are not hashed.
        let named = self.tape.has_room().then(|| digest(&method, &params));
        let outcome = self.calls.call(method, params).await;
        match named {
            Some((what, digest)) => self.tape.keep(what, digest, &outcome),
            None => self.tape.lock().missed += 1,
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_ANSWER_BYTES, Said, Tape, digest};
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
    fn what_is_too_long_is_marked_and_there_is_an_end_to_it() {
        let tape = Tape::default();
        tape.keep("a".to_owned(), "1".to_owned(), &Ok(json!("x".repeat(MAX_ANSWER_BYTES))));
        tape.keep("b".to_owned(), "2".to_owned(), &Ok(json!(7)));
        for _ in 0..2_000 {
            tape.keep("c".to_owned(), "3".to_owned(), &Ok(json!("y".repeat(1_000))));
        }
        let stored = tape.into_value();
        assert!(stored.to_string().len() < coracle_store::MAX_RECORDING_BYTES);
        let (entries, missed) = Tape::entries(&stored);
        assert_eq!(entries[0].said, Said::NotRecorded { bytes: MAX_ANSWER_BYTES + 2 });
        assert_eq!(entries[1].said, Said::Answer(json!(7)));
        assert_eq!(entries.len() as u64 + missed, 2_002);
        assert!(missed > 0);
    }
}
