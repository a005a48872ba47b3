use rustix::io::Errno;
use std::fmt::Display;

/// Maximum length of a path that an error repeats.
const MAX_SHOWN: usize = 200;

/// Why an operation on a file of a workspace failed.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The path is invalid.
    #[error("the path {path:?} is refused: {reason}")]
    Path {
        /// The path, shortened.
        path: String,
        /// Reason why the path is refused.
        reason: String,
    },
    /// The file does not exist.
    #[error("there is no {path:?} in the workspace")]
    Missing {
        /// Relative to the workspace.
        path: String,
    },
    /// The entry is of the wrong kind.
    #[error("{path:?} is {reason}")]
    Kind {
        /// Relative to the workspace.
        path: String,
        /// Kind of the entry.
        reason: &'static str,
    },
    /// The file exists already.
    #[error("{path:?} already exists")]
    Exists {
        /// Relative to the workspace.
        path: String,
    },
    /// The file is not the version that was to be replaced.
    #[error("{path:?} has changed in the meantime")]
    Changed {
        /// Relative to the workspace.
        path: String,
    },
    /// The quota of the workspace would be exceeded.
    #[error("the workspace would be too full: {reason}")]
    Full {
        /// Current use, requested space, and limit.
        reason: String,
    },
    /// The disk is full.
    #[error("no space is left on the disk: {path:?} could not be {doing}")]
    DiskFull {
        /// Relative to the workspace.
        path: String,
        /// The operation.
        doing: &'static str,
    },
    /// The file is larger than can be read at once.
    #[error("{path:?} has {bytes} bytes: at most {most} are handed out at once")]
    TooLarge {
        /// Relative to the workspace.
        path: String,
        /// Size of the file.
        bytes: u64,
        /// Maximum size.
        most: u64,
    },
    /// A system call failed.
    #[error("{path:?} could not be {doing}: {reason}")]
    Failed {
        /// Relative to the workspace.
        path: String,
        /// The operation.
        doing: &'static str,
        /// Error of the system.
        reason: String,
    },
}

impl FileError {
    /// Stable error code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Path { .. } => "invalid_path",
            Self::Missing { .. } => "not_found",
            Self::Kind { .. } => "wrong_kind",
            Self::Exists { .. } => "exists",
            Self::Changed { .. } => "changed",
            Self::Full { .. } => "quota",
            Self::DiskFull { .. } => "disk_full",
            Self::TooLarge { .. } => "too_large",
            Self::Failed { .. } => "failed",
        }
    }

    /// Advice on how to fix the error, if there is any.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Full { .. } => Some("delete what is not needed, or raise execution.limits.workspace_mb or _files"),
            Self::DiskFull { .. } => Some("the operator has to free some space; no limit of Coracle was reached"),
            Self::TooLarge { .. } => Some("read a range of it, or work on it with code"),
            Self::Exists { .. } => Some("delete it first, or say that it may be replaced"),
            Self::Changed { .. } => Some("read it again, and apply the change to what it is now"),
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

    /// The meaning of a system error. Entries behind a link count as missing.
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
