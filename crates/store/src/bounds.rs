//! Size limits, which are the same for both stores.

use crate::{Checkpoint, ExecutionRecord, ListedTools, NewArtifact, NewTask, StoreError, TaskEnd, ToolDecision};
use coracle_types::{Secret, Tool};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// The maximum length of the name of a tool or a secret, and of a fingerprint or digest.
pub const MAX_NAME_BYTES: usize = 1 << 10;
/// The maximum size of the list of tools of one server, as JSON.
pub const MAX_TOOLS_BYTES: usize = 16 << 20;
/// The maximum size of a learned shape, as JSON.
pub const MAX_SHAPE_BYTES: usize = 1 << 20;
/// The maximum length of a secret.
pub const MAX_SECRET_BYTES: usize = 64 << 10;
/// The maximum length of the code of an execution.
pub const MAX_CODE_BYTES: usize = 1 << 20;
/// The maximum size of the outcome of an execution, as JSON.
pub const MAX_OUTCOME_BYTES: usize = 4 << 20;
/// The maximum length of the path of an artifact.
pub const MAX_PATH_BYTES: usize = 4 << 10;
/// The maximum size of the preview of an artifact, as JSON.
pub const MAX_PREVIEW_BYTES: usize = 16 << 10;
/// The maximum number of entries in one page of a list.
pub const MAX_PAGE: usize = 100;
/// The default for the number of executions that are kept per user. Older ones are deleted.
pub const KEPT_EXECUTIONS: usize = 1_000;

/// The maximum size of the recorded answers to the calls of one task, as JSON.
pub const MAX_RECORDING_BYTES: usize = 2 << 20;
/// The maximum size of the context of a checkpoint, as JSON.
pub const MAX_CONTEXT_BYTES: usize = 64 << 10;
/// The default for the number of sessions that are kept per user. The least recently used ones are deleted.
pub const KEPT_SESSIONS: usize = 1_000;
/// The default for the number of tasks that are kept per session.
pub const KEPT_TASKS: u64 = 1_000;
/// The number of tasks per session whose recorded answers are kept.
pub const KEPT_RECORDINGS: u64 = 200;
/// The number of checkpoints that are kept per session.
pub const KEPT_CHECKPOINTS: u64 = 100;

/// How much history is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Number of executions per user.
    pub executions: usize,
    /// Number of sessions per user.
    pub sessions: usize,
    /// Number of tasks per session.
    pub tasks: u64,
    /// How long a session may have an interpreter after its last task. It is kept for at least this time.
    pub live_for: Duration,
}

impl Default for Kept {
    fn default() -> Self {
        Self { executions: KEPT_EXECUTIONS, sessions: KEPT_SESSIONS, tasks: KEPT_TASKS, live_for: Duration::ZERO }
    }
}

impl Kept {
    /// At least one of each, so that a new entry is not deleted at once.
    pub(crate) fn sane(self) -> Self {
        let (executions, sessions) = (self.executions.max(1), self.sessions.max(1));
        Self { executions, sessions, tasks: self.tasks.max(1), ..self }
    }
}

/// The outcome of an execution whose process is gone.
pub(crate) fn lost() -> Value {
    serde_json::json!({
        "success": false,
        "error": "the process that ran this code ended before the code did: how far it came is not known",
        "error_code": "cancelled",
    })
}

pub(crate) fn within(what: &'static str, bytes: usize, max: usize) -> Result<(), StoreError> {
    if bytes <= max { Ok(()) } else { Err(StoreError::TooLarge { what, bytes, max }) }
}

/// Checks the length of a text.
pub(crate) fn text(what: &'static str, text: &str, max: usize) -> Result<(), StoreError> {
    name(what, text)?;
    within(what, text.len(), max)
}

/// Checks a name, which is a key: not empty, not too long, and without the zero byte, which not every database can
/// store.
pub(crate) fn name(what: &'static str, text: &str) -> Result<(), StoreError> {
    if text.is_empty() || text.contains('\0') {
        return Err(StoreError::InvalidName { what });
    }
    within(what, text.len(), MAX_NAME_BYTES)
}

pub(crate) fn tool_name(text: &str) -> Result<(), StoreError> {
    name("tool name", text)
}

/// Checks a list of tools and returns it as JSON.
pub(crate) fn tools(listed: &ListedTools) -> Result<String, StoreError> {
    name("fingerprint", &listed.fingerprint)?;
    let text = json::<Vec<Arc<Tool>>>("tools", &listed.tools)?;
    within("list of tools", text.len(), MAX_TOOLS_BYTES)?;
    Ok(text)
}

/// Checks a shape and returns it as JSON.
pub(crate) fn shape(tool: &str, value: &Value) -> Result<String, StoreError> {
    tool_name(tool)?;
    let text = json("shape", value)?;
    within("shape", text.len(), MAX_SHAPE_BYTES)?;
    Ok(text)
}

pub(crate) fn decision(decision: &ToolDecision) -> Result<(), StoreError> {
    tool_name(&decision.tool)?;
    name("definition digest", &decision.definition)
}

pub(crate) fn secret(name_of_it: &str, secret: &Secret) -> Result<(), StoreError> {
    secret_name(name_of_it)?;
    within("secret", secret.expose().len(), MAX_SECRET_BYTES)
}

pub(crate) fn secret_name(text: &str) -> Result<(), StoreError> {
    name("secret name", text)
}

/// Checks a record and returns its outcome as JSON.
pub(crate) fn record(record: &ExecutionRecord) -> Result<String, StoreError> {
    within("code", record.code.len(), MAX_CODE_BYTES)?;
    let text = json("outcome", &record.outcome)?;
    within("outcome", text.len(), MAX_OUTCOME_BYTES)?;
    Ok(text)
}

pub(crate) fn label(text: &str) -> Result<(), StoreError> {
    name("label of a session", text)
}

/// Checks a task and returns its variables as JSON.
pub(crate) fn task(task: &NewTask) -> Result<Option<String>, StoreError> {
    within("code", task.code.len(), MAX_CODE_BYTES)?;
    within("description", task.description.as_ref().map_or(0, String::len), MAX_NAME_BYTES)?;
    let Some(vars) = &task.vars else { return Ok(None) };
    let text = json("variables", vars)?;
    within("variables", text.len(), MAX_OUTCOME_BYTES)?;
    Ok(Some(text))
}

/// Checks the end of a task and returns outcome and recording as JSON.
pub(crate) fn task_end(end: &TaskEnd) -> Result<(String, Option<String>), StoreError> {
    let outcome = json("outcome", &end.outcome)?;
    within("outcome", outcome.len(), MAX_OUTCOME_BYTES)?;
    let recording = end.recording.as_ref().map(|recording| json("recording", recording)).transpose()?;
    within("recording", recording.as_ref().map_or(0, String::len), MAX_RECORDING_BYTES)?;
    Ok((outcome, recording))
}

/// Checks a checkpoint and returns its context as JSON.
pub(crate) fn checkpoint(checkpoint: &Checkpoint) -> Result<String, StoreError> {
    name("step of a checkpoint", &checkpoint.step)?;
    let text = json("context", &checkpoint.context)?;
    within("context of a checkpoint", text.len(), MAX_CONTEXT_BYTES)?;
    Ok(text)
}

pub(crate) fn artifact(new: &NewArtifact) -> Result<(), StoreError> {
    if new.name.is_empty() || new.name.contains('\0') {
        return Err(StoreError::InvalidName { what: "name of an artifact" });
    }
    within("name of an artifact", new.name.len(), MAX_PATH_BYTES)?;
    name("type of an artifact", &new.mime)?;
    name("digest of an artifact", &new.sha256)?;
    let preview = json("preview", &new.preview)?;
    within("preview of an artifact", preview.len(), MAX_PREVIEW_BYTES)
}

fn json<T: serde::Serialize>(what: &'static str, value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value)
        .map_err(|error| StoreError::Damaged { what: what.to_owned(), reason: error.to_string() })
}
