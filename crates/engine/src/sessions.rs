//! The sessions of all users: their interpreters, their turns, and their log.

mod checkpoints;
mod interpreters;

pub(crate) use checkpoints::Checkpoints;
pub(crate) use interpreters::{Live, Turn};

use crate::history::History;
use crate::host_calls::HostCallError;
use crate::ids::new_session_id;
use crate::journal::{Copy, OpenTask, Shown, TaskPlace, failed, not_logged, shown_name};
use crate::request::Request;
use crate::verdict::invalid;
use crate::workspace::Workspaces;
use coracle_store::{Checkpoint, Kept, MAX_CONTEXT_BYTES, SessionRecord, Store, StoreError, TaskRecord};
use coracle_types::{ExecutionId, Failure, SessionId, UserId};
use interpreters::Interpreters;
use serde_json::{Map, Value};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};
use tokio::sync::{OwnedRwLockReadGuard, RwLock};

/// The handle with which a request gets a new session without a label.
const NEW: &str = "new";
/// Default maximum number of interpreters of one user.
const MAX_LIVE: usize = 2_000;
/// Maximum delay between the idle timeout of an interpreter and its end.
const LATE: Duration = Duration::from_mins(1);

/// All sessions of one engine.
#[derive(Debug)]
pub(crate) struct Sessions {
    store: Arc<dyn Store>,
    workspaces: Arc<Workspaces>,
    /// Time after which an unused interpreter ends.
    idle: Duration,
    interpreters: Interpreters,
    /// Maximum number of interpreters of one user.
    max_live: AtomicUsize,
    /// Held for reading while a copy of a log is written.
    copies: Arc<RwLock<()>>,
}

impl Sessions {
    /// Creates the sessions. In the background, ends idle interpreters and recovers tasks of processes that no longer
    /// exist.
    pub(crate) fn new(store: Arc<dyn Store>, workspaces: Arc<Workspaces>, idle: Duration) -> Arc<Self> {
        store.keep(Kept { live_for: idle + LATE, ..Kept::default() });
        let sessions = Arc::new(Self {
            store,
            workspaces,
            idle,
            interpreters: Interpreters::default(),
            max_live: MAX_LIVE.into(),
            copies: Arc::default(),
        });
        let watched = Arc::downgrade(&sessions);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep((idle / 4).clamp(Duration::from_millis(50), Duration::from_secs(15))).await;
                match watched.upgrade() {
                    Some(sessions) => sessions.interpreters.expire(idle),
                    None => return,
                }
            }
        });
        let recovering = Arc::clone(&sessions);
        tokio::spawn(async move { recovering.recover().await });
        sessions
    }

    /// Limits what the store keeps, and the number of interpreters of one user.
    pub(crate) fn limit(&self, kept: Kept, max_live: usize) {
        self.store.keep(Kept { live_for: self.idle + LATE, ..kept });
        self.max_live.store(max_live, Ordering::Relaxed);
    }

    /// Maximum number of interpreters of one user.
    pub(crate) fn max_live(&self) -> usize {
        self.max_live.load(Ordering::Relaxed)
    }

    pub(crate) fn interpreters(&self) -> &Interpreters {
        &self.interpreters
    }

    pub(crate) fn history(&self) -> History {
        History::new(Arc::clone(&self.store), self.workspaces.root().to_owned())
    }

    /// Ends a session and its interpreter, and frees its label. Returns whether it had not ended before.
    pub(crate) async fn end(&self, user: &UserId, session: &SessionRecord) -> Result<bool, StoreError> {
        let ended = self.history().end(user, session).await?;
        self.interpreters.forget(user, &session.id);
        Ok(ended)
    }

    /// The session that a request names: by its ID, which must belong to the user, or by a label. If there is no
    /// session with the label, it is created.
    pub(crate) async fn find(&self, user: &UserId, handle: &SessionId) -> Result<SessionRecord, Failure> {
        if handle.is_minted() {
            let found = self.store.session(user, handle).await.map_err(|error| not_logged(&error))?;
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
        let id = new_session_id().map_err(|error| failed(&error.to_string()))?;
        self.store.open_session(user, &id, label, SystemTime::now()).await.map_err(|error| not_logged(&error))
    }

    /// Records that a task begins, and remembers its session. `vars_bytes` is the size of the variables as JSON.
    pub(crate) async fn begin_task(
        &self,
        request: &Request,
        vars_bytes: u64,
        session: &SessionRecord,
        execution: &ExecutionId,
    ) -> Result<OpenTask, StoreError> {
        let task = OpenTask::begin(&self.store, request, vars_bytes, session, execution).await?;
        let tasks = task.place.number;
        self.interpreters.remember(&request.user, SessionRecord { tasks, ..session.clone() });
        Ok(task)
    }

    /// The recorded answers of the host to a task, if they are still kept.
    pub(crate) async fn recording(
        &self,
        user: &UserId,
        session: &SessionId,
        number: u64,
    ) -> Result<Option<Value>, StoreError> {
        self.store.recording(user, session, number).await
    }

    /// A guard that a writer of copies of logs holds, so that [`Sessions::settled`] waits for it.
    pub(crate) async fn copying(&self) -> OwnedRwLockReadGuard<()> {
        Arc::clone(&self.copies).read_owned().await
    }

    /// Waits until the copies of logs are written.
    pub(crate) async fn settled(&self) {
        drop(self.copies.write().await);
    }

    /// Writes the copy of the log after a task. Tasks and checkpoints are read from the store only if some are not in
    /// `shown`.
    pub(crate) async fn write_log_after(
        &self,
        place: &TaskPlace,
        task: &TaskRecord,
        workspace: &Path,
        shown: &mut Shown,
    ) {
        if let Ok(Some(session)) = self.store.session(&place.user, &place.session).await
            && session.tasks == task.number
            && !place.checkpointed.load(Ordering::SeqCst)
            && shown.add(task)
        {
            let copy = Copy::known(&place.user, session, std::mem::take(shown));
            return self.put_log_file(copy, workspace, shown).await;
        }
        self.write_log_file(&place.user, &place.session, workspace, shown).await;
    }

    /// Writes the copy of the log into the workspace. A failure is only logged; it does not fail the execution.
    pub(crate) async fn write_log_file(&self, user: &UserId, session: &SessionId, workspace: &Path, shown: &mut Shown) {
        let copy = match Copy::of(self.store.as_ref(), user, session, std::mem::take(shown)).await {
            Ok(Some(copy)) => copy,
            Ok(None) => return,
            Err(error) => {
                tracing::warn!(%session, %error, "cannot read the log of a session");
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
            Err(error) => tracing::warn!(%session, %error, "cannot write the log of a session into the workspace"),
        }
    }

    /// Marks the tasks of processes that no longer exist as interrupted, in the store and in the copies of the logs.
    pub(crate) async fn recover(&self) {
        let lost = match self.store.interrupt_lost().await {
            Ok(lost) => lost,
            Err(error) => {
                tracing::warn!(%error, "cannot find out which executions were interrupted");
                return;
            }
        };
        for task in lost {
            tracing::warn!(user = %task.user, session = %task.session, number = task.number,
                "an execution was interrupted: its process is gone");
            if let Ok(workspace) = self.workspaces.of(&task.user).files() {
                self.write_log_file(&task.user, &task.session, &workspace, &mut Shown::default()).await;
            }
        }
    }

    /// Records a checkpoint that code makes; returns once it is on disk.
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
        match self.store.checkpoint(user, session, &checkpoint).await {
            Ok(()) => Ok(Value::Null),
            Err(error @ (StoreError::TooLarge { .. } | StoreError::InvalidName { .. })) => {
                let hint = format!("at most {MAX_CONTEXT_BYTES} bytes of context: put more into a file below state/");
                Err(refused("invalid_request", format!("{error}; {hint}")))
            }
            Err(error) => Err(refused("unavailable", format!("the checkpoint is not kept: {error}"))),
        }
    }
}
