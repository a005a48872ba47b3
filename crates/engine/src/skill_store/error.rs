use super::name::{InvalidSkillName, SkillName};
use std::path::PathBuf;

/// Why a skill could not be saved, found or removed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SkillError {
    /// The name is invalid.
    #[error(transparent)]
    Name(#[from] InvalidSkillName),
    /// The name differs from an existing one only in case.
    #[error("there is a skill {other} already, and names that differ only in case are not told apart everywhere")]
    Taken {
        /// Requested name.
        name: SkillName,
        /// Existing name.
        other: SkillName,
    },
    /// The skill does not exist.
    #[error("there is no skill {name:?}{}", near.as_ref().map(|near| format!("; did you mean {near:?}?")).unwrap_or_default())]
    Missing {
        /// Requested name.
        name: String,
        /// A similar name that exists.
        near: Option<String>,
    },
    /// The version does not exist.
    #[error("skill {name} has no version {version}: there are {first} to {last}")]
    NoVersion {
        /// Name of the skill.
        name: SkillName,
        /// Requested version.
        version: u32,
        /// Oldest version that is kept.
        first: u32,
        /// Newest version.
        last: u32,
    },
    /// The file of a skill cannot be read.
    #[error("skill {name} has no file {path:?}: {reason}")]
    NoFile {
        /// Name of the skill.
        name: String,
        /// Requested path.
        path: String,
        /// Why it cannot be read.
        reason: String,
    },
    /// The arguments of a request are invalid.
    #[error("wrong arguments: {0}")]
    Arguments(String),
    /// The code is empty.
    #[error("the code of the skill is empty")]
    Empty,
    /// The code contains a NUL byte.
    #[error("the code of the skill contains a NUL byte")]
    Nul,
    /// A part of the skill is too long.
    #[error("the {what} is {length} long: at most {most} are taken")]
    TooLong {
        /// The part.
        what: &'static str,
        /// Its length.
        length: usize,
        /// Maximum length.
        most: usize,
    },
    /// The user has too many skills.
    #[error("there are {0} skills already, and no more are kept")]
    TooMany(usize),
    /// The user's skills are too large.
    #[error("all versions of all skills together would be larger than {0} bytes")]
    Full(u64),
    /// The code does not compile.
    #[error("the code of the skill does not compile, so it was not saved\n{0}")]
    Syntax(String),
    /// The example fails.
    #[error("the example of the skill fails, so it was not saved\n{0}")]
    Example(String),
    /// The skill could not be tried out.
    #[error("the skill could not be tried out, so it was not saved: {0}")]
    NotTried(String),
    /// The code of an example tries to save or remove a skill.
    #[error("the example of a skill cannot save or delete skills")]
    InExample,
    /// An operation on a file or folder failed.
    #[error("cannot {action} {}: {reason}", path.display())]
    Files {
        /// The operation.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// Why it failed.
        reason: String,
    },
    /// An internal error.
    #[error("a fault of Coracle itself: {0}")]
    Internal(String),
}

impl SkillError {
    /// Stable error code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Name(_) | Self::Taken { .. } | Self::Empty | Self::Nul => "invalid_skill",
            Self::Arguments(_) => "invalid_request",
            Self::Missing { .. } | Self::NoVersion { .. } | Self::NoFile { .. } => "no_such_skill",
            Self::TooLong { .. } | Self::TooMany(_) | Self::Full(_) => "too_large",
            Self::Syntax(_) | Self::Example(_) => "skill_failed",
            Self::InExample => "denied",
            Self::NotTried(_) => "unavailable",
            Self::Files { .. } => "skill_files",
            Self::Internal(_) => "internal",
        }
    }

    /// Advice on how to fix the error, if there is any.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Name(_) => Some("code imports it by this name: from skills.NAME import function"),
            Self::Taken { .. } => Some("save it under that name, or under quite another one"),
            Self::Missing { .. } => Some("list_skills or `coracle skills list` tells which there are"),
            Self::TooMany(_) | Self::Full(_) => Some("delete skills that are not used any more"),
            Self::Example(_) => Some("fix the code or the example: it must run to its end in an empty workspace"),
            Self::Files { .. } => Some("the data folder must belong to the user who runs Coracle, and have room"),
            Self::Arguments(_)
            | Self::NoVersion { .. }
            | Self::NoFile { .. }
            | Self::Empty
            | Self::Nul
            | Self::TooLong { .. }
            | Self::Syntax(_)
            | Self::NotTried(_)
            | Self::InExample
            | Self::Internal(_) => None,
        }
    }
}
