//! The data folder in one file, and back.
//!
//! The file is a tar archive: `manifest.json` first, then the database as it was at one moment, then everything else of the
//! data folder as it is read, then `end.json`, without which a file is not whole. What is made anew by itself (`run`,
//! `cache`, `environments`) is left out.
//!
//! The master key comes along only if that is asked for. Without it, every file of the data folder that is not the users'
//! own (`workspaces`, `blobs`) may hold a credential, as `.env` and `coracle.yaml` do: it is below `sealed/` in the archive,
//! encrypted with the master key.
//!
//! Trust boundary: workspaces are hostile while they are read, and an archive is hostile when it is read back.

mod read;
mod write;

use crate::StoreError;
use crate::home::IN_USE;
pub use read::{Restored, restore, restore_with_key};
use serde::{Deserialize, Serialize};
use std::fmt::Display;
use std::path::{Path, PathBuf};
pub use write::{BackedUp, backup};

/// Files and folders of the data folder that are no part of a backup: made anew by themselves, or put there by a restore.
const LEFT_OUT: [&str; 6] = ["run", "cache", "store", "environments", "clients", IN_USE];
/// Where a restore puts what was there before.
const BEFORE: &str = "before-restore-";
/// Where a restore puts what it reads, until all of it is there.
const STAGING: &str = ".restore-";

const MANIFEST: &str = "manifest.json";
const DATABASE: &str = "store/coracle.db";
const KEY: &str = "master.key";
const WORKSPACES: &str = "workspaces";
const BLOBS: &str = "blobs";
const END: &str = "end.json";
/// Where an archive without the master key has files that may hold credentials.
const SEALED: &str = "sealed";
/// A longer file is not sealed, and so not in an archive without the key.
const MAX_SEALED: u64 = 16 << 20;

/// The name of a file with its holes, in the extended header of an archive.
const SPARSE: &str = "CORACLE.sparse";

/// The version of the file.
const FORMAT: u32 = 1;

/// The first entry of a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Manifest {
    format: u32,
    /// The version of Coracle that made it.
    coracle: String,
    /// The version of the schema of the database.
    schema: i64,
    /// In milliseconds since 1970.
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

/// Why a data folder was not written into a file, or not read from one.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// A file or folder cannot be used.
    #[error("{path:?} cannot be used: {reason}")]
    File {
        /// Which one.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// There is something in the place of what was to be written.
    #[error("{path:?} already exists")]
    Exists {
        /// Which one.
        path: PathBuf,
    },
    /// Somebody works in the data folder.
    #[error("the data folder {path:?} is in use by another coracle")]
    InUse {
        /// Which one.
        path: PathBuf,
    },
    /// It is none of our files, or not whole, or it means harm.
    #[error("{path:?} is not a backup that can be restored: {reason}")]
    NoBackup {
        /// Which one.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A later version of Coracle has written it.
    #[error("the backup {path:?} was made by coracle {by} and has schema version {found}; this version knows {known}")]
    Newer {
        /// Which one.
        path: PathBuf,
        /// Who made it.
        by: String,
        /// Its version.
        found: i64,
        /// The newest version that is known here.
        known: i64,
    },
    /// The database.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl BackupError {
    /// The stable name of the kind of error.
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

    /// What can be done about it.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::File { .. } => return None,
            Self::Exists { .. } => {
                "name another one, or give --force: a file is then replaced, and data is moved aside".to_owned()
            }
            Self::InUse { .. } => "stop it first; nothing was changed".to_owned(),
            Self::NoBackup { .. } => "nothing was changed".to_owned(),
            Self::Newer { .. } => "use a coracle that is at least as new; nothing was changed".to_owned(),
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
