use crate::approvals::OpenQuestion;
use crate::timestamp::Timestamp;
use coracle_policy::Doubt;
use coracle_store::{ApprovalOutcome, ApprovalRecord};
use coracle_types::UserId;
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
    /// User whose code makes the call
    user: String,
    /// People who have to approve the call; null if that is up to the user, or if the question is no longer open
    approvers: Option<ApproversView>,
    /// Server name
    server: String,
    /// Tool name
    tool: String,
    /// Description of the tool by its server, shortened; null if the question is no longer open
    description: Option<String>,
    /// Arguments of the call as JSON, shortened. Where personal data is hidden from models, it is hidden from people other
    /// than the user and from API keys without the scope `approve`, too; for such keys, arguments that had to be shortened
    /// are empty. Empty for other people's calls that are no longer open.
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
    /// ID of the session of the code; null if there is none, or if the call is another user's
    session_id: Option<String>,
    /// ID of the execution that makes the call
    execution_id: String,
    /// ID of what the call is part of, such as a run of the agent; null if there is none, or if the call is another user's
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
    /// Credential of the person who answered: `session`, `local`, `proxy`, or `key` and the key ID. The names and
    /// credentials of all who answered for a group. Null if there is no answer.
    answered_by: Option<String>,
}

/// People who have to approve a call
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Approvers)]
struct ApproversView {
    /// Names of the groups whose members may approve
    groups: Vec<String>,
    /// Number of members who have to approve
    count: u32,
    /// Names of the members who have approved
    approved_by: Vec<String>,
    /// Whether the approval of the current user would count
    can_approve: bool,
}

impl ApprovalView {
    /// The question as this user sees it.
    pub(crate) fn of(open: &OpenQuestion, viewer: &UserId) -> Self {
        let question = &*open.question;
        let is_own = question.user == *viewer;
        let approvers = question.quorum.as_ref().map(|quorum| ApproversView {
            groups: quorum.groups.clone(),
            count: quorum.count,
            approved_by: open.approved.iter().map(|approved| approved.by.to_string()).collect(),
            can_approve: quorum.counts(viewer, &question.user)
                && !open.approved.iter().any(|approved| approved.by == *viewer),
        });
        let arguments = if is_own { &question.arguments_preview } else { &question.arguments_for_others };
        Self {
            id: question.id.as_str().to_owned(),
            state: "open",
            user: question.user.to_string(),
            // No line allows what a group has to approve.
            allow_line: approvers.is_none().then(|| question.allow_line.clone()),
            approvers,
            server: question.server.to_string(),
            tool: question.tool.clone(),
            description: Some(question.description.clone()),
            arguments: arguments.clone(),
            destructive: question.hints.destructive,
            read_only: question.hints.read_only,
            reason: question.why.clone(),
            doubt: question.doubt.map(Doubt::as_str),
            session_id: question.session.as_ref().filter(|_| is_own).map(ToString::to_string),
            execution_id: question.execution.to_string(),
            origin: question.origin.clone().filter(|_| is_own),
            asked_at: open.asked_at.into(),
            expires_at: Some(open.expires_at.into()),
            ended_at: None,
            decision: None,
            answered_by: None,
        }
    }
}

impl ApprovalView {
    /// The arguments, which are JSON.
    pub(crate) fn arguments(&mut self) -> &mut String {
        &mut self.arguments
    }

    /// All other texts that come from code, servers and rules.
    pub(crate) fn texts(&mut self) -> impl Iterator<Item = &mut String> {
        let Self { tool, description, reason, allow_line, .. } = self;
        [tool, reason].into_iter().chain(description).chain(allow_line)
    }
}

impl From<ApprovalRecord> for ApprovalView {
    fn from(record: ApprovalRecord) -> Self {
        let is_answered = record.outcome != ApprovalOutcome::TimedOut;
        Self {
            id: record.id,
            state: if is_answered { "answered" } else { "timed_out" },
            user: record.caller.unwrap_or(record.user).to_string(),
            approvers: None,
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
