use crate::timestamp::Timestamp;
use coracle_store::{FlowApproval, PlacedSource};
use coracle_types::{ServerLabel, ServerName};
use serde::Serialize;
use std::collections::BTreeSet;
use utoipa::ToSchema;

/// Data of a server in a place
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Source)]
pub struct SourceView {
    /// Place with the data: `session:ID`, `conversation:ID`, `run:ID`, `client:ID`, `workspace`, `workspace:PATH` or
    /// `skills`
    pub place: String,
    /// Server that the data came from
    #[schema(value_type = String)]
    pub server: ServerName,
    /// Labels of the server when it was read
    #[schema(value_type = Vec<String>)]
    pub labels: BTreeSet<ServerLabel>,
    /// Execution that may bring the data there; null if the data is there
    pub execution: Option<String>,
    /// Time of the last reading
    #[schema(value_type = String, format = DateTime)]
    pub seen_at: Timestamp,
}

impl From<PlacedSource> for SourceView {
    fn from(source: PlacedSource) -> Self {
        Self {
            place: source.place.as_str().to_owned(),
            server: source.server,
            labels: source.labels,
            execution: source.execution.map(String::from),
            seen_at: source.seen_at.into(),
        }
    }
}

/// Permanent approval of a flow that a rule asks about
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = FlowApproval)]
pub struct FlowApprovalView {
    /// Flow rule, or `policy.trifecta`
    pub rule: String,
    /// Servers that the data came from
    #[schema(value_type = Vec<String>)]
    pub sources: Vec<ServerName>,
    /// Server of the tool that gets the data
    #[schema(value_type = String)]
    pub server: ServerName,
    /// Name of the tool that gets the data
    pub tool: String,
    /// Time of the approval
    #[schema(value_type = String, format = DateTime)]
    pub approved_at: Timestamp,
}

impl From<FlowApproval> for FlowApprovalView {
    fn from(approval: FlowApproval) -> Self {
        let FlowApproval { rule, sources, server, tool, approved_at, .. } = approval;
        Self { rule, sources, server, tool, approved_at: approved_at.into() }
    }
}
