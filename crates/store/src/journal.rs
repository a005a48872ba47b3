use crate::StoreError;
use async_trait::async_trait;
use coracle_types::{ExecutionId, Language, SessionId, UserId};
use serde::Serialize;
use serde_json::{Map, Value};
use std::fmt;
use std::time::SystemTime;

/// A session: executions of one user that belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRecord {
    /// Minted, and unguessable.
    pub id: SessionId,
    /// Counts the sessions of its user, from 1.
    pub number: u64,
    /// What a person calls it.
    pub label: Option<String>,
    /// When it was made.
    pub started_at: SystemTime,
    /// When something last began to run in it.
    pub last_used: SystemTime,
    /// When it was ended, if it was.
    pub ended_at: Option<SystemTime>,
    /// How many tasks have begun in it, whether they are still kept or not.
    pub tasks: u64,
}

/// How far a task has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskState {
    /// It has begun, and whoever runs it lives.
    Running,
    /// It came to an end, well or not.
    Done,
    /// Whoever ran it was gone before it came to an end.
    Interrupted,
}

impl TaskState {
    /// Its name in the log.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::Interrupted => "interrupted",
        }
    }
}

/// A task that begins.
#[derive(Clone, Debug, PartialEq)]
pub struct NewTask {
    /// The execution that it is.
    pub execution_id: ExecutionId,
    /// What it is for, in the words of whoever asked for it.
    pub description: Option<String>,
    /// What the code is written in.
    pub language: Language,
    /// The code.
    pub code: String,
    /// The variables that came with it; none if they were too large to be kept.
    pub vars: Option<Map<String, Value>>,
    /// When it begins.
    pub started_at: SystemTime,
}

/// How a task ended.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskEnd {
    /// When.
    pub ended_at: SystemTime,
    /// Done or interrupted.
    pub state: TaskState,
    /// What came of it.
    pub outcome: Value,
    /// What the host answered to its calls.
    pub recording: Option<Value>,
}

/// A task, as it is kept.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskRecord {
    /// Counts the tasks of the session, from 1.
    pub number: u64,
    /// What began.
    pub begun: NewTask,
    /// How far it has come.
    pub state: TaskState,
    /// When it ended, if somebody was there to see it.
    pub ended_at: Option<SystemTime>,
    /// What came of it; nothing while it runs, and if nobody was there to see it.
    pub outcome: Option<Value>,
}

/// Where code said that it had come to.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    /// In the words of the code.
    pub step: String,
    /// What the next program should know.
    pub context: Value,
    /// The task that said so.
    pub last_task: u64,
    /// When.
    pub made_at: SystemTime,
}

/// A task whose process was gone before it came to an end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostTask {
    /// Whose.
    pub user: UserId,
    /// In which session.
    pub session: SessionId,
    /// Which one.
    pub number: u64,
}

/// The log of sessions.
///
/// Contract, besides that of [`crate::Store`]:
/// - a task that has begun is in the log whatever happens then; [`Journal::interrupt_lost`] tells those whose process is
///   gone from those that run, in any process;
/// - `finish_task`, `checkpoint` and `end_session` have returned when what they wrote is on the disk, and not before;
/// - a session of another user is not there;
/// - of a user's sessions, a session's tasks, what their calls were answered, and checkpoints the newest stay:
///   [`crate::Kept::sessions`], [`crate::Kept::tasks`], [`crate::KEPT_RECORDINGS`], [`crate::KEPT_CHECKPOINTS`], and for a
///   while a few more;
/// - a session that has not ended stays, however many there are, while a task runs in it and for [`crate::Kept::live_for`]
///   after it was used.
#[async_trait]
pub trait Journal: Send + Sync + fmt::Debug {
    /// The session with this label that has not ended; if there is none, a new one with this id. Without a label always
    /// a new one.
    async fn open_session(
        &self,
        user: &UserId,
        new_id: &SessionId,
        label: Option<&str>,
        at: SystemTime,
    ) -> Result<SessionRecord, StoreError>;

    /// A session by its id.
    async fn session(&self, user: &UserId, id: &SessionId) -> Result<Option<SessionRecord>, StoreError>;

    /// The session with this label that has not ended, else the one that had it last.
    async fn session_labelled(&self, user: &UserId, label: &str) -> Result<Option<SessionRecord>, StoreError>;

    /// Sessions of a user, the newest first, at most `limit` and never more than [`crate::MAX_PAGE`]; only those with
    /// numbers below `before`, if it is given.
    async fn sessions(
        &self,
        user: &UserId,
        limit: usize,
        before: Option<u64>,
    ) -> Result<Vec<SessionRecord>, StoreError>;

    /// Ends a session: its label is free again, and nothing more runs in it. Returns whether it was there and had not
    /// ended.
    async fn end_session(&self, user: &UserId, id: &SessionId, at: SystemTime) -> Result<bool, StoreError>;

    /// Deletes a session with its tasks and checkpoints, unless a task is running in it. Returns whether it is gone.
    async fn delete_session(&self, user: &UserId, id: &SessionId) -> Result<bool, StoreError>;

    /// A task begins. Returns its number. Refused with [`StoreError::NoSession`] if there is none that has not ended.
    async fn begin_task(&self, user: &UserId, session: &SessionId, task: &NewTask) -> Result<u64, StoreError>;

    /// A task that was running has ended; one that was not stays as it is.
    async fn finish_task(
        &self,
        user: &UserId,
        session: &SessionId,
        number: u64,
        end: &TaskEnd,
    ) -> Result<(), StoreError>;

    /// Tasks of a session, the newest first, at most `limit` and never more than [`crate::MAX_PAGE`]; only those with
    /// numbers below `before`, if it is given.
    async fn tasks(
        &self,
        user: &UserId,
        session: &SessionId,
        limit: usize,
        before: Option<u64>,
    ) -> Result<Vec<TaskRecord>, StoreError>;

    /// What the host answered to the calls of a task.
    async fn recording(&self, user: &UserId, session: &SessionId, number: u64) -> Result<Option<Value>, StoreError>;

    /// Code says where it has come to. Refused with [`StoreError::NoSession`] if there is none that has not ended.
    async fn checkpoint(&self, user: &UserId, session: &SessionId, checkpoint: &Checkpoint) -> Result<(), StoreError>;

    /// The newest checkpoint of a session.
    async fn last_checkpoint(&self, user: &UserId, session: &SessionId) -> Result<Option<Checkpoint>, StoreError>;

    /// Marks as interrupted what is said to run in processes that are gone, tasks and executions, and tells which tasks
    /// that were.
    async fn interrupt_lost(&self) -> Result<Vec<LostTask>, StoreError>;
}
