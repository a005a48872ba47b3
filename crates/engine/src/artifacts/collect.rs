//! Collects the files that a run has left in `/artifacts`.
//!
//! The sandbox writes into a folder of its own, which is deleted with it. New and changed files are copied after a run,
//! because processes in the sandbox may still have them open, and become versions of artifacts.

use super::kind;
use crate::files::{Existing, FileError, FileInfo, FileKind, Listed, Quota, Stamp, Usages, WorkspaceFiles};
use coracle_store::NewArtifact;
use coracle_types::{ArtifactId, ExecutionId, SessionId};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Maximum number of files of one run that are kept.
const MAX_KEPT: usize = 256;
/// Size of the copy buffer.
const CHUNK: usize = 256 << 10;

/// The folder in which a sandbox writes its artifacts.
#[derive(Debug)]
pub(crate) struct ArtifactFolder {
    /// Path of the folder, which is deleted with the sandbox.
    scratch: PathBuf,
    /// Files of earlier runs, as they were then.
    seen: HashMap<String, Stamp>,
}

/// The files that a run has left.
#[derive(Debug)]
pub(crate) struct Left {
    files: WorkspaceFiles,
    changed: Vec<FileInfo>,
    /// Maximum size of the files of one run, in bytes.
    most: u64,
    /// Descriptions of files that cannot be kept.
    pub(crate) warnings: Vec<String>,
}

impl ArtifactFolder {
    pub(crate) fn new(scratch: PathBuf) -> Self {
        Self { scratch, seen: HashMap::new() }
    }

    /// Treats these files as new the next time.
    pub(crate) fn offer_again(&mut self, names: &[String]) {
        self.seen.retain(|name, _| !names.contains(name));
    }

    /// The files that were written since the last call, of which at most `most` bytes are kept; `None` if there are none.
    pub(crate) fn left(&mut self, most: u64) -> Result<Option<Left>, FileError> {
        // An empty folder may have been deleted already, with its sandbox.
        if !std::fs::read_dir(&self.scratch).is_ok_and(|mut entries| entries.next().is_some()) {
            return Ok(None);
        }
        let files = WorkspaceFiles::open(self.scratch.clone(), Quota::NONE, Usages::default())?;
        let list = files.list(".", Listed::Below)?;
        let mut left = Left { files, changed: Vec::new(), most, warnings: Vec::new() };
        let mut too_many = list.truncated;
        for file in list.files {
            match file.kind {
                FileKind::Folder => {}
                FileKind::Link | FileKind::Other => {
                    left.warn(&file.path, "it is not a regular file");
                }
                FileKind::File if self.seen.get(&file.path) == Some(&file.stamp) => {}
                FileKind::File if left.changed.len() >= MAX_KEPT => too_many = true,
                FileKind::File => {
                    self.seen.insert(file.path.clone(), file.stamp);
                    left.changed.push(file);
                }
            }
        }
        if too_many {
            let many = format!(
                "not all files in /artifacts were kept: at most {MAX_KEPT} of one run are, in folders that are not \
                 nested deeply and with names that are text; pack them into one archive"
            );
            left.warnings.push(many);
        }
        Ok((!left.changed.is_empty() || !left.warnings.is_empty()).then_some(left))
    }
}

/// The result of keeping the files of a run.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    /// Artifacts that were kept.
    pub(crate) artifacts: Vec<coracle_types::Artifact>,
    /// Warnings about the others.
    pub(crate) warnings: Vec<String>,
    /// Files that could not be kept through no fault of the code: the next run of the session tries again.
    pub(crate) again: Vec<String>,
}

/// The run whose files are kept.
#[derive(Clone, Debug)]
pub(crate) struct Author {
    pub(crate) execution: ExecutionId,
    pub(crate) session: Option<SessionId>,
}

impl Left {
    fn warn(&mut self, path: &str, reason: impl std::fmt::Display) {
        /// Maximum number of files that are named in a warning.
        const MAX_WARNINGS: usize = 10;
        if self.warnings.len() < MAX_WARNINGS {
            let path = crate::files::shown(path);
            self.warnings.push(format!("/artifacts/{path} was not kept as an artifact: {reason}"));
        }
    }

    /// Names of the files to keep.
    pub(crate) fn names(&self) -> Vec<String> {
        self.changed.iter().map(|file| file.path.clone()).collect()
    }

    /// Copies the files to the folder for artifacts, as long as they fit into `room` bytes.
    pub(crate) fn copy(mut self, kept: &Path, author: &Author, room: u64) -> (Vec<NewArtifact>, Taken) {
        let target = match WorkspaceFiles::open(kept.to_owned(), Quota::NONE, Usages::default()) {
            Ok(target) => target,
            Err(error) => {
                self.warnings.push(format!("artifacts were not kept: {error}"));
                let again = self.names();
                return (Vec::new(), Taken { warnings: self.warnings, again, ..Taken::default() });
            }
        };
        let (mut room, mut most) = (room, self.most);
        let (mut copied, mut again) = (Vec::new(), Vec::new());
        for file in std::mem::take(&mut self.changed) {
            // The length counts, not the disk use: a hole takes no space in a sandbox, but is read, hashed and returned.
            if file.bytes > most {
                let limit = self.most / 1_000_000;
                self.warn(&file.path, format!("all files of one run may have {limit} MB, holes in them included"));
                continue;
            }
            if file.bytes.max(coracle_store::LEAST_CHARGE) > room {
                self.warn(&file.path, FULL);
                continue;
            }
            match self.copy_one(&target, &file, author, room.min(most)) {
                Ok(new) => {
                    most = most.saturating_sub(new.bytes);
                    room = room.saturating_sub(new.charge());
                    copied.push(new);
                }
                Err(FileError::Full { .. }) => self.warn(&file.path, FULL),
                Err(error) => {
                    match error.hint() {
                        Some(hint) => self.warn(&file.path, format!("{error}; {hint}")),
                        None => self.warn(&file.path, &error),
                    }
                    again.push(file.path);
                }
            }
        }
        (copied, Taken { warnings: self.warnings, again, ..Taken::default() })
    }

    fn copy_one(
        &self,
        target: &WorkspaceFiles,
        file: &FileInfo,
        author: &Author,
        room: u64,
    ) -> Result<NewArtifact, FileError> {
        let (_, from) = self.files.open_file(&file.path)?;
        let mut to = target.begin(&super::place(&author.execution, &file.path), None, Existing::Replace)?;
        let (mut head, mut digest, mut length) = (Vec::new(), Sha256::new(), 0_u64);
        let mut chunk = vec![0; CHUNK];
        loop {
            let unreadable = |error: std::io::Error| FileError::failed(&file.path, "read", &error);
            let hole = data_after(&from, length).map_err(unreadable)? - length;
            let read = if hole == 0 {
                from.read_at(&mut chunk, length).map_err(unreadable)?
            } else {
                let zeros = chunk.len().min(usize::try_from(hole).unwrap_or(CHUNK));
                chunk[..zeros].fill(0);
                zeros
            };
            let bytes = chunk.get(..read).unwrap_or_default();
            if bytes.is_empty() {
                break;
            }
            length += read as u64;
            // It may grow while it is read.
            if length > room {
                return Err(FileError::Full { reason: FULL.to_owned() });
            }
            let more = kind::HEAD_BYTES - head.len();
            head.extend_from_slice(bytes.get(..more.min(bytes.len())).unwrap_or_default());
            digest.update(bytes);
            if hole == 0 {
                to.push(bytes)?;
            } else {
                to.skip(read as u64)?;
            }
        }
        to.finish()?;
        let whole = length == head.len() as u64;
        let mime = kind::mime(&file.path, &head, whole);
        Ok(NewArtifact {
            id: ArtifactId::from_random(random()),
            name: file.path.clone(),
            execution_id: author.execution.clone(),
            session: author.session.clone(),
            mime: mime.to_owned(),
            bytes: length,
            sha256: hex::encode(digest.finalize()),
            created_at: SystemTime::now(),
            preview: kind::preview(mime, &head, whole),
        })
    }
}

/// Position of the next data in a file, at or after this one; the end of the file if there is only a hole.
fn data_after(file: &File, place: u64) -> std::io::Result<u64> {
    match rustix::fs::seek(file, rustix::fs::SeekFrom::Data(place)) {
        Ok(data) => Ok(data.max(place)),
        Err(Errno::NXIO) => Ok(file.metadata()?.len().max(place)),
        // The file system does not support holes.
        Err(_) => Ok(place),
    }
}

/// Why a file is not kept if the limit is reached.
pub(crate) const FULL: &str = "all artifacts together would be more than artifacts.max_mb; delete some, or raise it";

/// Deletes a file that belongs to no artifact, or no longer.
pub(crate) fn discard(kept: &Path, execution: &ExecutionId, name: &str) {
    let discarded = WorkspaceFiles::open(kept.to_owned(), Quota::NONE, Usages::default()).and_then(|files| {
        files.delete(&super::place(execution, name), Listed::Here)?;
        // A folder is deleted with the last file in it.
        let mut folder = super::place(execution, name);
        while let Some((above, _)) = folder.rsplit_once('/') {
            if files.delete(above, Listed::Here).is_err() {
                break;
            }
            folder = above.to_owned();
        }
        Ok(())
    });
    match discarded {
        Ok(()) | Err(FileError::Missing { .. }) => {}
        Err(error) => tracing::warn!(%error, %execution, "a deleted artifact stays on the disk"),
    }
}

/// A random number; without a source of randomness, at least a different one each time.
fn random() -> u128 {
    let mut bytes = [0; 16];
    if getrandom::fill(&mut bytes).is_err() {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        return now.as_nanos();
    }
    u128::from_le_bytes(bytes)
}
