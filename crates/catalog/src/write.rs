//! Writes the generated tree to disk: one folder per generation, named after a digest of its contents.

use crate::catalog::Catalog;
use crate::tree::{self, ROOT, Tree};
use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// The prefix of the folder of a generation.
const PREFIX: &str = "tools-";
/// A file beside [`ROOT`] that marks the modules as complete.
const COMPLETE: &str = "complete";

/// The tree cannot be written or removed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {}: {source}", path.display())]
pub struct WriteError {
    action: &'static str,
    path: PathBuf,
    source: io::Error,
}

impl WriteError {
    /// The stable error code.
    pub fn code(&self) -> &'static str {
        "catalog_files"
    }

    /// How to fix the error.
    pub fn hint(&self) -> Option<&'static str> {
        match self.source.kind() {
            io::ErrorKind::PermissionDenied => Some("the data folder must belong to the user who runs Coracle"),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Some("free up space on the disk of the data folder")
            }
            _ => None,
        }
    }
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> WriteError {
    let path = path.to_owned();
    move |source| WriteError { action, path, source }
}

/// Writes the tree below `dir`. Returns the folder that contains `servers`.
///
/// An existing tree is left alone. The tree is written to a temporary folder and renamed, so it is never visible
/// incompletely, and any number of processes may do this at once.
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
            // Another process was faster.
            if folder.is_dir() {
                leftover.map_err(failed("remove", &made))?;
                return Ok(folder);
            }
            Err(failed("write", &folder)(error))
        }
    }
}

/// The modules of a catalogue on disk, in a folder that is named after a digest of the definitions. They are written
/// server by server: each package appears complete, and the caller chooses which of them to wait for.
#[derive(Clone, Debug)]
pub struct Modules {
    dir: PathBuf,
    folder: PathBuf,
}

impl Modules {
    /// The location of the modules of these servers, below `dir`. Does not write anything.
    pub fn new(dir: &Path, catalog: &Catalog) -> Self {
        let folder = dir.join(format!("{PREFIX}{}", tree::digest(catalog.servers())));
        Self { dir: dir.to_owned(), folder }
    }

    /// The folder that holds [`ROOT`](crate::ROOT).
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether all modules exist.
    pub fn is_complete(&self) -> bool {
        self.folder.join(COMPLETE).is_file()
    }

    /// Writes the packages of the wanted servers, by name. Existing ones stay. Any number of processes may do this at
    /// once.
    pub fn write(&self, catalog: &Catalog, wanted: impl Fn(&str) -> bool) -> Result<(), WriteError> {
        let root = self.folder.join(ROOT);
        fs::create_dir_all(&root).map_err(failed("make", &root))?;
        for folder in [&self.folder, &root] {
            fs::set_permissions(folder, Permissions::from_mode(0o755)).map_err(failed("open", folder))?;
        }
        let (path, text) = tree::listing(catalog.servers());
        let listing = self.folder.join(&path);
        if !listing.is_file() {
            self.appear(&listing, &|aside| write_file(aside, &text))?;
        }
        tree::each_package(catalog.servers(), wanted, |name, tree| {
            let place = root.join(name);
            if place.is_dir() {
                return Ok(());
            }
            self.appear(&place, &|aside| {
                fs::create_dir(aside)?;
                fs::set_permissions(aside, Permissions::from_mode(0o755))?;
                for (path, text) in tree.files() {
                    let file = Path::new(path).file_name().unwrap_or_default();
                    write_file(&aside.join(file), text)?;
                }
                Ok(())
            })
        })
    }

    /// Writes the missing packages, and marks the modules as complete.
    pub fn complete(&self, catalog: &Catalog) -> Result<(), WriteError> {
        self.write(catalog, |_| true)?;
        let mark = self.folder.join(COMPLETE);
        if mark.is_file() { Ok(()) } else { self.appear(&mark, &|aside| write_file(aside, "")) }
    }

    /// Creates something under a temporary name and renames it to `place`, unless another process was faster.
    fn appear(&self, place: &Path, make: &dyn Fn(&Path) -> io::Result<()>) -> Result<(), WriteError> {
        let aside = tempfile::Builder::new().prefix(".making-").tempdir_in(&self.dir);
        let aside = aside.map_err(failed("write in", &self.dir))?;
        let made = aside.path().join("made");
        make(&made).map_err(failed("write", place))?;
        match fs::rename(&made, place) {
            Err(error) if !place.exists() => Err(failed("write", place)(error)),
            _ => Ok(()),
        }
    }
}

/// Writes a file that everyone can read and no one can write.
fn write_file(path: &Path, text: &str) -> io::Result<()> {
    let mut file = File::create_new(path)?;
    file.write_all(text.as_bytes())?;
    file.set_permissions(Permissions::from_mode(0o444))
}

/// Makes folders readable: when Coracle runs as root, sandboxes read them as another user, whatever the umask.
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

/// Removes every generation below `dir` except those in `keep`. Other files stay.
///
/// Sandboxes use a generation only through their mounts, so remove one only when no sandbox uses it.
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
            // Another process has removed it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed("remove", &path)(error)),
        }
    }
    Ok(removed)
}
