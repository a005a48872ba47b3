use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

/// What keeps a database or a file of the data folder from being used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No space is left on the file system, or a quota is used up.
    Full,
    /// Another process holds it.
    Locked,
    /// It cannot be written: read-only, or not ours to write.
    ReadOnly,
    /// It is no database, or not a sound one.
    Damaged,
    /// It was there, and is gone.
    Missing,
    /// This process has as many files open as it may.
    Descriptors,
    /// Something else.
    Other,
}

impl Fault {
    /// What the system means.
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

    /// What can be done about it.
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
                "put a sound copy in its place (`coracle restore`), or move {} aside to begin with an empty one",
                path.display()
            ),
            Self::Missing => format!("put {} back, or restart coracle to begin with an empty one", path.display()),
            Self::Descriptors => {
                "let coracle open more files: raise `ulimit -n`, or LimitNOFILE= of its systemd unit".to_owned()
            }
            Self::Other => return None,
        })
    }
}

/// Why the store did not do what it was asked.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// The data folder or the database in it cannot be used.
    #[error("the data folder {path:?} cannot be used: {reason}")]
    Home {
        /// What could not be used.
        path: PathBuf,
        /// What is wrong.
        fault: Fault,
        /// Why.
        reason: String,
    },
    /// A later version of Coracle has written the database.
    #[error("the database {path:?} has schema version {found}; this version of coracle knows {known}")]
    Newer {
        /// The database.
        path: PathBuf,
        /// Its version.
        found: i64,
        /// The newest version that is known here.
        known: i64,
    },
    /// Somebody else has written in between.
    #[error("{what} has changed since version {expected}")]
    Conflict {
        /// What was to be written.
        what: String,
        /// The version that the caller had read.
        expected: u64,
    },
    /// There is no such session, or it has ended, or it is somebody else's.
    #[error("there is no session {id} in which something could run")]
    NoSession {
        /// What was asked for.
        id: String,
    },
    /// It is larger than what is kept.
    #[error("the {what} is {bytes} bytes long: at most {max} are kept")]
    TooLarge {
        /// What it is.
        what: &'static str,
        /// How long it is.
        bytes: usize,
        /// How long it may be.
        max: usize,
    },
    /// A key that is empty, or text that not every database can keep.
    #[error("the {what} is empty or holds a zero byte")]
    InvalidName {
        /// What it is.
        what: &'static str,
    },
    /// What was read makes no sense.
    #[error("what is stored as {what} is damaged: {reason}")]
    Damaged {
        /// What it should be.
        what: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A secret does not open: the row was changed, or belongs to another owner or name.
    #[error("the secret {name:?} of {owner} was tampered with or is damaged")]
    Tampered {
        /// Whose it should be.
        owner: String,
        /// What it should be called.
        name: String,
    },
    /// The master key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// Another server uses the data folder.
    #[error("the data folder {path:?} is served by another coracle ({by})")]
    Served {
        /// The data folder.
        path: PathBuf,
        /// Which one: its process, and its address as far as it has told.
        by: String,
    },
    /// The database refused.
    #[error("the database {path:?} failed to {doing}: {reason}")]
    Database {
        /// The database, or the file of it that is meant.
        path: PathBuf,
        /// What it was to do.
        doing: &'static str,
        /// What is wrong.
        fault: Fault,
        /// What it says.
        reason: String,
    },
}

impl StoreError {
    /// The stable name of the kind of error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Home { .. } => "store_home",
            Self::Newer { .. } => "store_newer",
            Self::Conflict { .. } => "store_conflict",
            Self::NoSession { .. } => "store_no_session",
            Self::TooLarge { .. } => "store_too_large",
            Self::InvalidName { .. } => "store_invalid_name",
            Self::Damaged { .. } => "store_damaged",
            Self::Tampered { .. } => "store_tampered",
            Self::Key(error) => error.code(),
            Self::Served { .. } => "store_served",
            Self::Database { fault, .. } => fault.code(),
        }
    }

    /// What can be done about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Home { path, fault: Fault::Other, .. } if !path.exists() => {
                Some("name a folder that you may write to with CORACLE_HOME".to_owned())
            }
            Self::Home { path, fault, .. } => fault.hint(path).or_else(|| {
                Some("make it usable, or name a folder that you may write to with CORACLE_HOME".to_owned())
            }),
            Self::Newer { .. } => Some(
                "use the version of coracle that wrote it, or another data folder by CORACLE_HOME; nothing was changed"
                    .to_owned(),
            ),
            Self::Tampered { .. } => Some("delete the secret and sign in again".to_owned()),
            Self::Key(error) => Some(error.hint()),
            Self::Conflict { .. } => Some("read it again, merge, and write with the new version".to_owned()),
            Self::NoSession { .. } => Some("begin another session".to_owned()),
            Self::Served { .. } => Some("stop it, or name another data folder with CORACLE_HOME".to_owned()),
            Self::Database { path, fault, .. } => fault.hint(path),
            Self::TooLarge { .. } | Self::InvalidName { .. } | Self::Damaged { .. } => None,
        }
    }

    /// Something of the data folder that cannot be used, for this reason.
    pub fn home(path: impl Into<PathBuf>, reason: impl Display) -> Self {
        Self::Home { path: path.into(), fault: Fault::Other, reason: reason.to_string() }
    }

    /// A file of the data folder that the system does not let us use.
    pub(crate) fn file(path: impl Into<PathBuf>, error: &io::Error) -> Self {
        Self::Home { path: path.into(), fault: Fault::of(error), reason: error.to_string() }
    }

    /// Whether the same may succeed later, without any change to what was asked.
    pub fn is_passing(&self) -> bool {
        matches!(
            self,
            Self::Home { .. } | Self::Database { .. } | Self::Newer { .. } | Self::Key(_) | Self::Served { .. }
        )
    }
}

/// Why there is no master key, or not the right one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// There are secrets, but no key.
    #[error("the master key {path:?} is missing, and there are secrets that only it can open")]
    Missing {
        /// Where it should be.
        path: PathBuf,
    },
    /// There are secrets that another key has sealed.
    #[error("the master key from {origin} is not the one that the stored secrets are sealed with")]
    Wrong {
        /// Where the key is from.
        origin: String,
    },
    /// It is no key.
    #[error("the master key from {origin} is not 64 hexadecimal digits")]
    Malformed {
        /// Where it is from.
        origin: String,
    },
    /// Others can read it.
    #[error("the master key {path:?} can be read by others (mode {mode:o})")]
    Exposed {
        /// Where it is.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// It cannot be read or made.
    #[error("the master key {path:?} cannot be used: {reason}")]
    Unusable {
        /// Where it should be.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

impl KeyError {
    /// The stable name of the kind of error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Missing { .. } => "key_missing",
            Self::Wrong { .. } => "key_wrong",
            Self::Malformed { .. } => "key_malformed",
            Self::Exposed { .. } => "key_exposed",
            Self::Unusable { .. } => "key_unusable",
        }
    }

    /// What can be done about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Missing { .. } | Self::Wrong { .. } => {
                "put the right key back, or delete the stored secrets and sign in again; nothing was changed"
            }
            Self::Malformed { .. } => "put the right key back; a new one is made by `openssl rand -hex 32`",
            Self::Exposed { path, .. } => return format!("run `chmod 600 {}`", path.display()),
            Self::Unusable { .. } => "look at the rights of the file and of its folder",
        }
        .to_owned()
    }
}
