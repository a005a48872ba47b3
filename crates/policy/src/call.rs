use crate::ToolNames;
use coracle_types::{ExecutionId, SessionId, Tool, UserId};
use serde_json::Value;

/// One call of a tool that somebody's code wants to make.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// Whose code.
    pub user: &'a UserId,
    /// Its session, if it has one.
    pub session: Option<&'a SessionId>,
    /// Its execution.
    pub execution: &'a ExecutionId,
    /// The tool.
    pub tool: &'a Tool,
    /// What it is called.
    pub names: &'a ToolNames,
    /// What it would be called with.
    pub arguments: &'a Value,
}
