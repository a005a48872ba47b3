use crate::facts::Circumstances;
use crate::{Cargo, Doubt, ToolNames};
use coracle_types::{ExecutionId, SessionId, Tool, UserId};
use serde_json::Value;

/// One tool call that code wants to make.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The user who runs the code.
    pub user: &'a UserId,
    /// The session of the code, if any.
    pub session: Option<&'a SessionId>,
    /// The execution of the code.
    pub execution: &'a ExecutionId,
    /// The tool.
    pub tool: &'a Tool,
    /// The names of the tool.
    pub names: &'a ToolNames,
    /// The arguments of the call.
    pub arguments: &'a Value,
    /// What data the call carries.
    pub cargo: &'a Cargo,
    /// What else is known about the call.
    pub circumstances: Circumstances<'a>,
    /// Why a person has to be asked whatever the policy says, if anything.
    pub doubt: Option<Doubt>,
}
