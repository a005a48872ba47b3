//! The tree on disk: one folder for each generation, named after what is in it.

use crate::tree::Tree;
use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// How the name of every generation begins.
const PREFIX: &str = "tools-";

/// The tree could not be written or removed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {}: {source}", path.display())]
pub struct WriteError {
    action: &'static str,
    path: PathBuf,
    source: io::Error,
}

impl WriteError {
    /// Stable, for programs.
    pub fn code(&self) -> &'static str {
        "catalog_files"
    }

    /// What may help.
    pub fn hint(&self) -> Option<&'static str> {
        match self.source.kind() {
            io::ErrorKind::PermissionDenied => Some("the data folder must belong to the user who runs Coracle"),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Some("make room on the disk of the data folder")
            }
            _ => None,
        }
    }
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> WriteError {
    let path = path.to_owned();
    move |source| WriteError { action, path, source }
}

/// Writes the tree below `dir` and gives the folder that holds it, which has `servers` in it.
///
/// A tree that is there already is left alone. It is made aside and renamed, so that nobody ever sees half of it, and
/// any number of processes may do this at once.
pub fn write_tree(dir: &Path, tree: &Tree) -> Result<PathBuf, WriteError> {
    let folder = dir.join(format!("{PREFIX}{}", tree.digest()));
    if folder.is_dir() {
        return Ok(folder);
    }
    fs::create_dir_all(dir).map_err(failed("make", dir))?;
    let aside = tempfile::Builder::new().prefix(".making-").tempdir_in(dir).map_err(failed("write in", dir))?;
    let mut made: Option<PathBuf> = None;
    for (path, text) in tree.files() {
        let file = aside.path().join(path);
        let parent = file.parent().unwrap_or(aside.path());
        if made.as_deref() != Some(parent) {
            fs::create_dir_all(parent).map_err(failed("make", parent))?;
            made = Some(parent.to_owned());
        }
        write_file(&file, text).map_err(failed("write", &file))?;
    }
    open_folders(aside.path())?;
    let made = aside.keep();
    match fs::rename(&made, &folder) {
        Ok(()) => Ok(folder),
        Err(error) => {
            let leftover = fs::remove_dir_all(&made);
            // Somebody else was faster.
            if folder.is_dir() {
                leftover.map_err(failed("remove", &made))?;
                return Ok(folder);
            }
            Err(failed("write", &folder)(error))
        }
    }
}

/// A file that everybody may read and nobody write.
fn write_file(path: &Path, text: &str) -> io::Result<()> {
    let mut file = File::create_new(path)?;
    file.write_all(text.as_bytes())?;
    file.set_permissions(Permissions::from_mode(0o444))
}

/// Sandboxes of a root's Coracle read these as another user, whatever the umask.
fn open_folders(folder: &Path) -> Result<(), WriteError> {
    fs::set_permissions(folder, Permissions::from_mode(0o755)).map_err(failed("open", folder))?;
    for entry in fs::read_dir(folder).map_err(failed("list", folder))? {
        let entry = entry.map_err(failed("list", folder))?;
        if entry.file_type().map_err(failed("list", folder))?.is_dir() {
            open_folders(&entry.path())?;
        }
    }
    Ok(())
}

/// Removes every generation below `dir` but those in `keep`. What others wrote there stays.
///
/// Sandboxes that use a generation keep it open only through their mounts: remove one when nothing runs on it.
pub fn remove_trees(dir: &Path, keep: &[&Path]) -> Result<usize, WriteError> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(failed("list", dir)(error)),
    };
    let mut removed = 0;
    for entry in entries {
        let entry = entry.map_err(failed("list", dir))?;
        let path = entry.path();
        let is_ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        if !is_ours || keep.contains(&path.as_path()) {
            continue;
        }
        match fs::remove_dir_all(&path) {
            Ok(()) => removed += 1,
            // Somebody else removes it too.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed("remove", &path)(error)),
        }
    }
    Ok(removed)
}
