//! Takes over what a run has left in `/artifacts`.
//!
//! The sandbox writes into a folder of its own, which goes with it. What is new or changed in it after a run is copied
//! out, since somebody in the sandbox may still have it open, and becomes a version of the artifact of its name.

use super::kind;
use crate::files::{Existing, FileError, FileInfo, FileKind, Listed, Quota, Stamp, Usages, WorkspaceFiles};
use coracle_store::NewArtifact;
use coracle_types::{ArtifactId, ExecutionId, SessionId};
use sha2::{Digest as _, Sha256};
use std::collections::HashMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// So many files of one run are taken over.
const MAX_KEPT: usize = 256;
/// How much is copied at once.
const CHUNK: usize = 256 << 10;

/// Where a sandbox writes its artifacts.
#[derive(Debug)]
pub(crate) struct ArtifactFolder {
    /// Given by the sandbox; goes with it.
    scratch: PathBuf,
    /// What earlier runs have left, as it was then.
    seen: HashMap<String, Stamp>,
}

/// What a run has left.
#[derive(Debug)]
pub(crate) struct Left {
    files: WorkspaceFiles,
    changed: Vec<FileInfo>,
    /// What cannot be taken over, in words.
    pub(crate) warnings: Vec<String>,
}

impl ArtifactFolder {
    pub(crate) fn new(scratch: PathBuf) -> Self {
        Self { scratch, seen: HashMap::new() }
    }

    /// What was written since it was last asked; `None` if there is nothing.
    pub(crate) fn left(&mut self) -> Result<Option<Left>, FileError> {
        // An empty folder may be gone already, with its sandbox.
        if !std::fs::read_dir(&self.scratch).is_ok_and(|mut entries| entries.next().is_some()) {
            return Ok(None);
        }
        let files = WorkspaceFiles::open(self.scratch.clone(), Quota::NONE, Usages::default())?;
        let list = files.list(".", Listed::Below)?;
        let mut left = Left { files, changed: Vec::new(), warnings: Vec::new() };
        let mut too_many = list.truncated;
        for file in list.files {
            match file.kind {
                FileKind::Folder => {}
                FileKind::Link | FileKind::Other => {
                    left.warn(&file.path, "it is no regular file");
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

/// A run whose files are taken over.
#[derive(Clone, Debug)]
pub(crate) struct Author {
    pub(crate) execution: ExecutionId,
    pub(crate) session: Option<SessionId>,
}

impl Left {
    fn warn(&mut self, path: &str, reason: impl std::fmt::Display) {
        /// So many are told one by one.
        const MAX_WARNINGS: usize = 10;
        if self.warnings.len() < MAX_WARNINGS {
            let path = crate::files::shown(path);
            self.warnings.push(format!("/artifacts/{path} was not kept as an artifact: {reason}"));
        }
    }

    /// Copies the files to where artifacts are kept, as long as there is room for so many bytes.
    pub(crate) fn copy(mut self, kept: &Path, author: &Author, room: u64) -> (Vec<NewArtifact>, Vec<String>) {
        let target = match WorkspaceFiles::open(kept.to_owned(), Quota::NONE, Usages::default()) {
            Ok(target) => target,
            Err(error) => {
                self.warnings.push(format!("artifacts were not kept: {error}"));
                return (Vec::new(), self.warnings);
            }
        };
        let mut room = room;
        let mut copied = Vec::new();
        for file in std::mem::take(&mut self.changed) {
            if file.bytes.max(coracle_store::LEAST_CHARGE) > room {
                self.warn(&file.path, FULL);
                continue;
            }
            match self.copy_one(&target, &file, author, room) {
                Ok(new) => {
                    room = room.saturating_sub(new.charge());
                    copied.push(new);
                }
                Err(FileError::Full { .. }) => self.warn(&file.path, FULL),
                Err(error) => self.warn(&file.path, error),
            }
        }
        (copied, self.warnings)
    }

    fn copy_one(
        &self,
        target: &WorkspaceFiles,
        file: &FileInfo,
        author: &Author,
        room: u64,
    ) -> Result<NewArtifact, FileError> {
        let (_, mut from) = self.files.open_file(&file.path)?;
        let mut to = target.begin(&super::place(&author.execution, &file.path), None, Existing::Replace)?;
        let (mut head, mut digest, mut length) = (Vec::new(), Sha256::new(), 0_u64);
        let mut chunk = vec![0; CHUNK];
        loop {
            let read = from.read(&mut chunk).map_err(|error| FileError::failed(&file.path, "read", &error))?;
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
            to.push(bytes)?;
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

/// What is said to whoever has no room left.
pub(crate) const FULL: &str = "all artifacts together would be more than artifacts.max_mb; delete some, or raise it";

/// A file that belongs to no artifact any more, or never did.
pub(crate) fn discard(kept: &Path, execution: &ExecutionId, name: &str) {
    let discarded = WorkspaceFiles::open(kept.to_owned(), Quota::NONE, Usages::default()).and_then(|files| {
        files.delete(&super::place(execution, name), Listed::Here)?;
        // Folders go with the last file in them.
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

/// Unguessable; where the system gives no randomness, at least another each time.
fn random() -> u128 {
    let mut bytes = [0; 16];
    if getrandom::fill(&mut bytes).is_err() {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        return now.as_nanos();
    }
    u128::from_le_bytes(bytes)
}
