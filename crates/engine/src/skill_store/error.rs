use super::name::{InvalidSkillName, SkillName};
use std::path::PathBuf;

/// Why a skill could not be saved, found or removed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SkillError {
    /// A name that cannot be imported.
    #[error(transparent)]
    Name(#[from] InvalidSkillName),
    /// A name that differs from another one only in its case.
    #[error("there is a skill {other} already, and names that differ only in case are not told apart everywhere")]
    Taken {
        /// What was asked for.
        name: SkillName,
        /// What there is.
        other: SkillName,
    },
    /// No such skill.
    #[error("there is no skill {name:?}{}", near.as_ref().map(|near| format!("; did you mean {near:?}?")).unwrap_or_default())]
    Missing {
        /// What was asked for.
        name: String,
        /// What was probably meant.
        near: Option<String>,
    },
    /// No such version.
    #[error("skill {name} has no version {version}: there are {first} to {last}")]
    NoVersion {
        /// The skill.
        name: SkillName,
        /// What was asked for.
        version: u32,
        /// The oldest that is kept.
        first: u32,
        /// The newest.
        last: u32,
    },
    /// No file of this name in the folder of a skill.
    #[error("skill {name} has no file {path:?}: {reason}")]
    NoFile {
        /// The skill.
        name: String,
        /// What was asked for.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Something is wrong with what was asked.
    #[error("wrong arguments: {0}")]
    Arguments(String),
    /// There is nothing in it.
    #[error("the code of the skill is empty")]
    Empty,
    /// It cannot be code.
    #[error("the code of the skill contains a NUL byte")]
    Nul,
    /// A part of it is too long.
    #[error("the {what} is {length} long: at most {most} are taken")]
    TooLong {
        /// Which part.
        what: &'static str,
        /// How long it is.
        length: usize,
        /// The most that is taken.
        most: usize,
    },
    /// The user has too many skills.
    #[error("there are {0} skills already, and no more are kept")]
    TooMany(usize),
    /// The user's skills are too large.
    #[error("all versions of all skills together would be larger than {0} bytes")]
    Full(u64),
    /// It does not compile.
    #[error("the code of the skill does not compile, so it was not saved\n{0}")]
    Syntax(String),
    /// Its example fails.
    #[error("the example of the skill fails, so it was not saved\n{0}")]
    Example(String),
    /// It could not be tried out.
    #[error("the skill could not be tried out, so it was not saved: {0}")]
    NotTried(String),
    /// An example is not to save or remove skills.
    #[error("the example of a skill cannot save or delete skills")]
    InExample,
    /// A file or folder of skills.
    #[error("cannot {action} {}: {reason}", path.display())]
    Files {
        /// What was to be done.
        action: &'static str,
        /// To what.
        path: PathBuf,
        /// Why it failed.
        reason: String,
    },
    /// A fault of Coracle's own.
    #[error("a fault of Coracle itself: {0}")]
    Internal(String),
}

impl SkillError {
    /// Stable, for programs.
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

    /// What may help.
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
