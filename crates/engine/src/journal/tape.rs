//! Records the answers of the host to the calls of one execution.

use crate::call_log::{CallAnswer, digest, length};
use crate::host_calls::{HostCallError, HostCalls};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum size of the recording of one execution; less than the store accepts.
const MAX_TAPE_BYTES: usize = 1 << 20;
/// Maximum size of an entry without its answer.
const ENTRY_BYTES: usize = 1 << 10;

/// One call and its answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Taped {
    /// Name of the call: `server.tool`, or a method of the host.
    pub(crate) what: String,
    /// Digest of the parameters.
    pub(crate) digest: String,
    #[serde(flatten)]
    pub(crate) said: CallAnswer,
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
        let bytes = length(outcome.as_ref());
        let said = CallAnswer::of(outcome.as_ref(), bytes, MAX_TAPE_BYTES - ENTRY_BYTES - kept.bytes);
        kept.bytes += ENTRY_BYTES + if matches!(said, CallAnswer::NotRecorded { .. }) { 0 } else { bytes };
        kept.entries.push(Taped { what, digest, said });
    }
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
    use super::Tape;
    use crate::call_log::{CallAnswer, MAX_ANSWER_BYTES};
    use serde_json::json;

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
        assert_eq!(entries[0].said, CallAnswer::NotRecorded { bytes: MAX_ANSWER_BYTES + 2 });
        assert_eq!(entries[1].said, CallAnswer::Answer(json!(7)));
        assert_eq!(entries.len() as u64 + missed, 2_002);
        assert!(missed > 0);
    }
}
