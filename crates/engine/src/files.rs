//! A user's workspace from outside of a sandbox, for tools that read, write, list, move and delete files in it.
//!
//! The content was written by code, so all of it is hostile. The kernel resolves every path from the descriptor of the
//! workspace, beneath it and without following links (`openat2`). Only regular files are read and replaced, and opening a
//! pipe does not block. A file is written completely or not at all, is on disk when the write returns, and belongs to
//! the owner of the workspace, so that code can change it. A file with several hard links is read like any other: a
//! sandbox can only link files of its own workspace, and since a write replaces the file, other links do not change.

mod error;
mod path;
mod quota;
mod write;

pub use error::FileError;
pub(crate) use error::shown;
pub use quota::Quota;
pub(crate) use quota::Usages;
pub use write::Unfinished;

use coracle_sandbox::{FolderUsage, remove_folder};
use path::{InWorkspace, SEEN_AT, UNFINISHED};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, RenameFlags, ResolveFlags, Stat};
use rustix::io::Errno;
use serde::Serialize;
use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, SystemTime};

/// Maximum number of entries in a list.
pub const MAX_ENTRIES: usize = 1_000;

/// Maximum depth of folders in a list.
const MAX_LISTED_DEPTH: usize = 32;

/// Kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FileKind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link, which is never followed.
    Link,
    /// A pipe or a socket.
    Other,
}

/// An entry of a workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileInfo {
    /// Path, relative to the workspace.
    pub path: String,
    /// Kind of the entry.
    pub kind: FileKind,
    /// Length of a file; zero for anything else.
    pub bytes: u64,
    /// Time of the last write, in milliseconds since 1970.
    pub modified_ms: u64,
    /// Differs if the file was changed or replaced.
    #[serde(skip)]
    pub(crate) stamp: Stamp,
}

/// The inode, and when it last changed according to the file system. Code cannot set either.
pub(crate) type Stamp = (i64, u64, u64);

impl FileInfo {
    fn new(path: &InWorkspace, stat: &Stat) -> Self {
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => FileKind::File,
            FileType::Directory => FileKind::Folder,
            FileType::Symlink => FileKind::Link,
            _ => FileKind::Other,
        };
        let bytes = if kind == FileKind::File { u64::try_from(stat.st_size).unwrap_or_default() } else { 0 };
        let seconds = u64::try_from(stat.st_mtime).unwrap_or_default();
        let modified_ms = seconds.saturating_mul(1_000).saturating_add(stat.st_mtime_nsec / 1_000_000);
        let stamp = (stat.st_ctime, stat.st_ctime_nsec, stat.st_ino);
        Self { path: path.to_string(), kind, bytes, modified_ms, stamp }
    }

    /// The version of a file.
    pub fn version(&self) -> FileVersion {
        FileVersion { stamp: self.stamp, bytes: self.bytes }
    }

    /// Time of the last write.
    pub fn modified(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_millis(self.modified_ms)
    }
}

/// A version of a file: another one if the file was changed or replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileVersion {
    stamp: Stamp,
    bytes: u64,
}

impl fmt::Display for FileVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, nanos, inode) = self.stamp;
        write!(f, "{seconds:x}-{nanos:x}-{inode:x}-{:x}", self.bytes)
    }
}

impl FromStr for FileVersion {
    type Err = std::num::ParseIntError;

    /// Parses what [`Self`] is displayed as. Missing parts count as zero, which no file has.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts = text.split('-').map(|part| u64::from_str_radix(part, 16));
        let mut next = || parts.next().unwrap_or(Ok(0));
        let seconds = i64::try_from(next()?).unwrap_or_default();
        Ok(Self { stamp: (seconds, next()?, next()?), bytes: next()? })
    }
}

/// The content of a folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileList {
    /// The folder, relative to the workspace.
    pub path: String,
    /// The entries, sorted by name.
    pub files: Vec<FileInfo>,
    /// Whether entries are missing: there are too many, or their names are not UTF-8.
    pub truncated: bool,
}

/// Depth of a listing or a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listed {
    /// Only the entries of the folder itself.
    Here,
    /// Everything below it.
    Below,
}

/// Treatment of a file that exists already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// It is replaced.
    Replace,
    /// It stays, and the operation fails.
    Keep,
    /// It is replaced if it still is this version, and otherwise the operation fails.
    Unchanged(FileVersion),
}

/// One workspace. All methods block.
#[derive(Debug)]
pub struct WorkspaceFiles {
    folder: PathBuf,
    root: OwnedFd,
    owner: (u32, u32),
    quota: Quota,
    usages: Usages,
    /// A folder below it that is hidden.
    hidden: Option<InWorkspace>,
}

fn beneath() -> ResolveFlags {
    ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV
}

impl WorkspaceFiles {
    /// Opens the workspace in this folder, which must exist. Its path is trusted.
    pub(crate) fn open(folder: PathBuf, quota: Quota, usages: Usages) -> Result<Self, FileError> {
        let failed = |errno: Errno| FileError::failed(&".", "opened", &std::io::Error::from(errno));
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(&folder, flags, Mode::empty()).map_err(failed)?;
        let stat = rustix::fs::fstat(&root).map_err(failed)?;
        Ok(Self { folder, root, owner: (stat.st_uid, stat.st_gid), quota, usages, hidden: None })
    }

    /// The same workspace without `folder`, if that is inside.
    pub(crate) fn without(mut self, folder: Option<&Path>) -> Self {
        let within = |folder: &Path| {
            let workspace = std::fs::canonicalize(&self.folder).ok()?;
            let below = folder.strip_prefix(workspace).ok()?;
            InWorkspace::new(below.to_str()?).ok()
        };
        self.hidden = folder.and_then(within);
        self
    }

    /// Parses the path of an existing entry.
    fn path(&self, text: &str) -> Result<InWorkspace, FileError> {
        self.seen(InWorkspace::new(text)?)
    }

    /// Parses the path of an entry to be created.
    fn path_to_make(&self, text: &str) -> Result<InWorkspace, FileError> {
        self.seen(InWorkspace::to_make(text)?)
    }

    fn seen(&self, path: InWorkspace) -> Result<InWorkspace, FileError> {
        if self.is_hidden(&path) { Err(FileError::of(&path, "found", Errno::NOENT)) } else { Ok(path) }
    }

    fn is_hidden(&self, path: &InWorkspace) -> bool {
        self.hidden.as_ref().is_some_and(|hidden| path.names().starts_with(hidden.names()))
    }

    /// Refuses to move or delete a folder that contains the hidden one.
    fn check_holds_nothing_hidden(&self, path: &InWorkspace) -> Result<(), FileError> {
        let holds = self.hidden.as_ref().is_some_and(|hidden| hidden.names().starts_with(path.names()));
        if holds { Err(FileError::kind(path, "a folder that Coracle's data folder is in")) } else { Ok(()) }
    }

    /// The quota.
    pub fn quota(&self) -> Quota {
        self.quota
    }

    /// The disk use.
    pub fn usage(&self) -> Result<FolderUsage, FileError> {
        self.usages.usage(&self.folder)
    }

    fn open_folder(&self, path: &InWorkspace) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let name = if path.is_root() { ".".to_owned() } else { path.to_string() };
        rustix::fs::openat2(&self.root, name, flags, Mode::empty(), beneath())
    }

    /// Opens the folder of an entry, and returns the name of the entry.
    fn place<'a>(&self, path: &'a InWorkspace) -> Result<(OwnedFd, &'a str), FileError> {
        let (folder, name) = path.split()?;
        let folder = self.open_folder(&folder).map_err(|errno| FileError::of(path, "found", errno))?;
        Ok((folder, name))
    }

    fn look(&self, path: &InWorkspace) -> Result<FileInfo, FileError> {
        if path.is_root() {
            let stat = rustix::fs::fstat(&self.root).map_err(|errno| FileError::of(path, "looked at", errno))?;
            return Ok(FileInfo::new(path, &stat));
        }
        let (folder, name) = self.place(path)?;
        let stat = rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|errno| FileError::of(path, "looked at", errno))?;
        Ok(FileInfo::new(path, &stat))
    }

    /// Information about an entry. Links are not followed.
    pub fn stat(&self, path: &str) -> Result<FileInfo, FileError> {
        self.look(&self.path(path)?)
    }

    /// Opens a regular file for reading.
    pub fn open_file(&self, path: &str) -> Result<(FileInfo, File), FileError> {
        let path = self.path(path)?;
        if path.is_root() {
            return Err(FileError::kind(&".", "a folder"));
        }
        // Opening a pipe must not block, and a terminal must not become the controlling one.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let opened = rustix::fs::openat2(&self.root, path.to_string(), flags, Mode::empty(), beneath());
        let file = opened.map_err(|errno| FileError::of(&path, "opened", errno))?;
        let stat = rustix::fs::fstat(&file).map_err(|errno| FileError::of(&path, "looked at", errno))?;
        let info = FileInfo::new(&path, &stat);
        match info.kind {
            FileKind::File => Ok((info, file.into())),
            FileKind::Folder => Err(FileError::kind(&path, "a folder")),
            FileKind::Link | FileKind::Other => {
                Err(FileError::kind(&path, "no file, but a pipe, a socket or a device"))
            }
        }
    }

    /// Reads a part of a file: at most `length` bytes from `offset` on.
    pub fn read_part(&self, path: &str, offset: u64, length: u64) -> Result<(FileInfo, Vec<u8>), FileError> {
        let (info, mut file) = self.open_file(path)?;
        let mut bytes = Vec::new();
        let read = file.seek(SeekFrom::Start(offset)).and_then(|_| file.take(length).read_to_end(&mut bytes));
        read.map_err(|error| FileError::failed(&info.path, "read", &error))?;
        Ok((info, bytes))
    }

    /// Reads a whole file, if it has at most `most` bytes.
    pub fn read(&self, path: &str, most: u64) -> Result<(FileInfo, Vec<u8>), FileError> {
        let (info, bytes) = self.read_part(path, 0, most.saturating_add(1))?;
        let length = info.bytes.max(bytes.len() as u64);
        if length > most {
            return Err(FileError::TooLarge { path: info.path, bytes: length, most });
        }
        Ok((info, bytes))
    }

    /// Lists a folder, sorted by name; at most [`MAX_ENTRIES`] entries.
    pub fn list(&self, path: &str, listed: Listed) -> Result<FileList, FileError> {
        self.list_up_to(path, listed, MAX_ENTRIES)
    }

    /// Where a link leads, as it is written.
    pub(crate) fn link(&self, path: &str) -> Result<OsString, FileError> {
        let path = self.path(path)?;
        let (folder, name) = self.place(&path)?;
        let target = rustix::fs::readlinkat(&folder, name, Vec::new());
        let target = target.map_err(|errno| FileError::of(&path, "read", errno))?;
        Ok(OsString::from_vec(target.into_bytes()))
    }

    /// Lists a folder, sorted by name; at most `most` entries.
    pub(crate) fn list_up_to(&self, path: &str, listed: Listed, most: usize) -> Result<FileList, FileError> {
        let top = self.path(path)?;
        let mut list = FileList { path: top.to_string(), files: Vec::new(), truncated: false };
        let mut folders = vec![(top.clone(), 0)];
        while let Some((path, depth)) = folders.pop() {
            let opened = self.open_folder(&path);
            let folder = match opened {
                Ok(folder) => folder,
                Err(errno) if depth == 0 => return Err(FileError::of(&path, "listed", errno)),
                // It was deleted, or its owner may not read it.
                Err(_) => {
                    list.truncated = true;
                    continue;
                }
            };
            let mut found = entries(&path, &folder, &mut list.truncated)?;
            found.sort_by(|(_, one), (_, other)| one.path.cmp(&other.path));
            for (path, info) in found {
                if self.is_hidden(&path) {
                    continue;
                }
                if list.files.len() >= most {
                    list.truncated = true;
                    break;
                }
                if listed == Listed::Below && info.kind == FileKind::Folder {
                    if depth < MAX_LISTED_DEPTH {
                        folders.push((path, depth + 1));
                    } else {
                        list.truncated = true;
                    }
                }
                list.files.push(info);
            }
        }
        list.files.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(list)
    }

    /// Deletes a file, a link or a folder. A folder that is not empty is deleted only with [`Listed::Below`].
    pub fn delete(&self, path: &str, below: Listed) -> Result<(), FileError> {
        let path = self.path(path)?;
        self.check_holds_nothing_hidden(&path)?;
        let (folder, name) = self.place(&path)?;
        let failed = |errno: Errno| FileError::of(&path, "deleted", errno);
        let stat = rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW).map_err(failed)?;
        match (FileType::from_raw_mode(stat.st_mode), below) {
            (FileType::Directory, Listed::Here) => {
                rustix::fs::unlinkat(&folder, name, AtFlags::REMOVEDIR).map_err(failed)?;
            }
            (FileType::Directory, Listed::Below) => {
                // Renamed first, so that it is gone at once and nothing more is put into it.
                let away = format!("{UNFINISHED}{}", write::random_name());
                rustix::fs::renameat_with(&folder, name, &self.root, &away, RenameFlags::NOREPLACE).map_err(failed)?;
                remove_folder(&self.folder.join(away)).map_err(failed)?;
            }
            _ => rustix::fs::unlinkat(&folder, name, AtFlags::empty()).map_err(failed)?,
        }
        self.usages.forget(&self.folder);
        sync(&folder, &path)
    }

    /// Moves an entry. The target folder is created if it is missing.
    pub fn rename(&self, from: &str, to: &str, existing: Existing) -> Result<FileInfo, FileError> {
        let (from, to) = (self.path(from)?, self.path_to_make(to)?);
        self.check_holds_nothing_hidden(&from)?;
        let (old_folder, old_name) = self.place(&from)?;
        // Checked before a folder is created for it.
        rustix::fs::statat(&old_folder, old_name, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|errno| FileError::of(&from, "moved", errno))?;
        let (parent, new_name) = to.split()?;
        let (new_folder, made) = self.make_folders(&parent)?;
        let flags = match existing {
            Existing::Replace | Existing::Unchanged(_) => RenameFlags::empty(),
            Existing::Keep => RenameFlags::NOREPLACE,
        };
        if existing != Existing::Keep {
            let there = check_replaced(&new_folder, new_name, &to)?;
            check_version(there.as_ref(), &to, existing)?;
        }
        rustix::fs::renameat_with(&old_folder, old_name, &new_folder, new_name, flags).map_err(
            |errno| match errno {
                Errno::INVAL => FileError::kind(&to, "below what is to be moved"),
                errno => FileError::of(&to, "moved there", errno),
            },
        )?;
        made.used();
        self.usages.forget(&self.folder);
        sync(&new_folder, &to)?;
        sync(&old_folder, &from)?;
        self.look(&to)
    }

    /// Creates a folder, and those that it is in.
    pub fn make_folder(&self, path: &str) -> Result<FileInfo, FileError> {
        let path = self.path_to_make(path)?;
        if self.look(&path).is_ok() {
            return Err(FileError::Exists { path: path.to_string() });
        }
        let (_, made) = self.make_folders(&path)?;
        made.used();
        self.look(&path)
    }

    /// A path as code sees it.
    pub fn seen_at(path: &str) -> String {
        format!("{SEEN_AT}/{path}")
    }

    /// Path of the workspace on the host.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

fn entries(path: &InWorkspace, folder: &OwnedFd, cut: &mut bool) -> Result<Vec<(InWorkspace, FileInfo)>, FileError> {
    /// Maximum number of entries of a folder that are read and sorted.
    const MAX_READ: usize = 20 * MAX_ENTRIES;
    let failed = |errno: Errno| FileError::of(path, "listed", errno);
    let mut found = Vec::new();
    for entry in Dir::read_from(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let Ok(name) = entry.file_name().to_str() else {
            *cut = true;
            continue;
        };
        if name == "." || name == ".." || name.starts_with(UNFINISHED) {
            continue;
        }
        if found.len() >= MAX_READ {
            *cut = true;
            break;
        }
        // It may have been deleted by now.
        let Ok(stat) = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        let path = path.join(name);
        let info = FileInfo::new(&path, &stat);
        found.push((path, info));
    }
    Ok(found)
}

/// Returns the metadata of the file that a write would replace, if any. Fails if the entry is not a regular file.
fn check_replaced(folder: &OwnedFd, name: &str, path: &InWorkspace) -> Result<Option<Stat>, FileError> {
    let stat = match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(FileError::of(path, "looked at", errno)),
    };
    match FileInfo::new(path, &stat).kind {
        FileKind::File => Ok(Some(stat)),
        FileKind::Folder => Err(FileError::kind(path, "a folder")),
        FileKind::Link => Err(FileError::kind(path, "a link: links are not followed")),
        FileKind::Other => Err(FileError::kind(path, "no file, but a pipe or a socket")),
    }
}

/// Fails if a file is to be replaced that is not the version that it should be.
fn check_version(there: Option<&Stat>, path: &InWorkspace, existing: Existing) -> Result<(), FileError> {
    let Existing::Unchanged(expected) = existing else { return Ok(()) };
    let is_same = there.is_some_and(|stat| FileInfo::new(path, stat).version() == expected);
    if is_same { Ok(()) } else { Err(FileError::Changed { path: path.to_string() }) }
}

fn sync(folder: &OwnedFd, path: &InWorkspace) -> Result<(), FileError> {
    rustix::fs::fsync(folder).map_err(|errno| FileError::of(path, "put on the disk", errno))
}

#[cfg(test)]
mod tests;
