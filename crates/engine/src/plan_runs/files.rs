//! Files in plans: code works on a copy of the workspace, and what it changes there becomes part of the plan.
//!
//! Trust boundary: both workspaces are hostile. No link is followed, and everything has limits.

use crate::files::{Existing, FileError, FileInfo, FileKind, Listed, WorkspaceFiles};
use crate::plans::FileEffect;
use crate::workspace::OUTPUT_FOLDER;
use coracle_types::FileChange;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

/// Maximum number of entries of a workspace that can be copied.
pub(super) const MAX_ENTRIES: usize = 20_000;
/// Maximum number of changed files in a plan.
const MAX_CHANGES: usize = 1_000;
/// Maximum size of the changed files that a plan keeps.
const MAX_KEPT_BYTES: u64 = 256 << 20;
/// Length of a part of a file that is read at once.
const CHUNK: usize = 64 << 10;

/// Why a workspace cannot be copied, or changes cannot be kept.
#[derive(Debug, thiserror::Error)]
pub(super) enum CopyError {
    #[error("the workspace has more than {MAX_ENTRIES} files and folders, or some that cannot be read")]
    TooMany,
    #[error("the workspace is larger than {0} bytes")]
    TooLarge(u64),
    #[error(transparent)]
    File(#[from] FileError),
    #[error("cannot copy the workspace: {0}")]
    Io(#[from] io::Error),
}

/// Whether Coracle itself writes the entry.
fn is_own(info: &FileInfo) -> bool {
    let is_log = |name: &str| name == "current_session.json" || name.starts_with("session_");
    match info.path.split_once('/') {
        None => match info.kind {
            FileKind::Link => matches!(info.path.as_str(), "servers" | "skills"),
            FileKind::Folder => matches!(info.path.as_str(), OUTPUT_FOLDER | "sessions"),
            FileKind::File | FileKind::Other => false,
        },
        Some((OUTPUT_FOLDER, _)) => true,
        Some(("sessions", name)) => is_log(name),
        Some(_) => false,
    }
}

/// The entries of a workspace that count, except folders, and their versions.
fn versions(entries: &[FileInfo]) -> BTreeMap<String, String> {
    let counted = entries.iter().filter(|info| info.kind != FileKind::Folder && !is_own(info));
    counted.map(|info| (info.path.clone(), info.version().to_string())).collect()
}

fn entries(files: &WorkspaceFiles) -> Result<Vec<FileInfo>, CopyError> {
    let list = files.list_up_to("", Listed::Below, MAX_ENTRIES)?;
    if list.truncated {
        return Err(CopyError::TooMany);
    }
    Ok(list.files)
}

/// The versions of the files of a workspace as it is now.
pub(super) fn fingerprint(files: &WorkspaceFiles) -> Result<BTreeMap<String, String>, CopyError> {
    Ok(versions(&entries(files)?))
}

/// Copies a workspace to an empty folder that only this process uses. Returns the versions of the files as they were
/// before.
pub(super) fn copy(from: &WorkspaceFiles, to: &Path, most: u64) -> Result<BTreeMap<String, String>, CopyError> {
    let entries = entries(from)?;
    let bytes = entries.iter().fold(0_u64, |sum, info| sum.saturating_add(info.bytes));
    if bytes > most {
        return Err(CopyError::TooLarge(most));
    }
    for info in &entries {
        let place = to.join(&info.path);
        match info.kind {
            FileKind::Folder => fs::create_dir(&place)?,
            FileKind::File => {
                let (_, mut opened) = from.open_file(&info.path)?;
                let mode = opened.metadata()?.permissions().mode() & 0o700 | 0o600;
                let mut fresh = File::create_new(&place)?;
                fresh.set_permissions(Permissions::from_mode(mode))?;
                // Shares the content on file systems that can.
                io::copy(&mut Read::take(&mut opened, info.bytes), &mut fresh)?;
            }
            FileKind::Link => symlink(from.link(&info.path)?, &place)?,
            FileKind::Other => {}
        }
    }
    Ok(versions(&entries))
}

/// What code has changed in a copy whose files had the versions `before`. New content is kept in `kept`, by number.
pub(super) fn changes(
    copy: &WorkspaceFiles,
    original: &WorkspaceFiles,
    before: &BTreeMap<String, String>,
    kept: &Path,
    first: u64,
) -> Result<Vec<FileEffect>, CopyError> {
    let now = entries(copy)?;
    let versions_now = versions(&now);
    let mut changes = Vec::new();
    let mut left = MAX_KEPT_BYTES;
    let mut add = |path: &str, change, bytes, digest, blocked: Option<String>| {
        let number = first + changes.len() as u64;
        changes.push(FileEffect { number, path: path.to_owned(), change, bytes, digest, blocked });
    };
    let counted = now.iter().filter(|info| info.kind != FileKind::Folder && !is_own(info));
    let mut count = 0_usize;
    for info in counted.filter(|info| before.get(&info.path) != versions_now.get(&info.path)) {
        let change = if before.contains_key(&info.path) { FileChange::Changed } else { FileChange::Created };
        if info.kind != FileKind::File {
            add(&info.path, change, 0, None, Some("it is no file, but a link, a pipe or a socket".to_owned()));
            continue;
        }
        let digest = content(copy, &info.path, None)?;
        if change == FileChange::Changed && content(original, &info.path, None).ok().as_ref() == Some(&digest) {
            continue;
        }
        count += 1;
        if count > MAX_CHANGES || info.bytes > left {
            let why = format!("a plan has at most {MAX_CHANGES} changed files of {MAX_KEPT_BYTES} bytes in all");
            add(&info.path, change, info.bytes, None, Some(why));
            continue;
        }
        left -= info.bytes;
        add(&info.path, change, info.bytes, Some(digest), None);
    }
    for path in before.keys().filter(|path| !versions_now.contains_key(*path)) {
        add(path, FileChange::Deleted, 0, None, None);
    }
    for change in changes.iter().filter(|change| change.digest.is_some()) {
        fs::create_dir_all(kept)?;
        content(copy, &change.path, Some(&kept.join(change.number.to_string())))?;
    }
    Ok(changes)
}

/// The digest of a file, which is copied, if there is a place for it.
fn content(files: &WorkspaceFiles, path: &str, to: Option<&Path>) -> Result<String, CopyError> {
    let (_, mut opened) = files.open_file(path)?;
    let mut copied = to.map(File::create_new).transpose()?;
    let (mut hash, mut chunk) = (Sha256::new(), vec![0; CHUNK]);
    loop {
        let length = opened.read(&mut chunk)?;
        let Some(read) = chunk.get(..length).filter(|read| !read.is_empty()) else { break };
        hash.update(read);
        if let Some(copied) = &mut copied {
            copied.write_all(read)?;
        }
    }
    if let Some(copied) = copied {
        copied.sync_all()?;
    }
    Ok(hex::encode(hash.finalize()))
}

/// Makes a change in the workspace.
pub(super) fn apply(files: &WorkspaceFiles, change: &FileEffect, kept: &Path) -> Result<(), CopyError> {
    if change.change == FileChange::Deleted {
        return Ok(files.delete(&change.path, Listed::Here)?);
    }
    let damaged = || io::Error::new(io::ErrorKind::InvalidData, "the kept content of the file is damaged");
    let mut content = File::open(kept.join(change.number.to_string()))?;
    let mut hash = Sha256::new();
    io::copy(&mut content, &mut HashWriter(&mut hash))?;
    if Some(hex::encode(hash.finalize())) != change.digest {
        return Err(damaged().into());
    }
    let mut content = File::open(kept.join(change.number.to_string()))?;
    let mut unfinished = files.begin(&change.path, Some(change.bytes), Existing::Replace)?;
    let mut chunk = vec![0; CHUNK];
    loop {
        let length = content.read(&mut chunk)?;
        let Some(read) = chunk.get(..length).filter(|read| !read.is_empty()) else { break };
        unfinished.push(read)?;
    }
    unfinished.finish()?;
    Ok(())
}

struct HashWriter<'a>(&'a mut Sha256);

impl Write for HashWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
