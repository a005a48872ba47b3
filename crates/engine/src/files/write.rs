//! Writes into a file without a name, which gets one when it is complete.

use super::path::{InWorkspace, UNFINISHED};
use super::quota::{Reservation, Room, on_disk};
use super::{Existing, FileError, FileInfo, WorkspaceFiles, beneath, check_replaced, check_version, sync};
use rustix::fs::{AtFlags, Gid, Mode, OFlags, RenameFlags, Uid};
use rustix::io::Errno;
use std::fs::File;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::os::fd::{AsRawFd, OwnedFd};

const FILE_MODE: u32 = 0o644;
const FOLDER_MODE: u32 = 0o755;

/// A file that is being written. If it is dropped, nothing of it remains.
#[derive(Debug)]
pub struct Unfinished<'a> {
    files: &'a WorkspaceFiles,
    path: InWorkspace,
    folder: OwnedFd,
    file: File,
    /// Its temporary name, on file systems that do not support files without names.
    named: Option<String>,
    written: u64,
    existing: Existing,
    reserved: Option<Reservation>,
    /// Space for the folders that were created.
    folders: Option<Reservation>,
}

impl WorkspaceFiles {
    /// Writes a file, and creates the folders that it needs.
    pub fn write(&self, path: &str, bytes: &[u8], existing: Existing) -> Result<FileInfo, FileError> {
        let mut unfinished = self.begin(path, Some(bytes.len() as u64), existing)?;
        unfinished.push(bytes)?;
        unfinished.finish()
    }

    /// Begins to write a file. If its length is known, the quota is checked now, otherwise with every write.
    pub fn begin(&self, path: &str, length: Option<u64>, existing: Existing) -> Result<Unfinished<'_>, FileError> {
        let path = self.path_to_make(path)?;
        let (parent, name) = path.split()?;
        // Checked before folders are created for a file that does not fit.
        let replaced = match self.open_folder(&parent) {
            Ok(folder) => check_replaced(&folder, name, &path)?,
            Err(_) => None,
        };
        if replaced.is_some() && existing == Existing::Keep {
            return Err(FileError::Exists { path: path.to_string() });
        }
        check_version(replaced.as_ref(), &path, existing)?;
        let freed = replaced.map_or(0, |stat| if stat.st_nlink > 1 { 0 } else { stat.st_blocks.unsigned_abs() * 512 });
        let room = Room { bytes: on_disk(length.unwrap_or(0)), files: u64::from(replaced.is_none()) };
        let reserved = self.usages.reserve(&self.folder, self.quota, room, freed)?;
        let (folder, folders) = self.make_folders(&parent)?;
        let (file, named) = self.fresh(&folder, &path)?;
        if let Some(stat) = replaced {
            let mode = Mode::from_raw_mode(stat.st_mode & 0o777);
            rustix::fs::fchmod(&file, mode).map_err(|errno| FileError::of(&path, "written", errno))?;
        }
        let (reserved, folders) = (Some(reserved), Some(folders));
        Ok(Unfinished { files: self, path, folder, file, named, written: 0, existing, reserved, folders })
    }

    /// Creates a file in the folder, without a name if the file system supports that.
    fn fresh(&self, folder: &OwnedFd, path: &InWorkspace) -> Result<(File, Option<String>), FileError> {
        let failed = |errno: Errno| FileError::of(path, "made", errno);
        let mode = Mode::from_raw_mode(FILE_MODE);
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        let (file, named) = match rustix::fs::openat(folder, ".", flags | OFlags::TMPFILE, mode) {
            Ok(file) => (file, None),
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {
                let name = format!("{UNFINISHED}{}", random_name());
                let file = rustix::fs::openat2(folder, &name, flags | OFlags::CREATE | OFlags::EXCL, mode, beneath());
                (file.map_err(failed)?, Some(name))
            }
            Err(errno) => return Err(failed(errno)),
        };
        self.own(&file).map_err(failed)?;
        Ok((file.into(), named))
    }

    /// New files belong to the owner of the workspace, because sandboxed code runs as that user.
    fn own(&self, made: &OwnedFd) -> Result<(), Errno> {
        let stat = rustix::fs::fstat(made)?;
        if (stat.st_uid, stat.st_gid) == self.owner {
            return Ok(());
        }
        let (uid, gid) = self.owner;
        match rustix::fs::fchown(made, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid))) {
            // For an ordinary user the owner is right already, and only the group may differ.
            Err(Errno::PERM) if stat.st_uid == uid => Ok(()),
            other => other,
        }
    }

    /// Opens a folder, and creates it if it is missing.
    pub(super) fn make_folders(&self, path: &InWorkspace) -> Result<(OwnedFd, Reservation), FileError> {
        let failed = |errno: Errno| FileError::of(path, "made", errno);
        let names = path.names();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut at = rustix::fs::openat2(&self.root, ".", flags, Mode::empty(), beneath()).map_err(failed)?;
        let mut known = 0;
        for name in names {
            match rustix::fs::openat2(&at, name, flags, Mode::empty(), beneath()) {
                Ok(below) => at = below,
                Err(Errno::NOENT) => break,
                Err(errno) => return Err(failed(errno)),
            }
            known += 1;
        }
        let missing = names.get(known..).unwrap_or_default();
        let count = missing.len() as u64;
        let room = Room { bytes: on_disk(count * 4_096), files: count };
        let reserved = self.usages.reserve(&self.folder, self.quota, room, 0)?;
        for name in missing {
            match rustix::fs::mkdirat(&at, name, Mode::from_raw_mode(FOLDER_MODE)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(failed(errno)),
            }
            let below = rustix::fs::openat2(&at, name, flags, Mode::empty(), beneath()).map_err(failed)?;
            self.own(&below).map_err(failed)?;
            sync(&at, path)?;
            at = below;
        }
        Ok((at, reserved))
    }
}

impl Unfinished<'_> {
    /// Appends bytes. Fails if they exceed the quota.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), FileError> {
        let length = self.written.saturating_add(bytes.len() as u64);
        if let Some(reserved) = &mut self.reserved {
            reserved.grow(self.files.quota, on_disk(length))?;
        }
        self.file.write_all(bytes).map_err(|error| FileError::of_io(&self.path, "written", &error))?;
        self.written = length;
        Ok(())
    }

    /// Appends zeros that take no space.
    pub(crate) fn skip(&mut self, bytes: u64) -> Result<(), FileError> {
        self.written = self.written.saturating_add(bytes);
        let skipped = self.file.set_len(self.written).and_then(|()| self.file.seek(SeekFrom::Start(self.written)));
        skipped.map(drop).map_err(|error| FileError::failed(&self.path, "written", &error))
    }

    /// Moves the file into place. It is on disk when this returns.
    pub fn finish(mut self) -> Result<FileInfo, FileError> {
        let failed = |errno: Errno| FileError::of(&self.path, "put in its place", errno);
        self.file.sync_all().map_err(|error| FileError::of_io(&self.path, "put on the disk", &error))?;
        let (_, name) = self.path.split()?;
        // Another file may have been created there in the meantime.
        let found = check_replaced(&self.folder, name, &self.path)?;
        check_version(found.as_ref(), &self.path, self.existing)?;
        let there = found.is_some();
        if there && self.existing == Existing::Keep {
            return Err(FileError::Exists { path: self.path.to_string() });
        }
        if self.named.is_none() {
            let first = if there { format!("{UNFINISHED}{}", random_name()) } else { name.to_owned() };
            let mut linked = self.link(&first);
            if linked == Err(Errno::EXIST) && self.existing == Existing::Replace && !there {
                // Another writer was faster, and its file is replaced.
                let first = format!("{UNFINISHED}{}", random_name());
                linked = self.link(&first);
                self.named = Some(first);
            } else if there {
                self.named = Some(first);
            }
            linked.map_err(failed)?;
        }
        if let Some(named) = self.named.take() {
            let flags = match self.existing {
                Existing::Replace | Existing::Unchanged(_) => RenameFlags::empty(),
                Existing::Keep => RenameFlags::NOREPLACE,
            };
            let moved = rustix::fs::renameat_with(&self.folder, &named, &self.folder, name, flags);
            if let Err(errno) = moved {
                let failure = failed(errno);
                self.named = Some(named);
                return Err(failure);
            }
        }
        sync(&self.folder, &self.path)?;
        for reservation in [self.reserved.take(), self.folders.take()].into_iter().flatten() {
            reservation.used();
        }
        let stat = rustix::fs::fstat(&self.file).map_err(failed)?;
        Ok(FileInfo::new(&self.path, &stat))
    }

    fn link(&self, name: &str) -> Result<(), Errno> {
        // The only way to name it without special privileges. The descriptor is our own.
        let file = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        rustix::fs::linkat(rustix::fs::CWD, file, &self.folder, name, AtFlags::SYMLINK_FOLLOW)
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if let Some(named) = &self.named
            && let Err(errno) = rustix::fs::unlinkat(&self.folder, named, AtFlags::empty())
        {
            tracing::warn!(%errno, name = named, "an unfinished file stays behind");
        }
    }
}

/// A random name.
pub(super) fn random_name() -> String {
    let mut bytes = [0; 12];
    if getrandom::fill(&mut bytes).is_err() {
        let now = std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH).unwrap_or_default();
        bytes.copy_from_slice(&now.as_nanos().to_le_bytes()[..12]);
    }
    hex::encode(bytes)
}
