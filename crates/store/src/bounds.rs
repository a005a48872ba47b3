//! Size limits, which are the same for both stores.

use crate::{
    Checkpoint, ExecutionRecord, ForkedItem, ListedTools, MAX_SEARCH_BYTES, NewArtifact, NewItem, NewRun, NewTask,
    Progress, StoreError, TaskEnd, ToolDecision,
};
use coracle_types::{ItemId, Secret, Tool};
use serde_json::{Map, Value};
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

/// The maximum size of an item of a conversation, as JSON. Images are the largest part.
pub const MAX_ITEM_BYTES: usize = 32 << 20;
/// The maximum number of items in one list.
pub const MAX_ITEMS: usize = 10_000;
/// The maximum size of the request of a run, and of its outcome, as JSON.
pub const MAX_RUN_REQUEST_BYTES: usize = 4 << 20;
/// The maximum size of the metadata of a conversation, as JSON.
const MAX_METADATA_BYTES: usize = 64 << 10;

/// The maximum size of the queue of a conversation, as JSON. Images are the largest part.
pub const MAX_QUEUE_BYTES: usize = 32 << 20;

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

/// The JSON of a queue.
pub(crate) fn queue(content: &Value) -> Result<String, StoreError> {
    let text = content.to_string();
    within("queue", text.len(), MAX_QUEUE_BYTES)?;
    Ok(text)
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
    decision.arguments.as_ref().map_or(Ok(()), |digest| name("arguments digest", digest))?;
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

/// Checks title and metadata of a conversation, and returns the metadata as JSON.
pub(crate) fn conversation(title: Option<&str>, metadata: &Map<String, Value>) -> Result<String, StoreError> {
    self::title(title)?;
    let text = json("metadata", metadata)?;
    within("metadata of a conversation", text.len(), MAX_METADATA_BYTES)?;
    Ok(text)
}

/// Checks the title of a conversation.
pub(crate) fn title(title: Option<&str>) -> Result<(), StoreError> {
    within("title of a conversation", title.map_or(0, str::len), MAX_NAME_BYTES)
}

/// A text to search for, in lower case.
pub(crate) struct Search {
    /// The text itself.
    pub(crate) plain: String,
    /// The text as it is within a JSON string.
    pub(crate) in_json: String,
}

/// Checks a text to search for.
pub(crate) fn search(wanted: &str) -> Result<Search, StoreError> {
    text("text to search for", wanted, MAX_SEARCH_BYTES)?;
    let plain = wanted.to_ascii_lowercase();
    let quoted = json("text to search for", &plain)?;
    let in_json = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(&plain).to_owned();
    Ok(Search { plain, in_json })
}

/// Checks the items of a fork and returns them as JSON.
pub(crate) fn forked_items(items: &[ForkedItem]) -> Result<Vec<(&ItemId, bool, String)>, StoreError> {
    let checked = items.iter().map(|forked| {
        let text = json("item", &forked.item.content)?;
        within("item of a conversation", text.len(), MAX_ITEM_BYTES)?;
        Ok((&forked.item.id, forked.is_output, text))
    });
    checked.collect()
}

/// Checks items and returns them as JSON.
pub(crate) fn items(items: &[NewItem]) -> Result<Vec<(&ItemId, String)>, StoreError> {
    let item = |item: &'_ NewItem| -> Result<String, StoreError> {
        let text = json("item", &item.content)?;
        within("item of a conversation", text.len(), MAX_ITEM_BYTES)?;
        Ok(text)
    };
    items.iter().map(|new| Ok((&new.id, item(new)?))).collect()
}

/// Checks a run and returns its request as JSON.
pub(crate) fn run(run: &NewRun) -> Result<String, StoreError> {
    let text = json("request", &run.request)?;
    within("request of a run", text.len(), MAX_RUN_REQUEST_BYTES)?;
    Ok(text)
}

/// The parts of [`Progress`] as JSON.
pub(crate) struct KeptProgress<'a> {
    pub(crate) items: Vec<(&'a ItemId, String)>,
    pub(crate) outcomes: Vec<String>,
    pub(crate) end: Option<String>,
}

/// Checks the progress of a run and returns it as JSON.
pub(crate) fn progress(progress: &Progress) -> Result<KeptProgress<'_>, StoreError> {
    let outcome = |outcome: &Value| {
        let text = json("outcome", outcome)?;
        within("outcome of a run", text.len(), MAX_RUN_REQUEST_BYTES)?;
        Ok(text)
    };
    for step in &progress.begun {
        within("subject of a step", step.subject.len(), MAX_NAME_BYTES)?;
    }
    Ok(KeptProgress {
        items: items(&progress.items)?,
        outcomes: progress.ended.iter().map(|step| outcome(&step.outcome)).collect::<Result<_, StoreError>>()?,
        end: progress.end.as_ref().map(|end| outcome(&end.outcome)).transpose()?,
    })
}

/// Checks a call of a run and returns call and answer as JSON.
pub(crate) fn run_call(call: &Value, answer: Option<&Value>) -> Result<(String, Option<String>), StoreError> {
    let call = json("call", call)?;
    within("call of a run", call.len(), MAX_RECORDING_BYTES)?;
    let answer = answer.map(|answer| json("answer", answer)).transpose()?;
    within("answer to a call", answer.as_ref().map_or(0, String::len), MAX_RECORDING_BYTES)?;
    Ok((call, answer))
}

fn json<T: serde::Serialize>(what: &'static str, value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value)
        .map_err(|error| StoreError::Damaged { what: what.to_owned(), reason: error.to_string() })
}
