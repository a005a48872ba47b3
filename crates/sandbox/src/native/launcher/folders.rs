//! Empty folders for the artifacts of sandboxes. A folder that comes back untouched is reused: on a journalling file
//! system, creating and removing a folder costs more than the rest of a sandbox.
//!
//! Trust boundary: a folder that could carry any trace is not reused.

use super::LaunchError;
use super::root;
use crate::native::messages::Slot;
use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, Timestamps};
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub(super) struct Folders {
    base: PathBuf,
    /// The owner, if it is another user.
    owner: Option<(u32, u32)>,
    free: Vec<PathBuf>,
    put_aside: u64,
}

/// The maximum number of unused folders to keep. Further ones are removed.
const MOST_FREE: usize = 32;

/// The mode of every folder.
const MODE: u32 = 0o755;

impl Folders {
    pub(super) fn new(run_dir: &Path, owner: Option<(u32, u32)>) -> Self {
        Self { base: run_dir.join("artifacts"), owner, free: Vec::new(), put_aside: 0 }
    }

    /// Takes an empty folder named after the sandbox. Returns a mount of it.
    pub(super) fn take(&mut self, slot: Slot) -> Result<OwnedFd, LaunchError> {
        root::user_folder(&self.make(slot)?)
    }

    /// Takes an empty folder named after the sandbox.
    pub(super) fn make(&mut self, slot: Slot) -> Result<PathBuf, LaunchError> {
        let folder = self.base.join(slot.to_string());
        let made = match self.free.pop() {
            Some(used) => fs::rename(used, &folder),
            None => self.make_new(&folder),
        };
        made.map_err(|error| LaunchError::io(format!("make {}", folder.display()), &error))?;
        Ok(folder)
    }

    fn make_new(&self, folder: &Path) -> std::io::Result<()> {
        fs::create_dir(folder)?;
        rustix::fs::chmod(folder, Mode::from_raw_mode(MODE))?;
        match self.owner {
            Some((uid, gid)) => std::os::unix::fs::chown(folder, Some(uid), Some(gid)),
            None => Ok(()),
        }
    }

    /// Gives a folder back when all processes of the sandbox are gone. The server moves or removes the files in it.
    pub(super) fn give_back(&mut self, slot: Slot) {
        let folder = self.base.join(slot.to_string());
        if !is_untouched(&folder) {
            return;
        }
        if self.free.len() >= MOST_FREE {
            // What is left is removed when this instance ends.
            let _ = fs::remove_dir(&folder);
            return;
        }
        self.put_aside += 1;
        let aside = self.base.join(format!("free-{}", self.put_aside));
        if fs::rename(&folder, &aside).is_ok() {
            self.free.push(aside);
        }
    }
}

/// Whether a folder is empty, with its original mode, without attributes, and with its times reset.
fn is_untouched(folder: &Path) -> bool {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(open) = rustix::fs::openat(CWD, folder, flags, Mode::empty()) else { return false };
    let Ok(stat) = rustix::fs::statat(&open, "", AtFlags::EMPTY_PATH) else { return false };
    let plain = Mode::from_raw_mode(stat.st_mode) == Mode::from_raw_mode(MODE);
    let no_attributes = rustix::fs::flistxattr_query(&open) == Ok(0);
    let usual = rustix::fs::ioctl_getflags(&open).is_ok_and(|flags| flags.difference(HARMLESS).is_empty());
    plain && no_attributes && usual && is_empty(&open) && set_back(&open)
}

/// Flags that file systems set by themselves.
const HARMLESS: rustix::fs::IFlags = rustix::fs::IFlags::from_bits_retain(EXTENTS | INDEXED | INLINE);
const EXTENTS: u32 = 0x0008_0000;
const INDEXED: u32 = 0x0000_1000;
const INLINE: u32 = 0x1000_0000;

fn is_empty(folder: &OwnedFd) -> bool {
    let Ok(entries) = Dir::read_from(folder) else { return false };
    entries.flatten().all(|entry| entry.file_name() == c"." || entry.file_name() == c"..")
}

fn set_back(folder: &OwnedFd) -> bool {
    let never = rustix::fs::Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::fs::futimens(folder, &Timestamps { last_access: never, last_modification: never }).is_ok()
}

#[cfg(test)]
mod tests {
    use super::is_untouched;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn only_a_folder_without_a_trace_is_reused() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("folder");
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(is_untouched(&folder));
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o751)).unwrap();
        assert!(!is_untouched(&folder), "another mode");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(folder.join("file"), "").unwrap();
        assert!(!is_untouched(&folder), "a file");
        fs::remove_file(folder.join("file")).unwrap();
        assert!(is_untouched(&folder));
        rustix::fs::setxattr(&folder, "user.word", b"x", rustix::fs::XattrFlags::empty()).unwrap();
        assert!(!is_untouched(&folder), "an attribute");
        assert!(!is_untouched(&home.path().join("missing")));
    }
}
