//! The tree on disk: one folder for each generation, named after what is in it.

use crate::catalog::Catalog;
use crate::tree::{self, ROOT, Tree};
use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// How the name of every generation begins.
const PREFIX: &str = "tools-";
/// A file beside [`ROOT`] that says that all modules are there.
const COMPLETE: &str = "complete";

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

/// The modules of a catalogue on disk, in a folder that is named after the definitions. They are written server by
/// server: each package appears whole, and which of them are waited for is the caller's choice.
#[derive(Clone, Debug)]
pub struct Modules {
    dir: PathBuf,
    folder: PathBuf,
}

impl Modules {
    /// Where the modules of these servers belong, below `dir`. Writes nothing.
    pub fn new(dir: &Path, catalog: &Catalog) -> Self {
        let folder = dir.join(format!("{PREFIX}{}", tree::digest(catalog.servers())));
        Self { dir: dir.to_owned(), folder }
    }

    /// The folder that holds [`ROOT`](crate::ROOT).
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether all of them are there.
    pub fn is_complete(&self) -> bool {
        self.folder.join(COMPLETE).is_file()
    }

    /// Writes the packages of the servers that are wanted, by name; those that are there stay. Any number of processes may
    /// do this at once.
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

    /// Writes what is missing, and says that nothing is.
    pub fn complete(&self, catalog: &Catalog) -> Result<(), WriteError> {
        self.write(catalog, |_| true)?;
        let mark = self.folder.join(COMPLETE);
        if mark.is_file() { Ok(()) } else { self.appear(&mark, &|aside| write_file(aside, "")) }
    }

    /// Makes something aside and puts it in its place, unless somebody else was faster.
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
