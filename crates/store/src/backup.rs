//! Backs up the data folder to one file, and restores it.
//!
//! The file is a tar archive: first `manifest.json`, then a snapshot of the database, then everything else in the data
//! folder as it is read, then `end.json`, without which the file is incomplete. Files that are recreated when they are
//! missing (`run`, `cache`, `environments`) are left out.
//!
//! The master key is included only on request. Without it, every file of the data folder that does not belong to users
//! (`workspaces`, `blobs`) may hold a credential, like `.env` and `coracle.yaml`. Such files are below `sealed/` in the
//! archive, encrypted with the master key.
//!
//! Trust boundary: workspaces may be hostile while they are read, and an archive may be hostile when it is restored.

mod read;
mod user;
mod write;

use crate::StoreError;
use crate::home::IN_USE;
pub use read::{Restored, restore, restore_with_key};
use serde::{Deserialize, Serialize};
use std::fmt::Display;
use std::path::{Path, PathBuf};
pub use user::UserArchive;
pub use write::{BackedUp, backup};

/// Files and folders that are not part of a backup: recreated when they are missing, or created by a restore.
const LEFT_OUT: [&str; 6] = ["run", "cache", "store", "environments", "clients", IN_USE];
/// The prefix of folders to which a restore moves existing data.
const BEFORE: &str = "before-restore-";
/// The prefix of folders in which a restore stages its data until it is complete.
const STAGING: &str = ".restore-";

const MANIFEST: &str = "manifest.json";
const DATABASE: &str = "store/coracle.db";
const KEY: &str = "master.key";
const WORKSPACES: &str = "workspaces";
const BLOBS: &str = "blobs";
const END: &str = "end.json";
/// The folder for encrypted files, in an archive without the master key.
const SEALED: &str = "sealed";
/// The maximum size of a file that is encrypted. Longer files are left out of an archive without the key.
const MAX_SEALED: u64 = 16 << 20;

/// The key of a sparse file's map, in the extended header of an archive.
const SPARSE: &str = "CORACLE.sparse";

/// The version of the archive format.
const FORMAT: u32 = 1;

/// The first entry of a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Manifest {
    format: u32,
    /// The version of Coracle that wrote the backup.
    coracle: String,
    /// The schema version of the database.
    schema: i64,
    /// When the backup was made, in milliseconds since 1970.
    made_at: i64,
    database_bytes: u64,
    database_sha256: String,
    with_key: bool,
}

/// The last entry of a backup.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct End {
    files: u64,
    bytes: u64,
    skipped: Vec<String>,
}

/// Why a backup or a restore failed.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// A file or folder cannot be used.
    #[error("{path:?} cannot be used: {reason}")]
    File {
        /// The file or folder.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The destination already exists.
    #[error("{path:?} already exists")]
    Exists {
        /// The destination.
        path: PathBuf,
    },
    /// Another process uses the data folder.
    #[error("the data folder {path:?} is in use by another coracle")]
    InUse {
        /// The data folder.
        path: PathBuf,
    },
    /// The file is not a backup, or is incomplete or malicious.
    #[error("{path:?} is not a backup that can be restored: {reason}")]
    NoBackup {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The backup was written by a later version of Coracle.
    #[error("the backup {path:?} was made by coracle {by} and has schema version {found}; this version knows {known}")]
    Newer {
        /// The file.
        path: PathBuf,
        /// The version of Coracle that wrote it.
        by: String,
        /// The schema version of the backup.
        found: i64,
        /// The newest schema version that this version supports.
        known: i64,
    },
    /// An error of the database.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl BackupError {
    /// The stable error code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::File { .. } => "backup_file",
            Self::Exists { .. } => "backup_exists",
            Self::InUse { .. } => "backup_in_use",
            Self::NoBackup { .. } => "backup_invalid",
            Self::Newer { .. } => "backup_newer",
            Self::Store(error) => error.code(),
        }
    }

    /// How to fix the error.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::File { .. } => return None,
            Self::Exists { .. } => {
                "choose another path, or use --force: a file is then replaced, and data is moved aside".to_owned()
            }
            Self::InUse { .. } => "stop it first; nothing was changed".to_owned(),
            Self::NoBackup { .. } => "nothing was changed".to_owned(),
            Self::Newer { .. } => "use a version of coracle that is at least as new; nothing was changed".to_owned(),
            Self::Store(error) => return error.hint(),
        })
    }

    fn file(path: impl Into<PathBuf>, reason: impl Display) -> Self {
        Self::File { path: path.into(), reason: reason.to_string() }
    }

    fn invalid(path: &Path, reason: impl Display) -> Self {
        Self::NoBackup { path: path.to_owned(), reason: reason.to_string() }
    }
}
