use crate::files::{FileError, Listed, Quota, Usages, WorkspaceFiles};
use crate::journal::{checkpoint, entry, head, shown_name, stamp, state_files};
use crate::workspace::UserFolders;
use coracle_store::{Checkpoint, SessionRecord, Store, StoreError, TaskRecord, TaskState};
use coracle_types::{Language, SessionId, UserId};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

/// Maximum number of tasks in a summary of a session, and maximum length of each text.
const RESUMED_TASKS: usize = 10;
const RESUMED_BYTES: usize = 600;
/// Maximum number of variable names in a summary.
const MAX_VARIABLES: usize = 40;

/// Reads the log of sessions, for people, for programs, and for the next program of a session.
#[derive(Clone, Debug)]
pub struct History {
    store: Arc<dyn Store>,
    workspaces: PathBuf,
}

/// A task in the form of the log.
pub type ShownTask = Value;

impl History {
    /// The log in this store. Users have their folders in `workspaces`.
    pub fn new(store: Arc<dyn Store>, workspaces: PathBuf) -> Self {
        Self { store, workspaces }
    }

    /// Marks tasks of processes that no longer exist as interrupted.
    async fn recover(&self) -> Result<(), StoreError> {
        for task in self.store.interrupt_lost().await? {
            tracing::warn!(user = %task.user, session = %task.session, number = task.number,
                "an execution was interrupted: its process is gone");
        }
        Ok(())
    }

    /// Sessions of a user, the newest first; only those with numbers below `before`, if it is given.
    pub async fn sessions(
        &self,
        user: &UserId,
        limit: usize,
        before: Option<u64>,
    ) -> Result<Vec<SessionRecord>, StoreError> {
        self.store.sessions(user, limit, before).await
    }

    /// A session of a user: by its id, its name, or its number.
    pub async fn session(&self, user: &UserId, handle: &str) -> Result<Option<SessionRecord>, StoreError> {
        if let Ok(id) = SessionId::new(handle)
            && id.is_minted()
        {
            return self.store.session(user, &id).await;
        }
        if let Some(found) = self.store.session_labelled(user, handle).await? {
            return Ok(Some(found));
        }
        let number = handle.strip_prefix("session_").unwrap_or(handle).parse::<u64>();
        let Ok(number) = number else { return Ok(None) };
        let newest = self.store.sessions(user, 1, number.checked_add(1)).await?;
        Ok(newest.into_iter().find(|session| session.number == number))
    }

    /// The newest tasks of a session, the oldest of them first.
    pub async fn tasks(
        &self,
        user: &UserId,
        session: &SessionRecord,
        limit: usize,
    ) -> Result<Vec<TaskRecord>, StoreError> {
        self.recover().await?;
        let mut all: Vec<TaskRecord> = Vec::new();
        while all.len() < limit {
            let before = all.last().map(|task| task.number);
            let page = self.store.tasks(user, &session.id, limit - all.len(), before).await?;
            if page.is_empty() {
                break;
            }
            all.extend(page);
        }
        all.reverse();
        Ok(all)
    }

    /// The last checkpoint of the session.
    pub async fn checkpoint(&self, user: &UserId, session: &SessionRecord) -> Result<Option<Checkpoint>, StoreError> {
        self.store.last_checkpoint(user, &session.id).await
    }

    /// Everything that is kept of a session, in the format of the file in the workspace, and with the recorded answers.
    pub async fn export(&self, user: &UserId, session: &SessionRecord) -> Result<Value, StoreError> {
        let mut shown = Vec::new();
        for task in self.tasks(user, session, usize::MAX).await? {
            let mut entry = entry(&task);
            entry["execution_id"] = json!(task.begun.execution_id);
            entry["context_vars"] = json!(task.begun.vars);
            entry["ended_at"] = json!(task.ended_at.map(stamp));
            entry["outcome"] = json!(task.outcome);
            entry["recorded"] = json!(self.store.recording(user, &session.id, task.number).await?);
            shown.push(entry);
        }
        let point = self.checkpoint(user, session).await?;
        let mut whole = summary(session);
        whole["customer_uid"] = json!(user);
        whole["tasks"] = json!(shown);
        whole["state_files"] = json!(self.state_files(user));
        whole["checkpoint"] = json!(point.as_ref().map(checkpoint));
        Ok(whole)
    }

    /// Ends a session and frees its name. Returns whether it had not ended before.
    pub async fn end(&self, user: &UserId, session: &SessionRecord) -> Result<bool, StoreError> {
        self.store.end_session(user, &session.id, SystemTime::now()).await
    }

    /// Deletes a session with its log, and the copy of the log in the user's workspace. Returns whether it is gone: a
    /// session in which a task is running stays.
    pub async fn remove(&self, user: &UserId, session: &SessionRecord) -> Result<bool, StoreError> {
        self.recover().await?;
        let newest = self.store.sessions(user, 1, None).await?;
        if !self.store.delete_session(user, &session.id).await? {
            return Ok(false);
        }
        let mut copies = vec![format!("sessions/session_{:03}.json", session.number)];
        if newest.first().is_some_and(|newest| newest.number == session.number) {
            copies.push("sessions/current_session.json".to_owned());
        }
        let folder = UserFolders::of(&self.workspaces, user);
        let deleted = tokio::task::spawn_blocking(move || {
            let files = folder.files().map_err(|error| FileError::failed(&".", "opened", &error))?;
            let files = WorkspaceFiles::open(files, Quota::NONE, Usages::default())?;
            for copy in &copies {
                match files.delete(copy, Listed::Here) {
                    Ok(()) | Err(FileError::Missing { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        });
        match deleted.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "a copy of the log stays in the workspace"),
            Err(error) => tracing::warn!(%error, "a copy of the log stays in the workspace"),
        }
        Ok(true)
    }

    fn state_files(&self, user: &UserId) -> Vec<String> {
        UserFolders::of(&self.workspaces, user).files().map(|files| state_files(&files)).unwrap_or_default()
    }

    /// A summary of the session for the next program.
    pub async fn resume(&self, user: &UserId, session: &SessionRecord) -> Result<String, StoreError> {
        let tasks = self.tasks(user, session, 100).await?;
        let mut text = format!("Session {}", shown_name(session));
        if session.label.is_some() {
            let _ = write!(text, " ({})", session.id);
        }
        let ended = session.ended_at.map(|at| format!(", ended {}", stamp(at))).unwrap_or_default();
        let (started, used) = (stamp(session.started_at), stamp(session.last_used));
        let _ = writeln!(text, ": {} tasks, started {started}, last used {used}{ended}.", session.tasks);
        match self.checkpoint(user, session).await? {
            Some(point) => {
                let at = stamp(point.made_at);
                let _ = writeln!(text, "\nCheckpoint: {} (by task_{:03}, {at})", point.step, point.last_task);
                if !point.context.is_null() {
                    let _ = writeln!(text, "  context: {}", point.context);
                }
            }
            None => text.push_str("\nCheckpoint: none; the code has not called checkpoint(step, context).\n"),
        }
        let files = self.state_files(user);
        let named = if files.is_empty() { "none".to_owned() } else { files.join(", ") };
        let _ = writeln!(text, "\nState files: {named}");
        let variables = variables(&tasks);
        if !variables.is_empty() {
            let _ = writeln!(
                text,
                "\nVariables that tasks have set: {}. Unless the server that ran them still holds the session, they are \
                 gone, and so are imports and the working directory; files in /workspace are there.",
                variables.join(", ")
            );
        }
        for task in tasks.iter().filter(|task| task.state == TaskState::Interrupted) {
            let _ = writeln!(
                text,
                "\nInterrupted: task_{:03}, begun {}. Nobody knows how far it came: look before you do it again.",
                task.number,
                stamp(task.begun.started_at)
            );
        }
        for task in tasks.iter().filter(|task| task.state == TaskState::Running) {
            let _ = writeln!(text, "\nRunning: task_{:03}, begun {}.", task.number, stamp(task.begun.started_at));
        }
        let last = tasks.len().saturating_sub(RESUMED_TASKS);
        if tasks.len() > last {
            text.push_str("\nLast tasks:\n");
        }
        for task in tasks.iter().skip(last) {
            resumed(&mut text, task);
        }
        Ok(text)
    }
}

/// A session without its tasks.
pub(crate) fn summary(session: &SessionRecord) -> Value {
    json!({
        "session_id": session.id,
        "label": session.label,
        "number": session.number,
        "started_at": stamp(session.started_at),
        "last_used": stamp(session.last_used),
        "ended_at": session.ended_at.map(stamp),
        "task_count": session.tasks,
    })
}

fn resumed(text: &mut String, task: &TaskRecord) {
    let short = |text: &str| {
        let cut = head(text, RESUMED_BYTES);
        let more = if cut.len() < text.len() { "…" } else { "" };
        format!("{}{more}", cut.trim_end()).replace('\n', "\n    ")
    };
    let field = |name: &str| task.outcome.as_ref().and_then(|outcome| outcome.get(name));
    let about = task.begun.description.as_deref().map(|text| format!(": {}", short(text))).unwrap_or_default();
    let came = match (task.state, field("error_code").and_then(Value::as_str)) {
        (TaskState::Done, Some(code)) => format!("failed: {code}"),
        (state, _) => state.as_str().to_owned(),
    };
    let _ = writeln!(text, "- task_{:03} ({}, {came}){about}", task.number, task.begun.language);
    let _ = writeln!(text, "    {}", short(&task.begun.code));
    if let Some(result) = field("result").filter(|result| !result.is_null()) {
        let _ = writeln!(text, "  result: {}", short(&result.to_string()));
    }
    for (name, field) in [("output", field("stdout")), ("error", field("error"))] {
        if let Some(said) = field.and_then(Value::as_str).filter(|said| !said.is_empty()) {
            let _ = writeln!(text, "  {name}: {}", short(said));
        }
    }
}

/// Names that Python tasks assign at the top level. This is a guess, only meant for the reader of a summary.
fn variables(tasks: &[TaskRecord]) -> Vec<String> {
    let python = tasks.iter().filter(|task| task.begun.language == Language::Python);
    let name = |line: &str| {
        let (name, value) = line.split_once('=')?;
        let name = name.trim_end();
        let is_name = name.chars().all(|c| c.is_alphanumeric() || c == '_') && !name.starts_with(char::is_numeric);
        (is_name && !name.is_empty() && !value.starts_with('=') && name != "result").then(|| name.to_owned())
    };
    let names: BTreeSet<String> = python.flat_map(|task| task.begun.code.lines()).filter_map(name).collect();
    names.into_iter().take(MAX_VARIABLES).collect()
}
