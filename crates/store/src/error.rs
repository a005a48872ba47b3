use crate::KeyError;
use std::fmt::Display;
use std::path::PathBuf;

/// Why the store did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The data folder or the database in it cannot be used.
    #[error("the data folder {path:?} cannot be used: {reason}")]
    Home {
        /// What could not be used.
        path: PathBuf,
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
    /// The database refused.
    #[error("the database failed to {doing}: {reason}")]
    Database {
        /// What it was to do.
        doing: &'static str,
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
            Self::Database { .. } => "store_database",
        }
    }

    /// What can be done about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Home { .. } => Some("name a folder that you may write to with CORACLE_HOME".to_owned()),
            Self::Newer { .. } => Some(
                "use the version of coracle that wrote it, or another data folder by CORACLE_HOME; nothing was changed"
                    .to_owned(),
            ),
            Self::Tampered { .. } => Some("delete the secret and sign in again".to_owned()),
            Self::Key(error) => Some(error.hint()),
            Self::Conflict { .. } => Some("read it again, merge, and write with the new version".to_owned()),
            Self::NoSession { .. } => Some("begin another session".to_owned()),
            Self::TooLarge { .. } | Self::InvalidName { .. } | Self::Damaged { .. } | Self::Database { .. } => None,
        }
    }

    pub(crate) fn home(path: impl Into<PathBuf>, reason: impl Display) -> Self {
        Self::Home { path: path.into(), reason: reason.to_string() }
    }
}
