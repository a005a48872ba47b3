use crate::StoreError;
use async_trait::async_trait;
use coracle_types::{ExecutionId, Language, SessionId, UserId};
use serde::Serialize;
use serde_json::{Map, Value};
use std::fmt;
use std::time::SystemTime;

/// A session: a series of executions of one user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRecord {
    /// A generated ID that cannot be guessed.
    pub id: SessionId,
    /// The number of the session, counted per user from 1.
    pub number: u64,
    /// A name that a person gave it.
    pub label: Option<String>,
    /// When the session was created.
    pub started_at: SystemTime,
    /// When a task last began in it.
    pub last_used: SystemTime,
    /// When the session was ended, if it was.
    pub ended_at: Option<SystemTime>,
    /// The number of tasks that have begun in it, including those that are no longer kept.
    pub tasks: u64,
}

/// The state of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskState {
    /// The task has begun, and its process is alive.
    Running,
    /// The task ended, successfully or not.
    Done,
    /// The process of the task was gone before the task ended.
    Interrupted,
}

impl TaskState {
    /// The name of the state in the log.
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
    /// The execution ID of the task.
    pub execution_id: ExecutionId,
    /// What the task is for, in the words of the requester.
    pub description: Option<String>,
    /// The language of the code.
    pub language: Language,
    /// The code.
    pub code: String,
    /// The variables. `None` if they were too large to be kept.
    pub vars: Option<Map<String, Value>>,
    /// When it begins.
    pub started_at: SystemTime,
}

/// The end of a task.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskEnd {
    /// When the task ended.
    pub ended_at: SystemTime,
    /// Done or interrupted.
    pub state: TaskState,
    /// The outcome.
    pub outcome: Value,
    /// The recorded answers to its calls.
    pub recording: Option<Value>,
}

/// A stored task.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskRecord {
    /// The number of the task, counted per session from 1.
    pub number: u64,
    /// The task as it began.
    pub begun: NewTask,
    /// The state.
    pub state: TaskState,
    /// When the task ended, if that is known.
    pub ended_at: Option<SystemTime>,
    /// The outcome. `None` while the task runs, or if it is not known.
    pub outcome: Option<Value>,
}

/// A checkpoint that code has reported.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    /// The step, in the words of the code.
    pub step: String,
    /// Information for the next program.
    pub context: Value,
    /// The task that reported it.
    pub last_task: u64,
    /// When it was reported.
    pub made_at: SystemTime,
}

/// A task whose process was gone before the task ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostTask {
    /// The user.
    pub user: UserId,
    /// The session.
    pub session: SessionId,
    /// The number of the task.
    pub number: u64,
}

/// The log of sessions.
///
/// Contract, besides that of [`crate::Store`]:
/// - a task that has begun stays in the log in any case, and [`Journal::interrupt_lost`] distinguishes tasks whose
///   process is gone from those that run in any process;
/// - `finish_task`, `checkpoint` and `end_session` return only when their data is on the disk;
/// - sessions of other users do not exist for a user;
/// - only the newest sessions of a user, and the newest tasks, recordings and checkpoints of a session are kept
///   ([`crate::Kept::sessions`], [`crate::Kept::tasks`], [`crate::KEPT_RECORDINGS`], [`crate::KEPT_CHECKPOINTS`]), and
///   temporarily a few more;
/// - a session that has not ended is kept in any case while a task runs in it, and for [`crate::Kept::live_for`] after
///   its last use.
#[async_trait]
pub trait Journal: Send + Sync + fmt::Debug {
    /// Returns the session with this label that has not ended, or creates one with this ID. Without a label, always
    /// creates one.
    async fn open_session(
        &self,
        user: &UserId,
        new_id: &SessionId,
        label: Option<&str>,
        at: SystemTime,
    ) -> Result<SessionRecord, StoreError>;

    /// A session by its id.
    async fn session(&self, user: &UserId, id: &SessionId) -> Result<Option<SessionRecord>, StoreError>;

    /// The session with this label that has not ended, or else the last one that had it.
    async fn session_labelled(&self, user: &UserId, label: &str) -> Result<Option<SessionRecord>, StoreError>;

    /// Sessions of a user, newest first. At most `limit`, and never more than [`crate::MAX_PAGE`]. If `before` is
    /// given, only those with lower numbers.
    async fn sessions(
        &self,
        user: &UserId,
        limit: usize,
        before: Option<u64>,
    ) -> Result<Vec<SessionRecord>, StoreError>;

    /// Ends a session: its label becomes free, and no more tasks can run in it. Returns whether it existed and had not
    /// ended.
    async fn end_session(&self, user: &UserId, id: &SessionId, at: SystemTime) -> Result<bool, StoreError>;

    /// Deletes a session with its tasks and checkpoints, unless a task is running in it. Returns whether it was
    /// deleted.
    async fn delete_session(&self, user: &UserId, id: &SessionId) -> Result<bool, StoreError>;

    /// Begins a task and returns its number. Fails with [`StoreError::NoSession`] if there is no such session or it has
    /// ended.
    async fn begin_task(&self, user: &UserId, session: &SessionId, task: &NewTask) -> Result<u64, StoreError>;

    /// Ends a running task. A task that is not running is left unchanged.
    async fn finish_task(
        &self,
        user: &UserId,
        session: &SessionId,
        number: u64,
        end: &TaskEnd,
    ) -> Result<(), StoreError>;

    /// Tasks of a session, newest first. At most `limit`, and never more than [`crate::MAX_PAGE`]. If `before` is
    /// given, only those with lower numbers.
    async fn tasks(
        &self,
        user: &UserId,
        session: &SessionId,
        limit: usize,
        before: Option<u64>,
    ) -> Result<Vec<TaskRecord>, StoreError>;

    /// The recorded answers to the calls of a task.
    async fn recording(&self, user: &UserId, session: &SessionId, number: u64) -> Result<Option<Value>, StoreError>;

    /// Stores a checkpoint. Fails with [`StoreError::NoSession`] if there is no such session or it has ended.
    async fn checkpoint(&self, user: &UserId, session: &SessionId, checkpoint: &Checkpoint) -> Result<(), StoreError>;

    /// The newest checkpoint of a session.
    async fn last_checkpoint(&self, user: &UserId, session: &SessionId) -> Result<Option<Checkpoint>, StoreError>;

    /// Marks tasks and executions as interrupted if their process is gone, and returns these tasks.
    async fn interrupt_lost(&self) -> Result<Vec<LostTask>, StoreError>;
}
