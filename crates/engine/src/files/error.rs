use rustix::io::Errno;
use std::fmt::Display;

/// An error repeats at most this much of a path.
const MAX_SHOWN: usize = 200;

/// Why something could not be done with a file of a workspace.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The path names nothing that could be there.
    #[error("the path {path:?} is refused: {reason}")]
    Path {
        /// As it was given, shortened.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// It is not there.
    #[error("there is no {path:?} in the workspace")]
    Missing {
        /// Relative to the workspace.
        path: String,
    },
    /// It is there, and not what it should be.
    #[error("{path:?} is {reason}")]
    Kind {
        /// Relative to the workspace.
        path: String,
        /// What it is.
        reason: &'static str,
    },
    /// It is there already.
    #[error("{path:?} already exists")]
    Exists {
        /// Relative to the workspace.
        path: String,
    },
    /// The workspace would hold too much.
    #[error("the workspace would be too full: {reason}")]
    Full {
        /// What there is, what was wanted, and what may be.
        reason: String,
    },
    /// The disk that it lies on is full.
    #[error("no space is left on the disk: {path:?} could not be {doing}")]
    DiskFull {
        /// Relative to the workspace.
        path: String,
        /// What was to be done.
        doing: &'static str,
    },
    /// More than is handed out at once.
    #[error("{path:?} has {bytes} bytes: at most {most} are handed out at once")]
    TooLarge {
        /// Relative to the workspace.
        path: String,
        /// Its size.
        bytes: u64,
        /// How much may be asked for.
        most: u64,
    },
    /// The system refused.
    #[error("{path:?} could not be {doing}: {reason}")]
    Failed {
        /// Relative to the workspace.
        path: String,
        /// What was to be done.
        doing: &'static str,
        /// What the system says.
        reason: String,
    },
}

impl FileError {
    /// For programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Path { .. } => "invalid_path",
            Self::Missing { .. } => "not_found",
            Self::Kind { .. } => "wrong_kind",
            Self::Exists { .. } => "exists",
            Self::Full { .. } => "quota",
            Self::DiskFull { .. } => "disk_full",
            Self::TooLarge { .. } => "too_large",
            Self::Failed { .. } => "failed",
        }
    }

    /// What can be done about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Full { .. } => Some("delete what is not needed, or raise execution.limits.workspace_mb or _files"),
            Self::DiskFull { .. } => Some("the operator has to free some space; no limit of Coracle was reached"),
            Self::TooLarge { .. } => Some("read a range of it, or work on it with code"),
            Self::Exists { .. } => Some("delete it first, or say that it may be replaced"),
            Self::Path { .. } | Self::Missing { .. } | Self::Kind { .. } | Self::Failed { .. } => None,
        }
    }

    pub(crate) fn failed(path: &dyn Display, doing: &'static str, reason: &dyn Display) -> Self {
        Self::Failed { path: shown(&path.to_string()), doing, reason: reason.to_string() }
    }

    /// The same for an error of the standard library.
    pub(crate) fn of_io(path: &dyn Display, doing: &'static str, error: &std::io::Error) -> Self {
        match error.raw_os_error() {
            Some(code) => Self::of(path, doing, Errno::from_raw_os_error(code)),
            None => Self::failed(path, doing, error),
        }
    }

    pub(crate) fn kind(path: &dyn Display, reason: &'static str) -> Self {
        Self::Kind { path: shown(&path.to_string()), reason }
    }

    /// What an error of the system means here: what is behind a link is not there.
    pub(crate) fn of(path: &dyn Display, doing: &'static str, errno: Errno) -> Self {
        let path = shown(&path.to_string());
        match errno {
            Errno::NOENT => Self::Missing { path },
            Errno::LOOP => Self::Kind { path, reason: "a link or below one: links are not followed" },
            Errno::XDEV => Self::Kind { path, reason: "on another file system, or outside of the workspace" },
            Errno::NOTDIR => Self::Kind { path, reason: "no folder, or below something that is none" },
            Errno::ISDIR => Self::Kind { path, reason: "a folder" },
            Errno::NXIO | Errno::NODEV => Self::Kind { path, reason: "no file, but a pipe, a socket or a device" },
            Errno::EXIST => Self::Exists { path },
            Errno::NOTEMPTY => Self::Kind { path, reason: "a folder that is not empty" },
            Errno::DQUOT => Self::Full { reason: "the file system's quota is reached".to_owned() },
            Errno::NOSPC => Self::DiskFull { path, doing },
            errno => Self::Failed { path, doing, reason: std::io::Error::from(errno).to_string() },
        }
    }
}

/// A path as errors repeat it.
pub(crate) fn shown(text: &str) -> String {
    text.chars().take(MAX_SHOWN).map(|c| if coracle_types::is_hidden(c) { '\u{fffd}' } else { c }).collect()
}
