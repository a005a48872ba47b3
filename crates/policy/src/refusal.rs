use crate::limits::LimitVerdict;
use crate::{Doubt, FlowVerdict, PolicyKind, Quorum, Reason, Verdict};

/// Why a tool may not be called. The error does not name the tool, which the caller knows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The policy denies it.
    #[error("this call is denied: {reason}")]
    Denied {
        /// The reason.
        reason: Reason,
        /// The configuration line that would allow the tool.
        allow_line: String,
    },
    /// A rule about the flow of data denies it.
    #[error("this call is denied: {verdict}")]
    Flow {
        /// The rule, and what it is about.
        verdict: Box<FlowVerdict>,
    },
    /// A person refused the tool permanently, earlier.
    #[error("calls to this tool were permanently refused")]
    Remembered,
    /// A person refused this call.
    #[error("a person refused this call")]
    Refused,
    /// A person has to approve, and there is no one to ask.
    #[error("this call requires approval, and there is no one to ask: {reason}")]
    NobodyToAsk {
        /// Why a person has to approve.
        reason: Reason,
        /// The configuration line that would allow the tool.
        allow_line: String,
    },
    /// There is a doubt about this call, and a person did not approve it.
    #[error("{}, and {}", doubt.fact(), if *was_refused { "a person refused it" } else { "no one has approved it" })]
    InDoubt {
        /// The doubt.
        doubt: Doubt,
        /// Whether a person said no. Otherwise, no one answered.
        was_refused: bool,
    },
    /// A person has to approve, and no one answered in time.
    #[error("this call requires approval, and no one answered in time: {reason}")]
    TimedOut {
        /// Why a person has to approve.
        reason: Reason,
        /// The configuration line that would allow the tool.
        allow_line: String,
    },
    /// Members of a group have to approve, and did not.
    #[error("this call must be approved by {who}, and {problem}")]
    NoQuorum {
        /// Who has to approve, such as "2 members of finance".
        who: String,
        /// The names of the groups.
        groups: String,
        /// Why they did not.
        problem: NoQuorum,
    },
    /// A person has to approve, and has too many other questions to answer.
    #[error("this call requires approval, and too many questions are already waiting for an answer")]
    TooManyQuestions,
}

impl Refusal {
    /// The stable error code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Denied { .. } => "denied_by_policy",
            Self::Flow { .. } => "denied_by_flow",
            Self::Remembered => "denied_for_good",
            Self::Refused => "denied_by_person",
            Self::InDoubt { doubt, .. } => doubt.code(),
            Self::TimedOut { .. } | Self::NoQuorum { problem: NoQuorum::TimedOut, .. } => "denied_unanswered",
            Self::NobodyToAsk { .. } | Self::NoQuorum { .. } => "denied_unasked",
            Self::TooManyQuestions => "denied_too_many",
        }
    }

    /// What the caller can do.
    pub fn hint(&self) -> String {
        match self {
            Self::NobodyToAsk { reason: Reason::Wish, .. } | Self::TimedOut { reason: Reason::Wish, .. } => {
                "the user can revoke the decision to be asked".to_owned()
            }
            Self::Flow { verdict }
            | Self::NobodyToAsk { reason: Reason::Flow(verdict), .. }
            | Self::TimedOut { reason: Reason::Flow(verdict), .. } => verdict.hint.clone(),
            Self::Denied { reason, .. } | Self::NobodyToAsk { reason, .. } | Self::TimedOut { reason, .. }
                if !reason.yields_to_rules() =>
            {
                hint_of(reason)
            }
            Self::Denied { allow_line, .. }
            | Self::NobodyToAsk { allow_line, .. }
            | Self::TimedOut { allow_line, .. } => {
                format!("this configuration line would allow it: {allow_line}")
            }
            Self::Remembered => "the user can revoke the decision".to_owned(),
            Self::NoQuorum { groups, problem, .. } => match problem {
                NoQuorum::Unasked => format!(
                    "run the code on a server (`coracle up`) on which members of {groups} have accounts: they answer on its \
                     page"
                ),
                NoQuorum::TooFew { .. } => format!(
                    "the operator can add members to {groups} in policy.groups; where several people must approve, whoever \
                     runs the code is none of them"
                ),
                NoQuorum::TimedOut => format!("ask the members of {groups} to answer on their page, and try again"),
            },
            Self::TooManyQuestions => "make fewer calls at once, or answer the open questions first".to_owned(),
            Self::Refused => "continue without this call, or explain why it is needed".to_owned(),
            Self::InDoubt { .. } => {
                "find out with a tool that only reads what has happened, and continue from there".to_owned()
            }
        }
    }

    pub(crate) fn no_quorum(quorum: &Quorum, problem: NoQuorum) -> Self {
        Self::NoQuorum { who: quorum.to_string(), groups: quorum.names(), problem }
    }

    /// The refusal of a limit.
    pub(crate) fn limited(limit: LimitVerdict) -> Self {
        Self::Denied { reason: limit.into(), allow_line: String::new() }
    }

    pub(crate) fn denied(verdict: Verdict) -> Self {
        Self::Denied { reason: verdict.reason, allow_line: verdict.allow_line }
    }

    pub(crate) fn nobody(verdict: Verdict) -> Self {
        Self::NobodyToAsk { reason: verdict.reason, allow_line: verdict.allow_line }
    }

    pub(crate) fn timed_out(verdict: Verdict) -> Self {
        Self::TimedOut { reason: verdict.reason, allow_line: verdict.allow_line }
    }
}

/// Why a group has not approved a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoQuorum {
    /// There is no way to ask its members.
    #[error("they cannot be asked here")]
    Unasked,
    /// Too few people could approve.
    #[error("only {members} could do that")]
    TooFew {
        /// The number of people whose approval would count.
        members: usize,
    },
    /// Too few have answered in time.
    #[error("too few of them have answered in time")]
    TimedOut,
}

/// What the caller can do about a policy with a name.
fn hint_of(reason: &Reason) -> String {
    match reason {
        Reason::Named { kind: PolicyKind::Limit, error: None, .. } => "call it later, or less often".to_owned(),
        Reason::Named { origin, .. } if !origin.is_empty() => format!("the operator can change the policy at {origin}"),
        _ => "the operator can change the policy".to_owned(),
    }
}
