use crate::{Reason, Verdict};

/// Why a tool may not be called. Which one it was is known to whoever called it, and said by their error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The policy says so.
    #[error("this call is denied: {reason}")]
    Denied {
        /// Why.
        reason: Reason,
        /// The line of configuration that would allow it.
        allow_line: String,
    },
    /// A person decided so earlier, for good.
    #[error("calls of this tool were refused for good")]
    Remembered,
    /// A person said no.
    #[error("a person refused this call")]
    Refused,
    /// A person would have to say yes, and there is none.
    #[error("this call requires approval, and there is no one to ask: {reason}")]
    NobodyToAsk {
        /// Why a person would have to be asked.
        reason: Reason,
        /// The line of configuration that would allow it.
        allow_line: String,
    },
}

impl Refusal {
    /// The stable name of the kind of refusal.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Denied { .. } => "denied_by_policy",
            Self::Remembered => "denied_for_good",
            Self::Refused => "denied_by_person",
            Self::NobodyToAsk { .. } => "denied_unasked",
        }
    }

    /// What can be done about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Denied { allow_line, .. } | Self::NobodyToAsk { allow_line, .. } => {
                format!("this line of configuration would allow it: {allow_line}")
            }
            Self::Remembered => "the user can take the decision back".to_owned(),
            Self::Refused => "go on without this call, or say why it is needed".to_owned(),
        }
    }

    pub(crate) fn denied(verdict: Verdict) -> Self {
        Self::Denied { reason: verdict.reason, allow_line: verdict.allow_line }
    }

    pub(crate) fn nobody(verdict: Verdict) -> Self {
        Self::NobodyToAsk { reason: verdict.reason, allow_line: verdict.allow_line }
    }
}
