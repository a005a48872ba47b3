use crate::TaskState;
use coracle_types::{Decision, ExecutionId, Language, ServerName, SessionId, Tool, UserId};
use serde_json::Value;
use std::sync::Arc;
use std::time::SystemTime;

/// The tools of a server as it last listed them.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedTools {
    /// Of how the server was reached: another one means that the list may be another.
    pub fingerprint: String,
    /// The tools, in the order in which they came.
    pub tools: Vec<Arc<Tool>>,
    /// When they were listed.
    pub listed_at: SystemTime,
}

/// What is known of the results of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// The merged shape: never a value that was seen.
    pub value: Value,
    /// Counts writes, from 1.
    pub version: u64,
}

/// What a user decided about a tool for good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolDecision {
    /// The server of the tool.
    pub server: ServerName,
    /// Its name on the wire.
    pub tool: String,
    /// Digest of the definition that the user saw: the decision is about no other.
    pub definition: String,
    /// What was decided.
    pub decision: Decision,
    /// When.
    pub decided_at: SystemTime,
}

/// One execution, as it is kept.
#[derive(Clone, Debug, PartialEq)]
pub struct ExecutionRecord {
    /// Unique for its user.
    pub execution_id: ExecutionId,
    /// Who asked for it.
    pub user: UserId,
    /// The session it ran in, if it had one.
    pub session: Option<SessionId>,
    /// When it started.
    pub started_at: SystemTime,
    /// What the code is written in.
    pub language: Language,
    /// The code.
    pub code: String,
    /// How far it has come.
    pub state: TaskState,
    /// What came of it; null while it runs.
    pub outcome: Value,
}
