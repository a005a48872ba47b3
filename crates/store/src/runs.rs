use crate::StoreError;
use async_trait::async_trait;
use coracle_types::{ConversationId, ItemId, RunId, UserId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::fmt;
use std::time::SystemTime;

/// A conversation with the agent.
#[derive(Clone, Debug, PartialEq)]
pub struct ConversationRecord {
    /// The conversation ID.
    pub id: ConversationId,
    /// A title for people.
    pub title: Option<String>,
    /// Data of the client, which means nothing to Coracle.
    pub metadata: Map<String, Value>,
    /// When it was created.
    pub created_at: SystemTime,
    /// When something was last added to it.
    pub changed_at: SystemTime,
}

/// The state of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// The agent is working, or waits for a person.
    Running,
    /// The agent is done, or its client has to go on.
    Completed,
    /// A limit ended the run.
    Incomplete,
    /// An error ended the run.
    Failed,
    /// A person or a program stopped the run.
    Cancelled,
}

impl RunState {
    /// All states.
    pub const ALL: [Self; 5] = [Self::Running, Self::Completed, Self::Incomplete, Self::Failed, Self::Cancelled];

    /// The name of the state in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Incomplete => "incomplete",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// A run that begins.
#[derive(Clone, Debug, PartialEq)]
pub struct NewRun {
    /// The run ID.
    pub id: RunId,
    /// The conversation that the run belongs to.
    pub conversation: Option<ConversationId>,
    /// The run that this one continues.
    pub previous: Option<RunId>,
    /// Whether the run goes on without its client.
    pub is_background: bool,
    /// The request, with everything that is needed to take the run up again.
    pub request: Value,
    /// When the run begins.
    pub created_at: SystemTime,
    /// The input, in order.
    pub input: Vec<NewItem>,
    /// The first step, if it begins with the run.
    pub begun: Option<NewStep>,
    /// The run whose parked calls this one takes over, with what is recorded of them.
    pub continues: Option<RunId>,
}

/// A stored run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRecord {
    /// The run ID.
    pub id: RunId,
    /// The conversation that the run belongs to.
    pub conversation: Option<ConversationId>,
    /// The run that this one continues.
    pub previous: Option<RunId>,
    /// Whether the run goes on without its client.
    pub is_background: bool,
    /// The request.
    pub request: Value,
    /// When the run began.
    pub created_at: SystemTime,
    /// The state.
    pub state: RunState,
    /// When the run ended, if it has.
    pub ended_at: Option<SystemTime>,
    /// The outcome, if the run has ended.
    pub outcome: Option<Value>,
    /// How often the run was begun: once, and once more after each crash.
    pub attempts: u32,
}

/// An item that is added to a conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct NewItem {
    /// The item ID, unique per user.
    pub id: ItemId,
    /// The content.
    pub content: Value,
}

/// A stored item.
#[derive(Clone, Debug, PartialEq)]
pub struct ItemRecord {
    /// The item ID.
    pub id: ItemId,
    /// The run that added the item, if one did.
    pub run: Option<RunId>,
    /// Whether the item is part of the run's output, and not of its input.
    pub is_output: bool,
    /// The content.
    pub content: Value,
}

/// The kind of a step of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// The model is asked.
    Model,
    /// Code runs, or another tool of the agent.
    Execution,
    /// The client has to make a call.
    ClientCall,
    /// A person has to answer.
    Question,
    /// The conversation is shortened.
    Compaction,
    /// The run has ended, and a call of it waits for a person until another run takes it over.
    Parked,
}

impl StepKind {
    /// All kinds.
    pub const ALL: [Self; 6] =
        [Self::Model, Self::Execution, Self::ClientCall, Self::Question, Self::Compaction, Self::Parked];

    /// The name of the kind in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Execution => "execution",
            Self::ClientCall => "client_call",
            Self::Question => "question",
            Self::Compaction => "compaction",
            Self::Parked => "parked",
        }
    }
}

/// A step of a run that begins.
#[derive(Clone, Debug, PartialEq)]
pub struct NewStep {
    /// The kind.
    pub kind: StepKind,
    /// What the step is about: the ID of a call, for example. Distinguishes steps of one kind that run at once.
    pub subject: String,
    /// When the step begins.
    pub begun_at: SystemTime,
}

/// The end of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct StepEnd {
    /// The kind of the step.
    pub kind: StepKind,
    /// The subject of the step.
    pub subject: String,
    /// When the step ended.
    pub ended_at: SystemTime,
    /// The outcome.
    pub outcome: Value,
}

/// A stored step.
#[derive(Clone, Debug, PartialEq)]
pub struct StepRecord {
    /// The number of the step, counted per run from 1.
    pub number: u64,
    /// The step as it began.
    pub begun: NewStep,
    /// When the step ended, if it has.
    pub ended_at: Option<SystemTime>,
    /// The outcome, if the step has ended.
    pub outcome: Option<Value>,
}

/// What a run adds to the store in one write.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// Steps that have ended. Each ends the newest open step of its kind and subject.
    pub ended: Vec<StepEnd>,
    /// New items of the output, in order.
    pub items: Vec<NewItem>,
    /// Steps that begin.
    pub begun: Vec<NewStep>,
    /// The end of the run.
    pub end: Option<RunEnd>,
}

/// The end of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunEnd {
    /// The final state.
    pub state: RunState,
    /// When the run ended.
    pub ended_at: SystemTime,
    /// The outcome.
    pub outcome: Value,
}

/// A call that code in a run makes, as it is recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct RunCall {
    /// The number of the call in its execution, from 1.
    pub number: u64,
    /// The call: digest of its arguments and so on.
    pub call: Value,
    /// The answer, if there is one.
    pub answer: Option<Value>,
}

/// The items to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemsOf<'a> {
    /// Input and output of a run.
    Run(&'a RunId),
    /// All items of a conversation.
    Conversation(&'a ConversationId),
}

/// A part of a list of items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ItemPage<'a> {
    /// Start after this item.
    pub after: Option<&'a ItemId>,
    /// Maximum number of items. `None` is the limit of the store.
    pub limit: Option<usize>,
    /// Start with the newest item.
    pub newest_first: bool,
}

impl ItemPage<'_> {
    /// All items, oldest first.
    pub const ALL: Self = Self { after: None, limit: None, newest_first: false };
}

/// Conversations and runs of the agent.
///
/// Contract, besides that of [`crate::Store`]:
/// - conversations, runs and items of other users do not exist for a user;
/// - `begin_run`, `advance`, `begin_call` and the deletions return only when their data is on the disk;
/// - at most one run of a conversation is running, and items are in the order in which they were added;
/// - a run that has ended does not change any more;
/// - [`Runs::take_lost_runs`] gives each run whose process is gone to exactly one caller.
#[async_trait]
pub trait Runs: Send + Sync + fmt::Debug {
    /// Creates a conversation with these items.
    async fn create_conversation(
        &self,
        user: &UserId,
        conversation: &ConversationRecord,
        items: &[NewItem],
    ) -> Result<(), StoreError>;

    /// A conversation.
    async fn conversation(&self, user: &UserId, id: &ConversationId) -> Result<Option<ConversationRecord>, StoreError>;

    /// Conversations of a user, last changed first. At most `limit`, and never more than [`crate::MAX_PAGE`]. If
    /// `before` is given, only those after it in this order, and none if it is unknown.
    async fn conversations(
        &self,
        user: &UserId,
        limit: usize,
        before: Option<&ConversationId>,
    ) -> Result<Vec<ConversationRecord>, StoreError>;

    /// Replaces the metadata of a conversation. Returns whether it exists.
    async fn update_conversation(
        &self,
        user: &UserId,
        id: &ConversationId,
        metadata: &Map<String, Value>,
    ) -> Result<bool, StoreError>;

    /// Deletes a conversation with its runs and items, unless a run is running in it. Returns whether it was deleted.
    async fn delete_conversation(&self, user: &UserId, id: &ConversationId) -> Result<bool, StoreError>;

    /// Adds items to a conversation. Fails with [`StoreError::NoConversation`] if there is none, and with
    /// [`StoreError::Busy`] if a run is running in it.
    async fn add_items(
        &self,
        user: &UserId,
        id: &ConversationId,
        items: &[NewItem],
        at: SystemTime,
    ) -> Result<(), StoreError>;

    /// An item.
    async fn item(&self, user: &UserId, id: &ItemId) -> Result<Option<ItemRecord>, StoreError>;

    /// Deletes an item of a conversation, unless a run is running in it. Returns whether it was deleted.
    async fn delete_item(&self, user: &UserId, of: &ConversationId, id: &ItemId) -> Result<bool, StoreError>;

    /// Items. Never more than [`crate::MAX_ITEMS`]. None if `page.after` is unknown.
    async fn items(&self, user: &UserId, of: ItemsOf<'_>, page: ItemPage<'_>) -> Result<Vec<ItemRecord>, StoreError>;

    /// Begins a run. Fails with [`StoreError::NoConversation`] if there is no such conversation, and with
    /// [`StoreError::Busy`] if a run is running in it.
    ///
    /// A run that continues another one ends its steps of the kind [`StepKind::Parked`] and takes its recorded calls
    /// over. Fails with [`StoreError::Conflict`] if there is no such step: only one run can continue another.
    async fn begin_run(&self, user: &UserId, run: &NewRun) -> Result<(), StoreError>;

    /// Adds progress to a running run. Fails with [`StoreError::NoRun`] if it is not running.
    async fn advance(&self, user: &UserId, run: &RunId, progress: &Progress) -> Result<(), StoreError>;

    /// A run.
    async fn run(&self, user: &UserId, id: &RunId) -> Result<Option<RunRecord>, StoreError>;

    /// Runs of a user, newest first. At most `limit`, and never more than [`crate::MAX_PAGE`]. If `before` is given,
    /// only those after it in this order, and none if it is unknown.
    async fn runs(&self, user: &UserId, limit: usize, before: Option<&RunId>) -> Result<Vec<RunRecord>, StoreError>;

    /// Deletes a run with its items, unless it is running. Returns whether it was deleted.
    async fn delete_run(&self, user: &UserId, id: &RunId) -> Result<bool, StoreError>;

    /// The steps of a run, in order.
    async fn steps(&self, user: &UserId, run: &RunId) -> Result<Vec<StepRecord>, StoreError>;

    /// Records that code begins a call. `subject` is the step of the run. Fails with [`StoreError::NoRun`] if the run is
    /// not running, unless it has parked this step.
    async fn begin_call(
        &self,
        user: &UserId,
        run: &RunId,
        subject: &str,
        number: u64,
        call: &Value,
    ) -> Result<(), StoreError>;

    /// Records the answer to a call, which need not have begun.
    async fn end_call(
        &self,
        user: &UserId,
        run: &RunId,
        subject: &str,
        number: u64,
        call: &Value,
        answer: &Value,
    ) -> Result<(), StoreError>;

    /// The recorded calls of a step, in the order of their numbers. Deleted when the run ends, unless it has parked the
    /// step.
    async fn calls(&self, user: &UserId, run: &RunId, subject: &str) -> Result<Vec<RunCall>, StoreError>;

    /// Takes over running runs whose process is gone, and counts one more attempt for each.
    async fn take_lost_runs(&self) -> Result<Vec<(UserId, RunId)>, StoreError>;

    /// Deletes conversations that have not changed since this time, and runs without a conversation that ended before
    /// it. A running run stays, with the runs that it continues, and so do those that a later run continues. Returns
    /// the number of both.
    async fn delete_old_runs(&self, before: SystemTime) -> Result<u64, StoreError>;
}

/// The outcome of a parked step that another run has taken over.
pub(crate) fn continued_by(run: &RunId) -> Value {
    json!({ "continued_by": run.as_str() })
}

pub(crate) fn not_parked(run: &RunId) -> StoreError {
    StoreError::Conflict { what: format!("the parked run {run}"), expected: 0 }
}
