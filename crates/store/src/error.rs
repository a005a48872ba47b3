use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

/// The kind of problem with a database or a file of the data folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The file system is full, or a quota is used up.
    Full,
    /// Another process has locked the file.
    Locked,
    /// The file is not writable, or its file system is read-only.
    ReadOnly,
    /// The file is not a database, or is damaged.
    Damaged,
    /// The file has been removed.
    Missing,
    /// This process has reached its limit on open files.
    Descriptors,
    /// Another problem.
    Other,
}

impl Fault {
    /// Classifies an error of the system.
    pub(crate) fn of(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full,
            io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => Self::ReadOnly,
            io::ErrorKind::NotFound => Self::Missing,
            _ if [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE]
                .iter()
                .any(|errno| error.raw_os_error() == Some(errno.raw_os_error())) =>
            {
                Self::Descriptors
            }
            _ => Self::Other,
        }
    }

    fn code(self) -> &'static str {
        match self {
            Self::Full => "store_full",
            Self::Locked => "store_locked",
            Self::ReadOnly => "store_read_only",
            Self::Damaged => "store_damaged",
            Self::Missing => "store_missing",
            Self::Descriptors => "store_descriptors",
            Self::Other => "store_database",
        }
    }

    /// How to fix the problem.
    fn hint(self, path: &Path) -> Option<String> {
        let folder = path.parent().unwrap_or(path).display();
        Some(match self {
            Self::Full => format!("free some space on the file system of {folder}; no restart is needed"),
            Self::Locked => format!(
                "another program is writing to it (`fuser {}` names it): wait until it is done, or end it; no restart is needed",
                path.display()
            ),
            Self::ReadOnly => {
                format!("make {folder} writable for the user who runs coracle; no restart is needed")
            }
            Self::Damaged => format!(
                "restore an intact copy (`coracle restore`), or move {} away to start with an empty one",
                path.display()
            ),
            Self::Missing => format!("put {} back, or restart coracle to start with an empty one", path.display()),
            Self::Descriptors => {
                "let coracle open more files: raise `ulimit -n`, or LimitNOFILE= of its systemd unit".to_owned()
            }
            Self::Other => return None,
        })
    }
}

/// Why an operation of the store failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// The data folder or the database in it cannot be used.
    #[error("the data folder {path:?} cannot be used: {reason}")]
    Home {
        /// The file or folder.
        path: PathBuf,
        /// The kind of problem.
        fault: Fault,
        /// The reason.
        reason: String,
    },
    /// The database was written by a later version of Coracle.
    #[error("the database {path:?} has schema version {found}; this version of coracle knows {known}")]
    Newer {
        /// The database.
        path: PathBuf,
        /// The schema version of the database.
        found: i64,
        /// The newest schema version that this version supports.
        known: i64,
    },
    /// Another process has written in between.
    #[error("{what} has changed since version {expected}")]
    Conflict {
        /// The entry that was to be written.
        what: String,
        /// The version that the caller has read.
        expected: u64,
    },
    /// The session does not exist, has ended, or belongs to another user.
    #[error("there is no open session {id}")]
    NoSession {
        /// The requested session.
        id: String,
    },
    /// The conversation does not exist, or belongs to another user.
    #[error("there is no conversation {id}")]
    NoConversation {
        /// The requested conversation.
        id: String,
    },
    /// A run is running in the conversation.
    #[error("a run is under way in the conversation {id}")]
    Busy {
        /// The conversation.
        id: String,
    },
    /// The run does not exist, has ended, or belongs to another user.
    #[error("there is no running run {id}")]
    NoRun {
        /// The requested run.
        id: String,
    },
    /// A value is larger than the maximum.
    #[error("the {what} is {bytes} bytes long: the maximum is {max}")]
    TooLarge {
        /// The kind of value.
        what: &'static str,
        /// Its length.
        bytes: usize,
        /// The maximum.
        max: usize,
    },
    /// A name is empty or has a zero byte, which not every database can store.
    #[error("the {what} is empty or contains a zero byte")]
    InvalidName {
        /// The kind of name.
        what: &'static str,
    },
    /// A stored value is invalid.
    #[error("the stored {what} is damaged: {reason}")]
    Damaged {
        /// The kind of value.
        what: String,
        /// The reason.
        reason: String,
    },
    /// A secret cannot be decrypted: the row was changed, or belongs to another owner or name.
    #[error("the secret {name:?} of {owner} was tampered with or is damaged")]
    Tampered {
        /// The owner in the row.
        owner: String,
        /// The name in the row.
        name: String,
    },
    /// An error of the master key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// Another server uses the data folder.
    #[error("the data folder {path:?} is served by another coracle ({by})")]
    Served {
        /// The data folder.
        path: PathBuf,
        /// The process of the other server, and its address if known.
        by: String,
    },
    /// The database failed.
    #[error("the database {path:?} failed to {doing}: {reason}")]
    Database {
        /// The database, or the file of it that failed.
        path: PathBuf,
        /// The operation.
        doing: &'static str,
        /// The kind of problem.
        fault: Fault,
        /// The reason.
        reason: String,
    },
}

impl StoreError {
    /// The stable error code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Home { .. } => "store_home",
            Self::Newer { .. } => "store_newer",
            Self::Conflict { .. } => "store_conflict",
            Self::NoSession { .. } => "store_no_session",
            Self::NoConversation { .. } => "store_no_conversation",
            Self::Busy { .. } => "store_busy",
            Self::NoRun { .. } => "store_no_run",
            Self::TooLarge { .. } => "store_too_large",
            Self::InvalidName { .. } => "store_invalid_name",
            Self::Damaged { .. } => "store_damaged",
            Self::Tampered { .. } => "store_tampered",
            Self::Key(error) => error.code(),
            Self::Served { .. } => "store_served",
            Self::Database { fault, .. } => fault.code(),
        }
    }

    /// How to fix the error.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Home { path, fault: Fault::Other, .. } if !path.exists() => {
                Some("set CORACLE_HOME to a writable folder".to_owned())
            }
            Self::Home { path, fault, .. } => {
                fault.hint(path).or_else(|| Some("fix it, or set CORACLE_HOME to a writable folder".to_owned()))
            }
            Self::Newer { .. } => Some(
                "use the version of coracle that wrote it, or set CORACLE_HOME to another folder; nothing was changed"
                    .to_owned(),
            ),
            Self::Tampered { .. } => Some("delete the secret and sign in again".to_owned()),
            Self::Key(error) => Some(error.hint()),
            Self::Conflict { .. } => Some("read it again, merge, and write with the new version".to_owned()),
            Self::NoSession { .. } => Some("start another session".to_owned()),
            Self::Busy { .. } => Some("wait until it has ended, or stop it".to_owned()),
            Self::Served { .. } => Some("stop it, or set CORACLE_HOME to another folder".to_owned()),
            Self::Database { path, fault, .. } => fault.hint(path),
            Self::NoConversation { .. }
            | Self::NoRun { .. }
            | Self::TooLarge { .. }
            | Self::InvalidName { .. }
            | Self::Damaged { .. } => None,
        }
    }

    /// A part of the data folder cannot be used, for this reason.
    pub fn home(path: impl Into<PathBuf>, reason: impl Display) -> Self {
        Self::Home { path: path.into(), fault: Fault::Other, reason: reason.to_string() }
    }

    /// A file of the data folder cannot be used, because of this error of the system.
    pub(crate) fn file(path: impl Into<PathBuf>, error: &io::Error) -> Self {
        Self::Home { path: path.into(), fault: Fault::of(error), reason: error.to_string() }
    }

    /// Whether the same operation may succeed later without changes.
    pub fn is_passing(&self) -> bool {
        matches!(
            self,
            Self::Home { .. } | Self::Database { .. } | Self::Newer { .. } | Self::Key(_) | Self::Served { .. }
        )
    }
}

/// Why the master key is missing or cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// There are secrets, but no key.
    #[error("the master key {path:?} is missing, and the stored secrets are encrypted with it")]
    Missing {
        /// Where the key should be.
        path: PathBuf,
    },
    /// The secrets are encrypted with another key.
    #[error("the stored secrets are encrypted with another master key than the one from {origin}")]
    Wrong {
        /// The source of the key.
        origin: String,
    },
    /// The key is invalid.
    #[error("the master key from {origin} is not 64 hexadecimal digits")]
    Malformed {
        /// The source of the key.
        origin: String,
    },
    /// Other users can read the key.
    #[error("the master key {path:?} can be read by others (mode {mode:o})")]
    Exposed {
        /// The file of the key.
        path: PathBuf,
        /// The mode of the file.
        mode: u32,
    },
    /// The key cannot be read or created.
    #[error("the master key {path:?} cannot be used: {reason}")]
    Unusable {
        /// The file of the key.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The command that prints the key failed.
    #[error("the command that prints the master key cannot be used: {reason}")]
    Command {
        /// The reason, without the command and its output.
        reason: String,
    },
}

impl KeyError {
    /// The stable error code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Missing { .. } => "key_missing",
            Self::Wrong { .. } => "key_wrong",
            Self::Malformed { .. } => "key_malformed",
            Self::Exposed { .. } => "key_exposed",
            Self::Unusable { .. } => "key_unusable",
            Self::Command { .. } => "key_command",
        }
    }

    /// What can be done about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Missing { .. } | Self::Wrong { .. } => {
                "put the right key back, or delete the stored secrets and sign in again; nothing was changed"
            }
            Self::Malformed { .. } => "put the right key back, or create a new one with `openssl rand -hex 32`",
            Self::Exposed { path, .. } => return format!("run `chmod 600 {}`", path.display()),
            Self::Unusable { .. } => "check the permissions of the file and of its folder",
            Self::Command { .. } => "run the command in a shell: it must print 64 hexadecimal digits and exit with 0",
        }
        .to_owned()
    }
}
