//! The log of sessions: each task is recorded before its code runs, and its outcome before the caller gets it.
//!
//! The store is authoritative. `file.rs` writes a copy into the workspace, for people and for code; `tape.rs` records the
//! answers of the host, so that the code can be replayed without calling anything.

mod file;
mod tape;

use crate::json;
use crate::request::Request;
use coracle_store::{MAX_NAME_BYTES, NewTask, SessionRecord, Store, StoreError, TaskEnd, TaskRecord, TaskState};
use coracle_types::{ErrorCode, ExecutionId, Failure, SessionId, UserId};
pub(crate) use file::{Copy, Shown, checkpoint, entry, stamp, state_files};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::SystemTime;
pub(crate) use tape::{Tape, Taped};

/// Maximum length of a result or output in the log. Of a longer one, the log keeps the beginning and a digest.
const MAX_RESULT_BYTES: u64 = 128 << 10;
const MAX_STREAM_BYTES: usize = 64 << 10;
/// Maximum size of variables that are recorded.
const MAX_VARS_BYTES: u64 = 256 << 10;
/// Maximum number of calls, and of artifacts, in the record of a task.
const MAX_LISTED: usize = 1_000;

/// A task that has begun. If it is dropped before it is finished, it is recorded as interrupted.
#[derive(Debug)]
pub(crate) struct OpenTask {
    store: Arc<dyn Store>,
    pub(crate) place: TaskPlace,
    begun: NewTask,
    open: bool,
}

/// Position of a task in the log.
#[derive(Clone, Debug)]
pub(crate) struct TaskPlace {
    pub(crate) user: UserId,
    pub(crate) session: SessionId,
    pub(crate) number: u64,
    /// Whether its code has made a checkpoint.
    pub(crate) checkpointed: Arc<AtomicBool>,
}

impl OpenTask {
    /// Records that a task begins, with its variables unless their JSON is too long. The store refuses this if the
    /// session has ended.
    pub(crate) async fn begin(
        store: &Arc<dyn Store>,
        request: &Request,
        vars_bytes: u64,
        session: &SessionRecord,
        execution: &ExecutionId,
    ) -> Result<Self, StoreError> {
        let begun = NewTask {
            execution_id: execution.clone(),
            description: request.description.as_deref().map(|text| head(text, MAX_NAME_BYTES).to_owned()),
            language: request.language,
            code: request.code.clone(),
            vars: (vars_bytes <= MAX_VARS_BYTES).then(|| request.vars.clone()),
            started_at: SystemTime::now(),
        };
        let store = Arc::clone(store);
        let number = store.begin_task(&request.user, &session.id, &begun).await?;
        let (user, session) = (request.user.clone(), session.id.clone());
        let place = TaskPlace { user, session, number, checkpointed: Arc::default() };
        Ok(Self { store, place, begun, open: true })
    }

    /// Records the outcome, and returns the task as it is in the log once that is on disk, or the failure of an
    /// execution whose log cannot be written.
    pub(crate) async fn finish(
        mut self,
        state: TaskState,
        outcome: Value,
        tape: Option<Tape>,
    ) -> Result<TaskRecord, Failure> {
        let end = TaskEnd { ended_at: SystemTime::now(), state, outcome, recording: tape.map(Tape::into_value) };
        let TaskPlace { user, session, number, .. } = self.place.clone();
        match self.store.finish_task(&user, &session, number, &end).await {
            Ok(()) => {
                self.open = false;
                let begun = self.begun.clone();
                let TaskEnd { ended_at, state, outcome, .. } = end;
                Ok(TaskRecord { number, begun, state, ended_at: Some(ended_at), outcome: Some(outcome) })
            }
            Err(error) => {
                tracing::error!(%session, number, %error, "cannot write the log of a session");
                Err(Failure {
                    error: format!("the code ran, but the log of its session could not be written: {error}"),
                    ..not_logged(&error)
                })
            }
        }
    }
}

impl Drop for OpenTask {
    fn drop(&mut self) {
        let (true, Ok(runtime)) = (self.open, tokio::runtime::Handle::try_current()) else { return };
        let (store, place) = (Arc::clone(&self.store), self.place.clone());
        runtime.spawn(async move {
            let end = TaskEnd {
                ended_at: SystemTime::now(),
                state: TaskState::Interrupted,
                outcome: json!({ "interrupted": "the client disconnected before it ended" }),
                recording: None,
            };
            let TaskPlace { user, session, number, .. } = &place;
            if let Err(error) = store.finish_task(user, session, *number, &end).await {
                tracing::warn!(%session, number, %error, "cannot record that a task was interrupted");
            }
        });
    }
}

/// The label of a session, or its id if it has none.
pub(crate) fn shown_name(session: &SessionRecord) -> &str {
    session.label.as_deref().unwrap_or(session.id.as_str())
}

pub(crate) fn failed(reason: &str) -> Failure {
    Failure {
        error: format!("the log of the session cannot be written: {reason}"),
        error_code: ErrorCode::Internal,
        traceback: None,
        hint: Some("see to the data folder (CORACLE_HOME), or run the code without a session".to_owned()),
    }
}

pub(crate) fn not_logged(error: &StoreError) -> Failure {
    let plain = failed(&error.to_string());
    Failure { hint: error.hint().or(plain.hint), ..plain }
}

/// The beginning of a text, at most `most` bytes long.
pub(crate) fn head(text: &str, most: usize) -> &str {
    text.get(..text.floor_char_boundary(most)).unwrap_or_default()
}

/// The record of an execution, from its JSON form. Of long values it has the beginning and a digest, so that two records
/// can be compared.
pub(crate) fn outcome(execution: &Value) -> Value {
    let Some(fields) = execution.as_object() else { return execution.clone() };
    let (mut kept, mut shortened) = (Map::new(), Map::new());
    for (name, value) in fields {
        let value = match (name.as_str(), value) {
            // `output` repeats standard output line by line, and the log does not need the limits.
            ("output" | "limits", _) => continue,
            ("result", result) if json::is_longer(result, MAX_RESULT_BYTES) => {
                let text = json::sorted_text(result);
                shortened.insert(name.clone(), text_digest(&text).into());
                format!("{}… ({} bytes)", head(&text, 1_000), text.len()).into()
            }
            ("stdout" | "stderr", Value::String(text)) if text.len() > MAX_STREAM_BYTES => {
                shortened.insert(name.clone(), text_digest(text).into());
                format!("{}…", head(text, MAX_STREAM_BYTES)).into()
            }
            ("calls" | "artifacts", Value::Array(list)) => list.iter().take(MAX_LISTED).cloned().collect(),
            (_, value) => value.clone(),
        };
        kept.insert(name.clone(), value);
    }
    if !shortened.is_empty() {
        kept.insert("shortened".to_owned(), shortened.into());
    }
    Value::Object(kept)
}

pub(crate) fn text_digest(text: &str) -> String {
    hex::encode(Sha256::digest(text))
}

#[cfg(test)]
mod tests {
    use super::{MAX_LISTED, MAX_RESULT_BYTES, MAX_STREAM_BYTES, outcome, text_digest};
    use serde_json::{Value, json};

    #[test]
    fn short_values_are_recorded_as_they_are_and_long_ones_by_their_digest() {
        let short = json!({ "success": true, "result": [1], "stdout": "a\n", "stderr": "", "calls": [], "limits": {} });
        let mut expected = short.clone();
        expected.as_object_mut().unwrap().remove("limits");
        assert_eq!(outcome(&short), expected);

        let (printed, result) = ("é".repeat(MAX_STREAM_BYTES), "x".repeat(MAX_RESULT_BYTES as usize));
        let calls: Vec<Value> = (0..MAX_LISTED + 5).map(Value::from).collect();
        let long = json!({ "result": result, "stdout": printed, "output": [printed], "calls": calls });
        let kept = outcome(&long);
        assert_eq!(kept["shortened"]["stdout"], text_digest(&printed));
        assert_eq!(kept["shortened"]["result"], text_digest(&crate::json::sorted_text(&long["result"])));
        assert_eq!(kept["calls"].as_array().unwrap().len(), MAX_LISTED);
        assert!(kept.get("output").is_none() && kept.to_string().len() < 2 * MAX_STREAM_BYTES);
    }
}
