use crate::{Origin, provider_names};
use std::fmt;
use std::path::PathBuf;

/// Why settings cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file cannot be read.
    #[error("cannot read {}: {reason}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The file is not valid YAML.
    #[error("{}:{line}:{column}: {message}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// The column, from 1.
        column: u64,
        /// The message of the parser.
        message: String,
    },
    /// All values that cannot be used.
    #[error("{}", list(.0))]
    Invalid(Vec<Problem>),
}

/// One line per problem, and one per hint.
fn list(problems: &[Problem]) -> String {
    let lines = problems.iter().map(|problem| match problem.hint() {
        Some(hint) => format!("{problem}\n  hint: {hint}"),
        None => problem.to_string(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

impl ConfigError {
    /// The stable error code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unreadable { .. } => "config_unreadable",
            Self::Syntax { .. } => "config_syntax",
            Self::Invalid(_) => "config_invalid",
        }
    }

    /// How to fix the error. The hints of [`Self::Invalid`] are in its message.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Unreadable { .. } => Some("use a readable file, or none to use the defaults".to_owned()),
            Self::Syntax { .. } => Some("fix the YAML at that place".to_owned()),
            Self::Invalid(_) => None,
        }
    }
}

/// A value that cannot be used.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    /// The origin of the value.
    pub origin: Origin,
    /// The key.
    pub key: String,
    /// The reason.
    pub reason: Reason,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: `{}` {}", self.origin, self.key, self.reason)
    }
}

impl Problem {
    /// The stable error code.
    pub fn code(&self) -> &'static str {
        match self.reason {
            Reason::UnknownKey { .. } => "unknown_key",
            Reason::WrongType { .. } => "wrong_type",
            Reason::OutOfRange { .. } => "out_of_range",
            Reason::NotOneOf { .. } => "unknown_choice",
            Reason::Pattern => "bad_pattern",
            Reason::ProviderName => "bad_name",
            Reason::Missing { .. } => "missing_key",
            Reason::Twice { .. } => "given_twice",
            Reason::Unparsable { .. } => "unparsable",
            Reason::NotFollowed { .. } => "not_followed",
        }
    }

    /// How to fix the problem.
    pub fn hint(&self) -> Option<String> {
        match &self.reason {
            Reason::UnknownKey { suggestion: Some(suggestion), .. }
            | Reason::NotOneOf { suggestion: Some(suggestion), .. } => Some(format!("did you mean `{suggestion}`?")),
            Reason::UnknownKey { known, .. } if !known.is_empty() => Some(format!("known keys: {}", known.join(", "))),
            Reason::OutOfRange { .. } if self.key.starts_with("calls.max_") => Some(
                "a call and its answer are limited to one message each; request larger results in parts".to_owned(),
            ),
            Reason::ProviderName => Some("use letters, digits, `-`, `_` and `.`, and at most 64 of them".to_owned()),
            Reason::Missing { name: "network.allow" } => {
                Some("say which hosts code may reach, such as network.allow: [packages.example.com:443]".to_owned())
            }
            Reason::Missing { name: "user` or `shared" } => {
                Some("name the user whose code uses it, or write `shared: true` for all users".to_owned())
            }
            Reason::Missing { .. } => provider_names::name_in(&self.key).map(provider_names::hint_without_url),
            Reason::NotFollowed { instead } => Some(instead.clone()),
            Reason::Pattern => Some("write `server.tool`, `server.*`, `server.prefix_*` or `*`".to_owned()),
            _ => None,
        }
    }
}

/// Why a value cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Reason {
    /// The key does not exist.
    #[error("is not a known key")]
    UnknownKey {
        /// The key that was probably meant.
        suggestion: Option<String>,
        /// The possible keys.
        known: Vec<String>,
    },
    /// The value has the wrong type.
    #[error("must be {expected}, not {found}")]
    WrongType {
        /// The expected type.
        expected: String,
        /// The actual type.
        found: String,
    },
    /// The number is out of range.
    #[error("is {value}: it must be between {least} and {most}")]
    OutOfRange {
        /// The actual value.
        value: String,
        /// The minimum.
        least: String,
        /// The maximum.
        most: String,
    },
    /// The value is not one of the choices.
    #[error("is {value:?}: it must be one of {}", choices.join(", "))]
    NotOneOf {
        /// The actual value, shortened.
        value: String,
        /// The choices.
        choices: Vec<String>,
        /// The choice that was probably meant.
        suggestion: Option<String>,
    },
    /// The text is not a pattern of tools.
    #[error("is not a pattern of tools")]
    Pattern,
    /// The text cannot be the name of a model provider.
    #[error("is not a name of a model provider")]
    ProviderName,
    /// The setting would protect something, but has no effect.
    #[error("has no effect in this version")]
    NotFollowed {
        /// What to do instead.
        instead: String,
    },
    /// A required key is missing.
    #[error("has no `{name}`")]
    Missing {
        /// The key.
        name: &'static str,
    },
    /// A value is given twice, perhaps under another name.
    #[error("is given twice, as `{first}` and as `{second}`")]
    Twice {
        /// The first name.
        first: String,
        /// The second name.
        second: String,
    },
    /// A text is not valid YAML.
    #[error("cannot be read: {message}")]
    Unparsable {
        /// The message of the parser.
        message: String,
    },
}

/// Something that was probably not intended, but is not an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The origin.
    pub origin: Origin,
    /// The message.
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
