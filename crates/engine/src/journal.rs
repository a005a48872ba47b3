//! The log of sessions: each task is recorded before its code runs, and its outcome before the caller gets it.
//!
//! The store is authoritative. `file.rs` writes a copy into the workspace, for people and for code; `tape.rs` records the
//! answers of the host, so that the code can be replayed without calling anything.

mod file;
mod tape;

use crate::request::Request;
use coracle_store::{MAX_NAME_BYTES, NewTask, SessionRecord, Store, StoreError, TaskEnd, TaskRecord, TaskState};
use coracle_types::{ErrorCode, Execution, ExecutionId, Failure, SessionId, UserId};
pub(crate) use file::{Copy, Shown, checkpoint, entry, stamp, state_files};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::SystemTime;
pub(crate) use tape::{Said, Tape, Taped, digest};

/// Maximum length of a result or output in the log. Of a longer one, the log keeps the beginning and a digest.
const MAX_RESULT_BYTES: usize = 128 << 10;
const MAX_STREAM_BYTES: usize = 64 << 10;
/// Maximum size of variables that are recorded.
const MAX_VARS_BYTES: usize = 256 << 10;
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
    /// Records that a task begins. The store refuses this if the session has ended.
    pub(crate) async fn begin(
        store: &Arc<dyn Store>,
        request: &Request,
        session: &SessionRecord,
        execution: &ExecutionId,
    ) -> Result<Self, StoreError> {
        let vars = serde_json::to_vec(&request.vars).map_or(usize::MAX, |bytes| bytes.len());
        let begun = NewTask {
            execution_id: execution.clone(),
            description: request.description.as_deref().map(|text| head(text, MAX_NAME_BYTES).to_owned()),
            language: request.language,
            code: request.code.clone(),
            vars: (vars <= MAX_VARS_BYTES).then(|| request.vars.clone()),
            started_at: SystemTime::now(),
        };
        let store = Arc::clone(store);
        let number = store.begin_task(&request.user, &session.id, &begun).await?;
        let (user, session) = (request.user.clone(), session.id.clone());
        let place = TaskPlace { user, session, number, checkpointed: Arc::default() };
        Ok(Self { store, place, begun, open: true })
    }

    /// Records the outcome, and returns the task as it is in the log once that is on disk. If the log cannot be written,
    /// the execution fails.
    pub(crate) async fn finish(
        mut self,
        state: TaskState,
        execution: &mut Execution,
        tape: Option<Tape>,
    ) -> Option<TaskRecord> {
        let end = TaskEnd {
            ended_at: SystemTime::now(),
            state,
            outcome: outcome(execution),
            recording: tape.map(Tape::into_value),
        };
        let TaskPlace { user, session, number, .. } = self.place.clone();
        match self.store.finish_task(&user, &session, number, &end).await {
            Ok(()) => {
                self.open = false;
                let begun = self.begun.clone();
                let TaskEnd { ended_at, state, outcome, .. } = end;
                Some(TaskRecord { number, begun, state, ended_at: Some(ended_at), outcome: Some(outcome) })
            }
            Err(error) => {
                tracing::error!(%session, number, %error, "cannot write the log of a session");
                execution.success = false;
                execution.failure.get_or_insert_with(|| Failure {
                    error: format!("the code ran, but the log of its session could not be written: {error}"),
                    ..not_logged(&error)
                });
                None
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

/// The record of an execution. Of long values it has the beginning and a digest, so that two records can be compared.
pub(crate) fn outcome(execution: &Execution) -> Value {
    let mut shortened = Map::new();
    let mut kept = serde_json::to_value(execution).unwrap_or_default();
    let Some(fields) = kept.as_object_mut() else { return kept };
    // `output` repeats standard output line by line, and the log does not need the limits.
    fields.remove("output");
    fields.remove("limits");
    if let Some(result) = fields.get("result").map(Value::to_string).filter(|text| text.len() > MAX_RESULT_BYTES) {
        shortened.insert("result".to_owned(), text_digest(&result).into());
        let beginning = format!("{}… ({} bytes)", head(&result, 1_000), result.len());
        fields.insert("result".to_owned(), beginning.into());
    }
    for name in ["stdout", "stderr"] {
        if let Some(Value::String(text)) = fields.get_mut(name)
            && text.len() > MAX_STREAM_BYTES
        {
            shortened.insert(name.to_owned(), text_digest(text).into());
            *text = format!("{}…", head(text, MAX_STREAM_BYTES));
        }
    }
    for name in ["calls", "artifacts"] {
        if let Some(Value::Array(list)) = fields.get_mut(name) {
            list.truncate(MAX_LISTED);
        }
    }
    if !shortened.is_empty() {
        fields.insert("shortened".to_owned(), shortened.into());
    }
    kept
}

pub(crate) fn text_digest(text: &str) -> String {
    hex::encode(Sha256::digest(text))
}
