use coracle_store::{KeyError, StoreError};
use std::io;
use std::path::PathBuf;

/// Why the audit log cannot be written or read. All of them prevent that anything is called.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// A file of the log cannot be read or written.
    #[error("the audit log in {folder:?} cannot be {doing}: {error}")]
    File {
        /// The folder of the log.
        folder: PathBuf,
        /// What failed: "written" or "read".
        doing: &'static str,
        /// The reason.
        error: io::Error,
    },
    /// Another process holds the lock for too long.
    #[error("the audit log in {folder:?} cannot be written: another process has locked it for a long time")]
    Locked {
        /// The folder of the log.
        folder: PathBuf,
    },
    /// There is no log, although there was one.
    #[error("the audit log in {folder:?} is missing: it had at least {records} records")]
    Missing {
        /// The folder of the log.
        folder: PathBuf,
        /// The number of its last record that is remembered.
        records: u64,
    },
    /// There is no log yet.
    #[error("there is no audit log in {folder:?} yet")]
    NotCreated {
        /// The folder of the log.
        folder: PathBuf,
    },
    /// The log is not as it was left.
    #[error("the audit log in {folder:?} was changed or is damaged: {reason}")]
    Damaged {
        /// The folder of the log.
        folder: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The log was written with another master key.
    #[error("the audit log in {folder:?} was written with another master key")]
    WrongKey {
        /// The folder of the log.
        folder: PathBuf,
    },
    /// The key of the log cannot be derived.
    #[error("the audit log cannot be used: {0}")]
    Key(#[from] KeyError),
    /// The store that remembers the log cannot be used.
    #[error("the audit log cannot be used: {0}")]
    Store(#[from] StoreError),
}

impl AuditError {
    /// Stable error code.
    pub fn code(&self) -> &'static str {
        "audit_unavailable"
    }

    /// How to fix the error.
    pub fn hint(&self) -> String {
        match self {
            Self::File { doing: "written", folder, .. } => {
                format!("make room on the disk and check the permissions of {}", folder.display())
            }
            Self::File { folder, .. } => format!("check the permissions of {}", folder.display()),
            Self::Locked { .. } => "end the process that hangs, and try again".to_owned(),
            Self::Missing { .. } => {
                "put the folder back from a backup, or accept the loss with `coracle audit restart`".to_owned()
            }
            Self::NotCreated { .. } => "it is created with the first record".to_owned(),
            Self::Damaged { .. } => {
                "find out more with `coracle audit verify`, then set the log aside with `coracle audit restart`"
                    .to_owned()
            }
            Self::WrongKey { .. } => {
                "put the right master key back, or set the log aside with `coracle audit restart`".to_owned()
            }
            Self::Key(error) => error.hint(),
            Self::Store(error) => error.hint().unwrap_or_else(|| "check the data folder (CORACLE_HOME)".to_owned()),
        }
    }
}
