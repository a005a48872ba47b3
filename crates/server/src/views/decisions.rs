use crate::timestamp::Timestamp;
use coracle_store::ToolDecision;
use coracle_types::{Decision, ServerName};
use serde::Serialize;
use utoipa::ToSchema;

/// Permanent decision about a tool
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Decision)]
pub struct DecisionView {
    /// Server name
    #[schema(value_type = String)]
    pub server: ServerName,
    /// Tool name
    pub tool: String,
    /// Decision: `allow`, `deny` or `ask`
    #[schema(value_type = String)]
    pub decision: Decision,
    /// Digest of the arguments that the decision applies to; null if it applies to all calls of the tool
    pub arguments: Option<String>,
    /// Time of the decision
    #[schema(value_type = String, format = DateTime)]
    pub decided_at: Timestamp,
}

impl From<ToolDecision> for DecisionView {
    fn from(decision: ToolDecision) -> Self {
        let ToolDecision { server, tool, decision, arguments, decided_at, .. } = decision;
        Self { server, tool, decision, arguments, decided_at: decided_at.into() }
    }
}
