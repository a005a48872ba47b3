use crate::approvals::OpenQuestion;
use crate::timestamp::Timestamp;
use coracle_policy::Doubt;
use coracle_store::{ApprovalOutcome, ApprovalRecord};
use serde::Serialize;
use utoipa::ToSchema;

/// Question whether a tool may be called, and its answer
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Approval)]
pub(crate) struct ApprovalView {
    /// Question ID
    id: String,
    /// Question state: `open`, `answered` or `timed_out`
    state: &'static str,
    /// Server name
    server: String,
    /// Tool name
    tool: String,
    /// Description of the tool by its server, shortened; null if the question is no longer open
    description: Option<String>,
    /// Arguments of the call as JSON, shortened
    arguments: String,
    /// Whether the server marks the tool as destructive; null if it does not say, or if the question is no longer open
    destructive: Option<bool>,
    /// Whether the server marks the tool as read-only; null if it does not say, or if the question is no longer open
    read_only: Option<bool>,
    /// Reason why approval is required
    reason: String,
    /// Doubt about a call that code makes again after the server stopped: `unanswered` or `answer_not_kept` (the call may
    /// have happened, and a yes makes it again), or `differs` (it may repeat another call); null if there is none, or if
    /// the question is no longer open
    doubt: Option<&'static str>,
    /// Configuration line that would allow the tool; null if the question is no longer open
    allow_line: Option<String>,
    /// ID of the session of the code; null if there is none
    session_id: Option<String>,
    /// ID of the execution that makes the call
    execution_id: String,
    /// ID of what the call is part of, such as a run of the agent; null if there is none
    origin: Option<String>,
    /// Time of the question
    #[schema(value_type = String, format = DateTime)]
    asked_at: Timestamp,
    /// Time at which the call is refused if there is no answer; null if the question is no longer open
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<Timestamp>,
    /// Time of the answer, or of the time-out; null if the question is open
    #[schema(value_type = Option<String>, format = DateTime)]
    ended_at: Option<Timestamp>,
    /// Decision: `once`, `session`, `session_same_arguments`, `always`, `always_same_arguments` or `refuse`; null if there
    /// is none
    decision: Option<&'static str>,
    /// Credential of the person who answered: `session`, `local`, `proxy`, or `key` and the key ID; null if there is no
    /// answer
    answered_by: Option<String>,
}

impl From<&OpenQuestion> for ApprovalView {
    fn from(open: &OpenQuestion) -> Self {
        let question = &*open.question;
        Self {
            id: question.id.as_str().to_owned(),
            state: "open",
            server: question.server.to_string(),
            tool: question.tool.clone(),
            description: Some(question.description.clone()),
            arguments: question.arguments_preview.clone(),
            destructive: question.hints.destructive,
            read_only: question.hints.read_only,
            reason: question.why.clone(),
            doubt: question.doubt.map(Doubt::as_str),
            allow_line: Some(question.allow_line.clone()),
            session_id: question.session.as_ref().map(ToString::to_string),
            execution_id: question.execution.to_string(),
            origin: open.origin.clone(),
            asked_at: open.asked_at.into(),
            expires_at: Some(open.expires_at.into()),
            ended_at: None,
            decision: None,
            answered_by: None,
        }
    }
}

impl From<ApprovalRecord> for ApprovalView {
    fn from(record: ApprovalRecord) -> Self {
        let is_answered = record.outcome != ApprovalOutcome::TimedOut;
        Self {
            id: record.id,
            state: if is_answered { "answered" } else { "timed_out" },
            server: record.server.to_string(),
            tool: record.tool,
            description: None,
            arguments: record.arguments,
            destructive: None,
            read_only: None,
            reason: record.reason,
            doubt: None,
            allow_line: None,
            session_id: record.session.as_ref().map(ToString::to_string),
            execution_id: record.execution_id.to_string(),
            origin: record.origin,
            asked_at: record.asked_at.into(),
            expires_at: None,
            ended_at: Some(record.ended_at.into()),
            decision: is_answered.then(|| record.outcome.as_str()),
            answered_by: record.answered_by,
        }
    }
}
