//! The files of a log.
//!
//! ```text
//! CORACLE_HOME/audit/         0700
//!   head                      0600  where the log ends; written in place
//!   lock                      0600  locked while records are appended
//!   log-<first seq>.jsonl     0600  records, one per line
//! ```
//!
//! A backup copies the files in the order of their names: the head first, so that the segments reach at least as far.

use crate::AuditError;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const PREFIX: &str = "log-";
const SUFFIX: &str = ".jsonl";

/// The folder of a log.
#[derive(Clone, Debug)]
pub(crate) struct Folder {
    path: PathBuf,
}

impl Folder {
    pub(crate) fn new(home: &Path) -> Self {
        Self { path: home.join("audit") }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn head(&self) -> PathBuf {
        self.path.join("head")
    }

    pub(crate) fn segment(&self, first: u64) -> PathBuf {
        self.path.join(segment_name(first))
    }

    /// The folder of a log that is being created by this process.
    pub(crate) fn unfinished(&self) -> Self {
        Self { path: self.path.with_extension(format!("new-{}", std::process::id())) }
    }

    /// A folder for a log that is set aside.
    pub(crate) fn aside(&self, name: &str) -> PathBuf {
        self.path.with_extension(name)
    }

    pub(crate) fn make(&self) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.path)
    }

    /// Opens the file that is locked while the log is changed.
    pub(crate) fn lock(&self) -> Result<File, AuditError> {
        private().create(true).truncate(false).open(self.path.join("lock")).map_err(self.written())
    }

    /// The numbers of the first records of all segments, in order.
    pub(crate) fn segments(&self) -> io::Result<Vec<u64>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let name = entry?.file_name();
            let first = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?.parse().ok());
            found.extend(first.filter(|first| name.to_str() == Some(&segment_name(*first))));
        }
        found.sort_unstable();
        Ok(found)
    }

    /// Makes the names of files durable.
    pub(crate) fn sync(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }

    /// Makes the name of the folder durable.
    pub(crate) fn sync_parent(&self) -> io::Result<()> {
        self.path.parent().map_or(Ok(()), |parent| File::open(parent)?.sync_all())
    }

    pub(crate) fn written(&self) -> impl Fn(io::Error) -> AuditError + use<> {
        let folder = self.path.clone();
        move |error| AuditError::File { folder: folder.clone(), doing: "written", error }
    }

    pub(crate) fn read(&self) -> impl Fn(io::Error) -> AuditError + use<> {
        let folder = self.path.clone();
        move |error| AuditError::File { folder: folder.clone(), doing: "read", error }
    }

    pub(crate) fn damaged(&self, reason: impl Into<String>) -> AuditError {
        AuditError::Damaged { folder: self.path.clone(), reason: reason.into() }
    }
}

pub(crate) fn segment_name(first: u64) -> String {
    format!("{PREFIX}{first:020}{SUFFIX}")
}

/// Options of a file that only its owner may read.
pub(crate) fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    options
}

/// Whether this file is still the one with this path. Returns the length of the file if so.
pub(crate) fn current_length(file: &File, path: &Path) -> io::Result<Option<u64>> {
    let named = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        found => found?,
    };
    let own = file.metadata()?;
    Ok((own.dev() == named.dev() && own.ino() == named.ino()).then_some(own.len()))
}

/// Identifies the time since the machine was started: what was written since then is still there.
pub(crate) fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").map(|id| id.trim().to_owned()).unwrap_or_default()
}
