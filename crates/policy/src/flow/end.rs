//! A source or a sink of a rule: servers by name, by pattern or by label.

use crate::names::{Spellings, ToolNames};
use crate::pattern::Match;
use crate::{Pattern, PatternError};
use coracle_types::{Decision, ServerLabel};
use std::collections::BTreeSet;
use std::fmt;

/// What precedes the name of a label.
const LABEL: &str = "label:";

/// Why a text names no source or sink.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndError {
    /// There is no such label.
    #[error("there is no label {name:?}")]
    Label {
        /// The label.
        name: String,
    },
    /// The text is not a name.
    #[error("{text:?} is not a name or a pattern of servers")]
    Name {
        /// The text.
        text: String,
    },
    /// A source names a tool.
    #[error("{text:?} names a tool: sources are servers")]
    ToolAsSource {
        /// The text.
        text: String,
    },
    /// The pattern is invalid.
    #[error(transparent)]
    Pattern(#[from] PatternError),
}

impl EndError {
    pub(super) fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Label { .. } => {
                format!("there are: {}", ServerLabel::ALL.map(|label| format!("{LABEL}{label}")).join(", "))
            }
            Self::Name { .. } => "write the name of a server, a pattern such as crm*, label:NAME, or *".to_owned(),
            Self::ToolAsSource { .. } => "write the name of the server only".to_owned(),
            Self::Pattern(error) => return error.hint(),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Servers with this label.
    Label(ServerLabel),
    /// Servers, or of a sink also tools, that match a pattern.
    Named { text: String, pattern: Pattern },
}

impl End {
    pub(super) fn source(text: &str) -> Result<Self, EndError> {
        let text = text.trim();
        if text.contains('.') && !text.starts_with(LABEL) {
            return Err(EndError::ToolAsSource { text: text.to_owned() });
        }
        Self::sink(text)
    }

    pub(super) fn sink(text: &str) -> Result<Self, EndError> {
        let text = text.trim();
        if let Some(name) = text.strip_prefix(LABEL) {
            let label = ServerLabel::from_name(name.trim());
            return label.map(Self::Label).ok_or_else(|| EndError::Label { name: name.trim().to_owned() });
        }
        if text.is_empty() || text.contains(|c: char| c.is_whitespace() || c.is_control() || matches!(c, ':' | '[')) {
            return Err(EndError::Name { text: text.to_owned() });
        }
        let pattern = if text.contains('.') { text.parse() } else { format!("{text}.*").parse() };
        Ok(Self::Named { text: text.to_owned(), pattern: pattern? })
    }

    /// Whether data of a server is meant.
    pub(super) fn is_source(&self, names: &Spellings, labels: &BTreeSet<ServerLabel>, decision: Decision) -> bool {
        match self {
            Self::Label(label) => labels.contains(label),
            Self::Named { pattern, .. } => match pattern.matches_server_as(names) {
                None => false,
                // Another server looks alike: only the exact spelling is allowed.
                Some(Match::Folded) => decision != Decision::Allow || names.is_unique(),
                Some(Match::Exact) => true,
            },
        }
    }

    /// Whether a tool is meant.
    pub(super) fn is_sink(&self, names: &ToolNames, labels: &BTreeSet<ServerLabel>, decision: Decision) -> bool {
        match self {
            Self::Label(label) => labels.contains(label),
            Self::Named { pattern, .. } => pattern.matches(names, decision).is_some(),
        }
    }

    /// Whether the other one matches everything that this one does. A name or a pattern counts as more specific than a
    /// label, and a label as more specific than `*`.
    pub(super) fn is_within(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Label(one), Self::Label(other)) => one == other,
            (Self::Label(_), Self::Named { pattern, .. }) => pattern.matches_all(),
            (Self::Named { pattern, .. }, Self::Label(_)) => !pattern.matches_all(),
            (Self::Named { pattern: one, .. }, Self::Named { pattern: other, .. }) => one.is_within(other),
        }
    }

    /// The pattern, unless it is a label.
    pub(super) fn pattern(&self) -> Option<&Pattern> {
        match self {
            Self::Label(_) => None,
            Self::Named { pattern, .. } => Some(pattern),
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Label(label) => write!(f, "{LABEL}{label}"),
            Self::Named { text, .. } => f.write_str(text),
        }
    }
}
