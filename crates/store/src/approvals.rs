//! The log of approvals: what people have answered when a tool call needed their approval.

use crate::{StoreError, bounds};
use async_trait::async_trait;
use coracle_types::{ExecutionId, ServerName, SessionId, UserId};
use std::fmt;
use std::time::SystemTime;

/// The maximum length of each text of an approval.
pub const MAX_APPROVAL_TEXT_BYTES: usize = 16 << 10;
/// The number of approvals that are kept per user. Older ones are deleted.
pub const KEPT_APPROVALS: usize = 1_000;

/// How a question ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ApprovalOutcome {
    /// The call was approved.
    Once,
    /// The tool was approved for the session.
    Session,
    /// The tool was approved for the session, with the same arguments.
    SessionSameArguments,
    /// The tool was approved permanently.
    Always,
    /// The tool was approved permanently, with the same arguments.
    AlwaysSameArguments,
    /// The call was refused.
    Refuse,
    /// No one answered in time, which counts as no.
    TimedOut,
}

impl ApprovalOutcome {
    /// All outcomes.
    pub const ALL: [Self; 7] = [
        Self::Once,
        Self::Session,
        Self::SessionSameArguments,
        Self::Always,
        Self::AlwaysSameArguments,
        Self::Refuse,
        Self::TimedOut,
    ];

    /// The outcome as a string.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::Session => "session",
            Self::SessionSameArguments => "session_same_arguments",
            Self::Always => "always",
            Self::AlwaysSameArguments => "always_same_arguments",
            Self::Refuse => "refuse",
            Self::TimedOut => "timed_out",
        }
    }

    /// Whether the call was approved.
    pub fn is_yes(self) -> bool {
        match self {
            Self::Once | Self::Session | Self::SessionSameArguments | Self::Always | Self::AlwaysSameArguments => true,
            Self::Refuse | Self::TimedOut => false,
        }
    }
}

/// A question that has ended. Its texts are those that the person saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalRecord {
    /// The ID of the question, unique per user.
    pub id: String,
    /// The user who was asked.
    pub user: UserId,
    /// The user whose code made the call, if that is somebody else.
    pub caller: Option<UserId>,
    /// The server of the tool.
    pub server: ServerName,
    /// The name of the tool.
    pub tool: String,
    /// The arguments of the call.
    pub arguments: String,
    /// Why approval was required.
    pub reason: String,
    /// The session of the code, if any.
    pub session: Option<SessionId>,
    /// The execution that made the call.
    pub execution_id: ExecutionId,
    /// What the call was part of, such as a run of the agent.
    pub origin: Option<String>,
    /// When the question was asked.
    pub asked_at: SystemTime,
    /// When it was answered or timed out.
    pub ended_at: SystemTime,
    /// How it ended.
    pub outcome: ApprovalOutcome,
    /// How the person who answered was authenticated; `None` if no one answered.
    pub answered_by: Option<String>,
}

/// The part of a store that holds the log of approvals. Its contract is that of [`crate::Store`].
#[async_trait]
pub trait ApprovalLog: Send + Sync + fmt::Debug {
    /// Adds a question that has ended. The newest [`KEPT_APPROVALS`] of each user are kept.
    async fn add_approval(&self, record: &ApprovalRecord) -> Result<(), StoreError>;

    /// One question of a user, if it is kept.
    async fn approval(&self, user: &UserId, id: &str) -> Result<Option<ApprovalRecord>, StoreError>;

    /// Questions of a user, those that ended last first, and those of the same millisecond by descending ID. At most
    /// `limit`, and never more than [`crate::MAX_PAGE`].
    async fn approvals(&self, user: &UserId, limit: usize) -> Result<Vec<ApprovalRecord>, StoreError>;

    /// All questions of a user that are kept, in the same order.
    async fn all_approvals(&self, user: &UserId) -> Result<Vec<ApprovalRecord>, StoreError>;
}

/// Checks an approval. Both stores reject the same values.
pub(crate) fn check(record: &ApprovalRecord) -> Result<(), StoreError> {
    bounds::name("approval ID", &record.id)?;
    let texts = [Some(&record.tool), Some(&record.arguments), Some(&record.reason)];
    let more = [record.origin.as_ref(), record.answered_by.as_ref()];
    for text in texts.into_iter().chain(more).flatten() {
        bounds::within("text of an approval", text.len(), MAX_APPROVAL_TEXT_BYTES)?;
    }
    Ok(())
}
