use crate::Origin;
use std::fmt;
use std::path::PathBuf;

/// Why settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file that was named cannot be read.
    #[error("cannot read {}: {reason}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What is the matter with it.
        reason: String,
    },
    /// The file is no YAML.
    #[error("{}:{line}:{column}: {message}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: u64,
        /// Counted from 1.
        column: u64,
        /// What the parser says.
        message: String,
    },
    /// Values that cannot be used, all of them.
    #[error("{}", list(.0))]
    Invalid(Vec<Problem>),
}

/// One line for each problem, and one for each hint.
fn list(problems: &[Problem]) -> String {
    let lines = problems.iter().map(|problem| match problem.hint() {
        Some(hint) => format!("{problem}\n  hint: {hint}"),
        None => problem.to_string(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

impl ConfigError {
    /// Stable, for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unreadable { .. } => "config_unreadable",
            Self::Syntax { .. } => "config_syntax",
            Self::Invalid(_) => "config_invalid",
        }
    }

    /// What mends it. The hints of [`Self::Invalid`] are in its message.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Unreadable { .. } => Some("name a readable file, or none to use the defaults".to_owned()),
            Self::Syntax { .. } => Some("fix the YAML at that place".to_owned()),
            Self::Invalid(_) => None,
        }
    }
}

/// One value that cannot be used.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    /// Where it is.
    pub origin: Origin,
    /// The key.
    pub key: String,
    /// What is the matter with it.
    pub reason: Reason,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: `{}` {}", self.origin, self.key, self.reason)
    }
}

impl Problem {
    /// Stable, for programs.
    pub fn code(&self) -> &'static str {
        match self.reason {
            Reason::UnknownKey { .. } => "unknown_key",
            Reason::WrongType { .. } => "wrong_type",
            Reason::OutOfRange { .. } => "out_of_range",
            Reason::NotOneOf { .. } => "unknown_choice",
            Reason::Pattern => "bad_pattern",
            Reason::Missing { .. } => "missing_key",
            Reason::Twice { .. } => "given_twice",
            Reason::Unparsable { .. } => "unparsable",
            Reason::NotFollowed { .. } => "not_followed",
        }
    }

    /// What mends it.
    pub fn hint(&self) -> Option<String> {
        match &self.reason {
            Reason::UnknownKey { suggestion: Some(suggestion), .. }
            | Reason::NotOneOf { suggestion: Some(suggestion), .. } => Some(format!("did you mean `{suggestion}`?")),
            Reason::UnknownKey { known, .. } if !known.is_empty() => Some(format!("known here: {}", known.join(", "))),
            Reason::OutOfRange { .. } if self.key.starts_with("calls.max_") => Some(
                "a call and its answer each pass in one message; ask a tool that has more for it in parts".to_owned(),
            ),
            Reason::NotFollowed { instead } => Some(instead.clone()),
            Reason::Pattern => Some("write `server.tool`, `server.*`, `server.prefix_*` or `*`".to_owned()),
            _ => None,
        }
    }
}

/// What is the matter with a value.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Reason {
    /// There is no such key.
    #[error("is not a known key")]
    UnknownKey {
        /// What was probably meant.
        suggestion: Option<String>,
        /// What could stand there.
        known: Vec<String>,
    },
    /// Something else is expected.
    #[error("must be {expected}, not {found}")]
    WrongType {
        /// What is expected.
        expected: String,
        /// What is there.
        found: String,
    },
    /// A number that makes no sense.
    #[error("is {value}: it must be between {least} and {most}")]
    OutOfRange {
        /// What is there.
        value: String,
        /// The least that works.
        least: String,
        /// The most that is taken.
        most: String,
    },
    /// None of the choices.
    #[error("is {value:?}: it must be one of {}", choices.join(", "))]
    NotOneOf {
        /// What is there, cut short.
        value: String,
        /// What could be there.
        choices: Vec<String>,
        /// What was probably meant.
        suggestion: Option<String>,
    },
    /// No pattern of tools.
    #[error("is not a pattern of tools")]
    Pattern,
    /// It would protect somebody, and does nothing here.
    #[error("has no effect in this version")]
    NotFollowed {
        /// What to do.
        instead: String,
    },
    /// A key that must be there.
    #[error("has no `{name}`")]
    Missing {
        /// The key.
        name: &'static str,
    },
    /// The same thing a second time, perhaps under another name.
    #[error("is given twice, as `{first}` and as `{second}`")]
    Twice {
        /// One name.
        first: String,
        /// The other.
        second: String,
    },
    /// A text that should be YAML is not.
    #[error("cannot be read: {message}")]
    Unparsable {
        /// What the parser says.
        message: String,
    },
}

/// Something that is probably not meant, but does not hinder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// Where it is.
    pub origin: Origin,
    /// What is the matter.
    pub message: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.origin {
            Origin::Default => f.write_str(&self.message),
            origin => write!(f, "{origin}: {}", self.message),
        }
    }
}
