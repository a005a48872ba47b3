use crate::{Decision, ExecutionId, Language, PlanId, ServerName};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// How an execution treats calls of tools that change something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// They are made.
    #[default]
    Run,
    /// They are collected, and made when a person has approved the list.
    Plan,
}

/// The state of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanState {
    /// The program changes nothing, so there is nothing to approve.
    Empty,
    /// The program failed, so the list is not complete. It cannot be run.
    Incomplete,
    /// Waits for approval.
    Open,
    /// Was not approved in time.
    Expired,
    /// Is being run.
    Running,
    /// The approved effects took place.
    Done,
    /// An effect failed. Those after it did not take place.
    Failed,
    /// Something had changed since the plan was made. No effect took place.
    Changed,
    /// The process ended while the plan was being run.
    Interrupted,
}

impl PlanState {
    /// All states.
    pub const ALL: [Self; 9] = [
        Self::Empty,
        Self::Incomplete,
        Self::Open,
        Self::Expired,
        Self::Running,
        Self::Done,
        Self::Failed,
        Self::Changed,
        Self::Interrupted,
    ];

    /// The state as a string.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Incomplete => "incomplete",
            Self::Open => "open",
            Self::Expired => "expired",
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Changed => "changed",
            Self::Interrupted => "interrupted",
        }
    }
}

/// What became of an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectState {
    /// It has not taken place.
    Planned,
    /// It began. If the process ended meanwhile, it may have taken place.
    Begun,
    /// It took place.
    Done,
    /// It was attempted and failed.
    Failed,
    /// It was not approved.
    LeftOut,
}

impl EffectState {
    /// The state as a string.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Planned => "planned",
            Self::Begun => "begun",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::LeftOut => "left_out",
        }
    }
}

/// What a program would change, as one list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The plan ID.
    pub id: PlanId,
    /// The state of the plan.
    pub state: PlanState,
    /// The execution that made the plan.
    pub execution_id: ExecutionId,
    /// The language of the code.
    pub language: Language,
    /// When the plan was made, in RFC 3339.
    pub created_at: String,
    /// When the plan expires, in RFC 3339.
    pub expires_at: String,
    /// The effects in the order in which they take place.
    pub effects: Vec<PlannedEffect>,
    /// The reads that the plan is based on. They are repeated before the plan is run.
    pub reads: Vec<PlannedRead>,
    /// What had changed when the plan was to be run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<String>,
}

/// One effect of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedEffect {
    /// The number of the effect. Numbers increase, with gaps.
    pub number: u64,
    /// What would happen.
    #[serde(flatten)]
    pub action: PlannedAction,
    /// The effects whose results it uses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uses: Vec<u64>,
    /// Why the effect cannot be run, if it cannot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked: Option<String>,
    /// What became of it.
    pub state: EffectState,
    /// The result of the call, shortened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The error code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_code: Option<String>,
}

/// What an effect does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum PlannedAction {
    /// Calls a tool.
    Call {
        /// The server.
        server: ServerName,
        /// The tool.
        tool: String,
        /// The arguments. `{"$result": N, "path": P}` stands for a part of the result of effect N.
        arguments: Map<String, Value>,
        /// What the policy says about the call: `allow` or `ask`.
        decision: Decision,
        /// Whether the tool only reads, and waits because it needs the result of an effect.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        reads: bool,
        /// What the tool says the call would do.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        preview: Option<Value>,
    },
    /// Changes a file of the workspace.
    File {
        /// The path in the workspace.
        path: String,
        /// What happens to the file.
        change: FileChange,
        /// The size afterwards, in bytes.
        bytes: u64,
    },
}

/// What happens to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileChange {
    /// It is created.
    Created,
    /// It has other content.
    Changed,
    /// It is deleted.
    Deleted,
}

impl FileChange {
    /// The change as a string.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Changed => "changed",
            Self::Deleted => "deleted",
        }
    }
}

/// A call that a plan is based on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedRead {
    /// The server.
    pub server: ServerName,
    /// The tool.
    pub tool: String,
    /// The arguments.
    pub arguments: Map<String, Value>,
}
