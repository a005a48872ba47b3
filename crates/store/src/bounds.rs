//! What is too large to be kept. Both stores refuse the same things.

use crate::{Checkpoint, ExecutionRecord, ListedTools, NewArtifact, NewTask, StoreError, TaskEnd, ToolDecision};
use coracle_types::{Secret, Tool};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// Longest name of a tool or a secret, and longest fingerprint or digest.
pub const MAX_NAME_BYTES: usize = 1 << 10;
/// Longest list of tools of one server, as JSON.
pub const MAX_TOOLS_BYTES: usize = 16 << 20;
/// Longest learned shape, as JSON.
pub const MAX_SHAPE_BYTES: usize = 1 << 20;
/// Longest secret.
pub const MAX_SECRET_BYTES: usize = 64 << 10;
/// Longest code of an execution.
pub const MAX_CODE_BYTES: usize = 1 << 20;
/// Longest outcome of an execution, as JSON.
pub const MAX_OUTCOME_BYTES: usize = 4 << 20;
/// Longest path of an artifact.
pub const MAX_PATH_BYTES: usize = 4 << 10;
/// Longest preview of an artifact, as JSON.
pub const MAX_PREVIEW_BYTES: usize = 16 << 10;
/// So many executions are listed at once, whatever is asked for.
pub const MAX_PAGE: usize = 100;
/// So many executions of one user are kept unless the settings say otherwise: with a further one the oldest goes.
pub const KEPT_EXECUTIONS: usize = 1_000;

/// Longest record of what the host answered to the calls of one task, as JSON.
pub const MAX_RECORDING_BYTES: usize = 2 << 20;
/// Longest context of a checkpoint, as JSON.
pub const MAX_CONTEXT_BYTES: usize = 64 << 10;
/// So many sessions of one user are kept unless the settings say otherwise: with a further one the one that was used
/// longest ago goes.
pub const KEPT_SESSIONS: usize = 1_000;
/// So many tasks of one session are kept unless the settings say otherwise.
pub const KEPT_TASKS: u64 = 1_000;
/// Of so many tasks of one session it is kept what the host answered to their calls.
pub const KEPT_RECORDINGS: u64 = 200;
/// So many checkpoints of one session are kept.
pub const KEPT_CHECKPOINTS: u64 = 100;

/// How much of what has run is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Executions of one user.
    pub executions: usize,
    /// Sessions of one user.
    pub sessions: usize,
    /// Tasks of one session.
    pub tasks: u64,
    /// A session may still have an interpreter for this long after its last task, and is kept as long.
    pub live_for: Duration,
}

impl Default for Kept {
    fn default() -> Self {
        Self { executions: KEPT_EXECUTIONS, sessions: KEPT_SESSIONS, tasks: KEPT_TASKS, live_for: Duration::ZERO }
    }
}

impl Kept {
    /// At least one of each: what is being written is not dropped at once.
    pub(crate) fn sane(self) -> Self {
        let (executions, sessions) = (self.executions.max(1), self.sessions.max(1));
        Self { executions, sessions, tasks: self.tasks.max(1), ..self }
    }
}

/// What is said of an execution whose process is gone.
pub(crate) fn lost() -> Value {
    serde_json::json!({
        "success": false,
        "error": "the process that ran this code ended before the code did: how far it came is not known",
        "error_code": "cancelled",
    })
}

fn within(what: &'static str, bytes: usize, max: usize) -> Result<(), StoreError> {
    if bytes <= max { Ok(()) } else { Err(StoreError::TooLarge { what, bytes, max }) }
}

/// The same with a cap of its own.
pub(crate) fn text(what: &'static str, text: &str, max: usize) -> Result<(), StoreError> {
    name(what, text)?;
    within(what, text.len(), max)
}

/// Names are keys: not empty, not endless, and without the one character that not every database can keep.
pub(crate) fn name(what: &'static str, text: &str) -> Result<(), StoreError> {
    if text.is_empty() || text.contains('\0') {
        return Err(StoreError::InvalidName { what });
    }
    within(what, text.len(), MAX_NAME_BYTES)
}

pub(crate) fn tool_name(text: &str) -> Result<(), StoreError> {
    name("tool name", text)
}

/// The tools as JSON, if they may be kept.
pub(crate) fn tools(listed: &ListedTools) -> Result<String, StoreError> {
    name("fingerprint", &listed.fingerprint)?;
    let text = json::<Vec<Arc<Tool>>>("tools", &listed.tools)?;
    within("list of tools", text.len(), MAX_TOOLS_BYTES)?;
    Ok(text)
}

/// The shape as JSON, if it may be kept.
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

/// The outcome as JSON, if the record may be kept.
pub(crate) fn record(record: &ExecutionRecord) -> Result<String, StoreError> {
    within("code", record.code.len(), MAX_CODE_BYTES)?;
    let text = json("outcome", &record.outcome)?;
    within("outcome", text.len(), MAX_OUTCOME_BYTES)?;
    Ok(text)
}

pub(crate) fn label(text: &str) -> Result<(), StoreError> {
    name("label of a session", text)
}

/// The variables as JSON, if the task may be kept.
pub(crate) fn task(task: &NewTask) -> Result<Option<String>, StoreError> {
    within("code", task.code.len(), MAX_CODE_BYTES)?;
    within("description", task.description.as_ref().map_or(0, String::len), MAX_NAME_BYTES)?;
    let Some(vars) = &task.vars else { return Ok(None) };
    let text = json("variables", vars)?;
    within("variables", text.len(), MAX_OUTCOME_BYTES)?;
    Ok(Some(text))
}

/// Outcome and recording as JSON, if they may be kept.
pub(crate) fn task_end(end: &TaskEnd) -> Result<(String, Option<String>), StoreError> {
    let outcome = json("outcome", &end.outcome)?;
    within("outcome", outcome.len(), MAX_OUTCOME_BYTES)?;
    let recording = end.recording.as_ref().map(|recording| json("recording", recording)).transpose()?;
    within("recording", recording.as_ref().map_or(0, String::len), MAX_RECORDING_BYTES)?;
    Ok((outcome, recording))
}

/// The context as JSON, if the checkpoint may be kept.
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
