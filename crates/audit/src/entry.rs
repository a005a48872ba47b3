//! What can be recorded. No field has room for arguments, code, output or secrets.

use coracle_types::{Decision, ExecutionId, Language, PlanId, ServerName, SessionId, UserId};
use serde::Serialize;

/// Maximum number of characters of a name or text.
const MAX_CHARS: usize = 200;
/// Maximum number of names in a list.
const MAX_LISTED: usize = 20;

/// An event, and the user who caused it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Entry {
    /// The user. `None` for the operator at the terminal, for the program itself, and if nobody is signed in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<UserId>,
    /// The event.
    #[serde(flatten)]
    pub event: Event,
}

impl Entry {
    /// An event of the operator at the terminal, or of the program itself.
    pub fn of_operator(event: Event) -> Self {
        Self { user: None, event }
    }

    /// An event that a user caused.
    pub fn of(user: &UserId, event: Event) -> Self {
        Self { user: Some(user.clone()), event }
    }
}

/// A keyed digest, see [`AuditLog::digest`](crate::AuditLog::digest).
pub type Digest = String;

/// What happened.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind")]
#[expect(missing_docs, reason = "the fields are what their names say")]
pub enum Event {
    /// Code is about to run.
    #[serde(rename = "execution.began")]
    ExecutionBegan {
        execution: ExecutionId,
        #[serde(skip_serializing_if = "Option::is_none")]
        session: Option<SessionId>,
        language: Language,
        code: Digest,
        code_bytes: u64,
        /// That no policy denies it.
        decision: Verdict,
        /// Whether a session is replayed, which calls no tools.
        #[serde(skip_serializing_if = "is_false")]
        replay: bool,
    },
    /// Code is not run, because guardrails or a policy do not allow it.
    #[serde(rename = "execution.denied")]
    ExecutionDenied {
        execution: ExecutionId,
        #[serde(skip_serializing_if = "Option::is_none")]
        session: Option<SessionId>,
        language: Language,
        code: Digest,
        code_bytes: u64,
        decision: Verdict,
        /// The kind of the policy that decided, or the error code of the guardrails.
        reason: String,
        /// Its name.
        #[serde(skip_serializing_if = "Option::is_none")]
        rule: Option<String>,
    },
    /// Code has ended.
    #[serde(rename = "execution.ended")]
    ExecutionEnded { execution: ExecutionId, error_code: Option<String>, ms: u64, calls: u64 },
    /// It was decided whether a tool is called.
    #[serde(rename = "call.decided")]
    CallDecided {
        execution: ExecutionId,
        number: u64,
        server: ServerName,
        tool: String,
        arguments: Digest,
        arguments_bytes: u64,
        /// Whether the tool is called.
        decision: Verdict,
        /// Why: a kind of reason, or the code of a refusal.
        reason: String,
        /// The pattern of the rule that decided, or the flow rule, if one did.
        #[serde(skip_serializing_if = "Option::is_none")]
        rule: Option<String>,
        /// The servers that the data came from, if a flow rule decided.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        sources: Vec<ServerName>,
    },
    /// A call was refused before it was decided: no such tool, or wrong arguments.
    #[serde(rename = "call.refused")]
    CallRefused { execution: ExecutionId, number: u64, code: String },
    /// A call was not made, but is part of a plan.
    #[serde(rename = "call.planned")]
    CallPlanned { execution: ExecutionId, number: u64, server: String, tool: String },
    /// A plan was made.
    #[serde(rename = "plan.made")]
    PlanMade { plan: PlanId, execution: ExecutionId, effects: u64 },
    /// A person approved effects of a plan. They run as this execution.
    #[serde(rename = "plan.approved")]
    PlanApproved { plan: PlanId, execution: ExecutionId, effects: u64 },
    /// A plan was run, or was refused because something had changed.
    #[serde(rename = "plan.ended")]
    PlanEnded { plan: PlanId, execution: ExecutionId, state: &'static str },
    /// A call that was allowed has ended.
    #[serde(rename = "call.ended")]
    CallEnded { execution: ExecutionId, number: u64, ok: bool, code: Option<String>, ms: u64, bytes: u64 },
    /// A person was asked about a call.
    #[serde(rename = "approval.asked")]
    ApprovalAsked {
        execution: ExecutionId,
        number: u64,
        question: String,
        server: ServerName,
        tool: String,
        /// The flow rules that ask, if that is why.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        rules: Vec<String>,
        /// The servers that the data came from, if flow rules ask.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        sources: Vec<ServerName>,
    },
    /// A question was answered, or will not be.
    #[serde(rename = "approval.answered")]
    ApprovalAnswered { execution: ExecutionId, number: u64, question: String, answer: &'static str },
    /// A member of a group approved or refused a call, which may be that of another user.
    #[serde(rename = "approval.given")]
    ApprovalGiven {
        caller: UserId,
        execution: ExecutionId,
        question: String,
        groups: Vec<String>,
        answer: &'static str,
        /// How the member was authenticated.
        credential: String,
    },
    /// A user decided about a tool for all later calls, or took that back (`decision` is absent).
    #[serde(rename = "decision.changed")]
    DecisionChanged {
        server: ServerName,
        tool: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        decision: Option<Decision>,
    },
    /// Somebody signed in.
    #[serde(rename = "sign_in.succeeded")]
    SignedIn { method: SignInMethod, address: &'static str },
    /// Somebody tried to sign in, and was refused.
    #[serde(rename = "sign_in.failed")]
    SignInFailed {
        method: SignInMethod,
        address: &'static str,
        reason: &'static str,
        /// Number of failures that were not recorded since the last one that was.
        #[serde(skip_serializing_if = "is_zero")]
        unrecorded: u64,
    },
    /// An account was changed.
    #[serde(rename = "account.changed")]
    AccountChanged { account: UserId, change: AccountChange },
    /// A key was created or revoked.
    #[serde(rename = "key.changed")]
    KeyChanged {
        key: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        account: Option<UserId>,
        change: KeyChange,
    },
    /// A rule of the policy was changed, or removed (`decision` is absent), while the program runs.
    #[serde(rename = "policy.changed")]
    PolicyChanged {
        pattern: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        decision: Option<Decision>,
    },
    /// The policy was read again while the program runs, because its files or settings had changed.
    #[serde(rename = "policy.changed")]
    PolicyReloaded { policy: Digest },
    /// A server was changed while the program runs.
    #[serde(rename = "server.changed")]
    ServerChanged { server: String, change: &'static str },
    /// A program loaded its settings.
    #[serde(rename = "settings.loaded")]
    SettingsLoaded { program: &'static str, version: &'static str, settings: Digest },
    /// The log was created.
    #[serde(rename = "log.created")]
    LogCreated { key: String },
    /// The log was created in place of one that is missing or damaged. `after` is the last position of that which is
    /// remembered.
    #[serde(rename = "log.restarted")]
    LogRestarted {
        key: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        after: Option<String>,
    },
    /// Records that were not acknowledged as durable were lost, or an incomplete one was removed.
    #[serde(rename = "log.recovered")]
    LogRecovered { lost_records: u64, removed_bytes: u64 },
    /// Old segments were deleted.
    #[serde(rename = "log.pruned")]
    LogPruned { through: String },
    /// Records that could not be written for a long time were dropped.
    #[serde(rename = "log.dropped")]
    LogDropped { records: u64 },
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// Whether a tool is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It is.
    Allow,
    /// It is not.
    Deny,
}

/// How somebody signs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SignInMethod {
    /// Name and password.
    Password,
    /// A sign-in link.
    Link,
    /// An OpenID provider.
    Oidc,
    /// An API key.
    Key,
    /// An access token of an OpenID provider.
    Token,
    /// The local user's browser.
    Local,
}

/// A change of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AccountChange {
    /// It was added.
    Added,
    /// It has another name, which is the account of the next record.
    Renamed,
    /// It has this name, and had another.
    RenamedTo,
    /// It has another password.
    Password,
    /// A sign-in link was created.
    Link,
    /// It cannot sign in any more.
    Disabled,
    /// It can sign in again.
    Enabled,
    /// It is an admin now.
    Admin,
    /// It is an ordinary user now.
    User,
    /// It was deleted, with its data.
    Removed,
    /// The values in its vault of personal data get another key.
    VaultRotated,
    /// Its vault of personal data was deleted.
    VaultDeleted,
}

/// A change of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyChange {
    /// It was created.
    Created,
    /// It was revoked.
    Revoked,
}

/// A name from outside, of a bounded length.
pub(crate) fn bounded(text: &mut String) {
    if let Some((end, _)) = text.char_indices().nth(MAX_CHARS) {
        text.truncate(end);
    }
}

impl Event {
    /// Shortens what comes from outside.
    pub(crate) fn bound(&mut self) {
        match self {
            Self::CallDecided { tool, reason, rule, sources, .. } => {
                bounded(tool);
                bounded(reason);
                rule.iter_mut().for_each(bounded);
                sources.truncate(MAX_LISTED);
            }
            Self::ApprovalAsked { tool, rules, sources, .. } => {
                bounded(tool);
                rules.truncate(MAX_LISTED);
                rules.iter_mut().for_each(bounded);
                sources.truncate(MAX_LISTED);
            }
            Self::CallPlanned { server, tool, .. } => {
                bounded(server);
                bounded(tool);
            }
            Self::ApprovalGiven { groups, credential, .. } => {
                groups.iter_mut().for_each(bounded);
                bounded(credential);
            }
            Self::ExecutionDenied { rule: Some(text), .. }
            | Self::CallRefused { code: text, .. }
            | Self::DecisionChanged { tool: text, .. }
            | Self::PolicyChanged { pattern: text, .. }
            | Self::ServerChanged { server: text, .. }
            | Self::KeyChanged { key: text, .. } => bounded(text),
            Self::CallEnded { code, .. } | Self::ExecutionEnded { error_code: code, .. } => {
                if let Some(code) = code {
                    bounded(code);
                }
            }
            _ => {}
        }
    }
}
