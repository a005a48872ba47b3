use crate::{Reason, Verdict, shown};
use coracle_types::Tool;

/// Why a tool may not be called.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The policy says so.
    #[error("{tool} is denied: {reason}")]
    Denied {
        /// The tool, to be shown.
        tool: String,
        /// Why.
        reason: Reason,
        /// The line of configuration that would allow it.
        allow_line: String,
    },
    /// A person decided so earlier, for good.
    #[error("{tool} was refused for good")]
    Remembered {
        /// The tool, to be shown.
        tool: String,
    },
    /// A person said no.
    #[error("a person refused this call of {tool}")]
    Refused {
        /// The tool, to be shown.
        tool: String,
    },
    /// A person would have to say yes, and there is none.
    #[error("{tool} needs a person's approval and there is nobody to ask: {reason}")]
    NobodyToAsk {
        /// The tool, to be shown.
        tool: String,
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
            Self::Remembered { .. } => "denied_for_good",
            Self::Refused { .. } => "denied_by_person",
            Self::NobodyToAsk { .. } => "denied_unasked",
        }
    }

    /// What can be done about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Denied { allow_line, .. } | Self::NobodyToAsk { allow_line, .. } => {
                format!("this line of configuration would allow it: {allow_line}")
            }
            Self::Remembered { .. } => "the user can take the decision back".to_owned(),
            Self::Refused { .. } => "go on without this call, or say why it is needed".to_owned(),
        }
    }

    pub(crate) fn denied(tool: &Tool, verdict: Verdict) -> Self {
        Self::Denied { tool: full_name(tool), reason: verdict.reason, allow_line: verdict.allow_line }
    }

    pub(crate) fn nobody(tool: &Tool, verdict: Verdict) -> Self {
        Self::NobodyToAsk { tool: full_name(tool), reason: verdict.reason, allow_line: verdict.allow_line }
    }

    pub(crate) fn remembered(tool: &Tool) -> Self {
        Self::Remembered { tool: full_name(tool) }
    }

    pub(crate) fn refused(tool: &Tool) -> Self {
        Self::Refused { tool: full_name(tool) }
    }
}

fn full_name(tool: &Tool) -> String {
    format!("{}.{}", tool.server, shown::name(&tool.name))
}
