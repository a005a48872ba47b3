//! The log of sessions: which session is meant, a line before code runs in it, and what came of it before anybody is told.
//!
//! The store is the truth; `file.rs` writes a copy for code and people into the workspace, `tape.rs` keeps what the host
//! answered, so that the code can run again without the world.

mod file;
mod tape;

use crate::engine::Engine;
use crate::host_calls::HostCallError;
use crate::request::Request;
use crate::verdict::invalid;
use coracle_store::{
    Checkpoint, MAX_CONTEXT_BYTES, MAX_NAME_BYTES, NewTask, SessionRecord, Store, StoreError, TaskEnd, TaskRecord,
    TaskState,
};
use coracle_types::{ErrorCode, Execution, ExecutionId, Failure, SessionId, UserId};
pub(crate) use file::{Copy, Shown, checkpoint, entry, stamp, state_files};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;
pub(crate) use tape::{Said, Tape, Taped, digest};

/// Whoever names this session gets a new one without a name, and is told its id.
const NEW: &str = "new";

/// A longer result or output is not kept whole.
const MAX_RESULT_BYTES: usize = 128 << 10;
const MAX_STREAM_BYTES: usize = 64 << 10;
/// Variables that are longer are not kept.
const MAX_VARS_BYTES: usize = 256 << 10;
/// So many calls and artifacts of a task are listed.
const MAX_LISTED: usize = 1_000;

/// A task that has begun. Dropped before it is finished, it was interrupted.
#[derive(Debug)]
pub(crate) struct OpenTask {
    store: Arc<dyn Store>,
    pub(crate) place: TaskPlace,
    begun: NewTask,
    open: bool,
}

/// Where a task is in the log.
#[derive(Clone, Debug)]
pub(crate) struct TaskPlace {
    pub(crate) user: UserId,
    pub(crate) session: SessionId,
    pub(crate) number: u64,
    /// Its code has made a checkpoint.
    pub(crate) checkpointed: Arc<AtomicBool>,
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
                tracing::warn!(%session, number, %error, "the log does not say that a task was interrupted");
            }
        });
    }
}

impl Engine {
    /// The session that a request names: by its id, which must be one of the user's own, or by a name, which is made the
    /// label of a new one if there is none.
    pub(crate) async fn session_of(&self, user: &UserId, handle: &SessionId) -> Result<SessionRecord, Failure> {
        let store = self.store();
        if handle.is_minted() {
            let found = store.session(user, handle).await.map_err(|error| not_logged(&error))?;
            return match found {
                Some(session) if session.ended_at.is_none() => Ok(session),
                Some(session) => Err(Failure {
                    hint: Some("begin another one: give any name, or `new`".to_owned()),
                    ..invalid(format!("session {} has ended", shown_name(&session)))
                }),
                None => Err(Failure {
                    hint: Some("give any name to begin a session, or `new` for one without a name".to_owned()),
                    ..invalid(format!("there is no session {handle}"))
                }),
            };
        }
        let label = (handle.as_str() != NEW).then_some(handle.as_str());
        let id = new_id().map_err(|reason| failed(&reason))?;
        store.open_session(user, &id, label, SystemTime::now()).await.map_err(|error| not_logged(&error))
    }

    /// Writes down that a task begins. The store does not take it if the session has ended.
    pub(crate) async fn begin_task(
        &self,
        request: &Request,
        session: &SessionRecord,
        execution: &ExecutionId,
    ) -> Result<OpenTask, StoreError> {
        let vars = serde_json::to_vec(&request.vars).map_or(usize::MAX, |bytes| bytes.len());
        let task = NewTask {
            execution_id: execution.clone(),
            description: request.description.as_deref().map(|text| head(text, MAX_NAME_BYTES).to_owned()),
            language: request.language,
            code: request.code.clone(),
            vars: (vars <= MAX_VARS_BYTES).then(|| request.vars.clone()),
            started_at: SystemTime::now(),
        };
        let store = Arc::clone(self.store());
        let number = store.begin_task(&request.user, &session.id, &task).await?;
        self.sessions().remember(&request.user, SessionRecord { tasks: number, ..session.clone() });
        let (user, session) = (request.user.clone(), session.id.clone());
        let place = TaskPlace { user, session, number, checkpointed: Arc::default() };
        Ok(OpenTask { store, place, begun: task, open: true })
    }

    /// Writes down what came of it, and returns when that is on the disk. What cannot be written down is no success.
    /// Returns the task as the log has it.
    pub(crate) async fn finish_task(
        &self,
        mut task: OpenTask,
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
        let TaskPlace { user, session, number, .. } = task.place.clone();
        match task.store.finish_task(&user, &session, number, &end).await {
            Ok(()) => {
                task.open = false;
                let begun = task.begun.clone();
                let TaskEnd { ended_at, state, outcome, .. } = end;
                Some(TaskRecord { number, begun, state, ended_at: Some(ended_at), outcome: Some(outcome) })
            }
            Err(error) => {
                tracing::error!(%session, number, %error, "the log of a session cannot be written");
                execution.success = false;
                execution.failure.get_or_insert_with(|| Failure {
                    error: format!("the code ran, but the log of its session could not be written: {error}"),
                    ..not_logged(&error)
                });
                None
            }
        }
    }

    /// The same after a task, of which all is known: tasks and checkpoints are read only if others have added some.
    pub(crate) async fn write_log_after(
        &self,
        place: &TaskPlace,
        task: &TaskRecord,
        workspace: &Path,
        shown: &mut Shown,
    ) {
        if let Ok(Some(session)) = self.store().session(&place.user, &place.session).await
            && session.tasks == task.number
            && !place.checkpointed.load(Ordering::SeqCst)
            && shown.add(task)
        {
            let copy = Copy::known(&place.user, session, std::mem::take(shown));
            return self.put_log_file(copy, workspace, shown).await;
        }
        self.write_log_file(&place.user, &place.session, workspace, shown).await;
    }

    /// Writes the copy of the log into the workspace. That it cannot be written is no fault of the code.
    pub(crate) async fn write_log_file(&self, user: &UserId, session: &SessionId, workspace: &Path, shown: &mut Shown) {
        let copy = match Copy::of(self.store().as_ref(), user, session, std::mem::take(shown)).await {
            Ok(Some(copy)) => copy,
            Ok(None) => return,
            Err(error) => {
                tracing::warn!(%session, %error, "the log of a session cannot be read");
                return;
            }
        };
        self.put_log_file(copy, workspace, shown).await;
    }

    async fn put_log_file(&self, copy: Copy, workspace: &Path, shown: &mut Shown) {
        let (workspace, session) = (workspace.to_owned(), copy.session().clone());
        let writing = tokio::task::spawn_blocking(move || copy.write(&workspace).map(|()| copy.into_shown()));
        match writing.await.map_err(std::io::Error::other).and_then(|written| written) {
            Ok(written) => *shown = written,
            Err(error) => tracing::warn!(%session, %error, "the log of a session is not written into the workspace"),
        }
    }

    /// Marks tasks as interrupted whose process is gone, and says so in the logs.
    pub(crate) async fn recover(&self) {
        let lost = match self.store().interrupt_lost().await {
            Ok(lost) => lost,
            Err(error) => {
                tracing::warn!(%error, "whether executions were interrupted cannot be told");
                return;
            }
        };
        for task in lost {
            tracing::warn!(user = %task.user, session = %task.session, number = task.number,
                "an execution was interrupted: its process is gone");
            if let Ok(workspace) = self.folders(&task.user).files() {
                self.write_log_file(&task.user, &task.session, &workspace, &mut Shown::default()).await;
            }
        }
    }

    /// Code says where it has come to. Answered when that is on the disk.
    pub(crate) async fn checkpoint(
        &self,
        task: Option<&TaskPlace>,
        mut params: Map<String, Value>,
    ) -> Result<Value, HostCallError> {
        let refused = |code: &str, message: String| HostCallError { code: code.to_owned(), message, retryable: false };
        let Some(Value::String(step)) = params.remove("step") else {
            return Err(refused("invalid_request", "a checkpoint has a step, which is a text".to_owned()));
        };
        let Some(TaskPlace { user, session, number, checkpointed }) = task else {
            let message = "a checkpoint belongs to a session, and this code runs in none: give `session` with the code";
            return Err(refused("no_session", message.to_owned()));
        };
        let context = params.remove("context").unwrap_or_default();
        let checkpoint = Checkpoint { step, context, last_task: *number, made_at: SystemTime::now() };
        checkpointed.store(true, Ordering::SeqCst);
        match self.store().checkpoint(user, session, &checkpoint).await {
            Ok(()) => Ok(Value::Null),
            Err(error @ (StoreError::TooLarge { .. } | StoreError::InvalidName { .. })) => {
                let hint = format!("at most {MAX_CONTEXT_BYTES} bytes of context: put more into a file below state/");
                Err(refused("invalid_request", format!("{error}; {hint}")))
            }
            Err(error) => Err(refused("unavailable", format!("the checkpoint is not kept: {error}"))),
        }
    }
}

/// What a person calls it, else its id: what goes on naming it.
pub(crate) fn shown_name(session: &SessionRecord) -> &str {
    session.label.as_deref().unwrap_or(session.id.as_str())
}

fn new_id() -> Result<SessionId, String> {
    let mut bytes = [0; 16];
    // Nothing else is unguessable.
    getrandom::fill(&mut bytes).map_err(|error| error.to_string())?;
    Ok(SessionId::from_random(u128::from_be_bytes(bytes)))
}

fn failed(reason: &str) -> Failure {
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

/// What went wrong with the store, and what to do about it, in one line.
pub(crate) fn advised(error: &StoreError) -> String {
    match error.hint() {
        Some(hint) => format!("{error}; {hint}"),
        None => error.to_string(),
    }
}

/// As much of a text as fits.
pub(crate) fn head(text: &str, most: usize) -> &str {
    text.get(..text.floor_char_boundary(most)).unwrap_or_default()
}

/// What is kept of an execution. Of what is too long its beginning and its digest, by which two can still be compared.
pub(crate) fn outcome(execution: &Execution) -> Value {
    let mut shortened = Map::new();
    let mut kept = serde_json::to_value(execution).unwrap_or_default();
    let Some(fields) = kept.as_object_mut() else { return kept };
    // The lines of standard output, and what was asked for and held: nothing that the log needs twice.
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
