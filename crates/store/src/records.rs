use crate::TaskState;
use coracle_types::{Decision, ExecutionId, Language, ServerName, SessionId, Tool, UserId};
use serde_json::Value;
use std::sync::Arc;
use std::time::SystemTime;

/// The tools of a server as it last listed them.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedTools {
    /// A fingerprint of the server's settings. If it differs, the list may be outdated.
    pub fingerprint: String,
    /// The tools, in the order of the server.
    pub tools: Vec<Arc<Tool>>,
    /// When they were listed.
    pub listed_at: SystemTime,
}

/// The learned shape of a tool's results.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// The merged shape, which contains no values.
    pub value: Value,
    /// The number of writes, from 1.
    pub version: u64,
}

/// The maximum number of decisions per user and tool that are bound to arguments. Beyond it the oldest is forgotten.
pub const MAX_ARGUMENT_DECISIONS: usize = 100;

/// A permanent decision of a user about a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolDecision {
    /// The server of the tool.
    pub server: ServerName,
    /// The tool's name on the wire.
    pub tool: String,
    /// Digest of the definition that the user saw. The decision applies only to it.
    pub definition: String,
    /// Keyed digest of the arguments that the decision applies to. `None` if it applies to all calls of the tool.
    pub arguments: Option<String>,
    /// The decision.
    pub decision: Decision,
    /// When it was made.
    pub decided_at: SystemTime,
}

/// A stored execution.
#[derive(Clone, Debug, PartialEq)]
pub struct ExecutionRecord {
    /// The execution ID, unique per user.
    pub execution_id: ExecutionId,
    /// The user who requested it.
    pub user: UserId,
    /// The session, if any.
    pub session: Option<SessionId>,
    /// When it started.
    pub started_at: SystemTime,
    /// The language of the code.
    pub language: Language,
    /// The code.
    pub code: String,
    /// The state.
    pub state: TaskState,
    /// The outcome. Null while it runs.
    pub outcome: Value,
}
