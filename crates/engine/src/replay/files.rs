//! Copies a workspace. Its content is hostile: no link is followed, and the copy has limits.

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::Path;

/// Maximum depth of folders; deeper ones are left out.
const MAX_DEPTH: usize = 64;
/// Maximum number of files.
const MAX_FILES: usize = 100_000;

const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// Opening must not block, because a file may be replaced by a pipe.
const FILE: OFlags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);
const NEW: OFlags = OFlags::CREATE.union(OFlags::EXCL).union(OFlags::WRONLY).union(OFlags::CLOEXEC);

/// Copies files, folders and links, at most `most` bytes; returns whether everything was copied.
pub(super) fn copy(from: &Path, to: &Path, most: u64) -> io::Result<bool> {
    let open = |path: &Path| rustix::fs::open(path, FOLDER, Mode::empty());
    let mut copied = Copied { bytes: most, files: MAX_FILES, whole: true };
    copied.folder(&open(from)?, &open(to)?, 0)?;
    Ok(copied.whole)
}

struct Copied {
    /// Number of bytes, and of files, that may still be copied.
    bytes: u64,
    files: usize,
    whole: bool,
}

impl Copied {
    fn folder(&mut self, from: &OwnedFd, to: &OwnedFd, depth: usize) -> io::Result<()> {
        let mut names: Vec<CString> = Vec::new();
        for entry in Dir::read_from(from)? {
            names.push(entry?.file_name().to_owned());
        }
        for name in names.iter().filter(|name| !matches!(name.to_bytes(), b"." | b"..")) {
            if self.files == 0 {
                self.whole = false;
                return Ok(());
            }
            self.files -= 1;
            match self.one(from, to, name, depth) {
                Ok(()) => {}
                // Files that are deleted in the meantime, or cannot be read, are left out.
                Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) => {
                    self.whole = false;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn one(&mut self, from: &OwnedFd, to: &OwnedFd, name: &CString, depth: usize) -> io::Result<()> {
        let stat = rustix::fs::statat(from, name, AtFlags::SYMLINK_NOFOLLOW)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory if depth < MAX_DEPTH => {
                match rustix::fs::mkdirat(to, name, Mode::RWXU) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(errno) => return Err(errno.into()),
                }
                let open = |folder: &OwnedFd| rustix::fs::openat(folder, name, FOLDER, Mode::empty());
                self.folder(&open(from)?, &open(to)?, depth + 1)
            }
            FileType::RegularFile => {
                let opened = File::from(rustix::fs::openat(from, name, FILE, Mode::empty())?);
                let size = opened.metadata()?.len();
                if !opened.metadata()?.is_file() || size > self.bytes {
                    self.whole = false;
                    return Ok(());
                }
                let mode = Mode::from_raw_mode(stat.st_mode & 0o700) | Mode::RUSR | Mode::WUSR;
                let mut fresh = File::from(rustix::fs::openat(to, name, NEW, mode)?);
                self.bytes -= io::copy(&mut opened.take(size), &mut fresh)?;
                Ok(())
            }
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(from, name, Vec::new())?;
                Ok(rustix::fs::symlinkat(target, to, name)?)
            }
            _ => {
                self.whole = false;
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::copy;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn files_folders_and_links_are_copied_and_nothing_else() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("secret"), "outside").unwrap();
        fs::create_dir_all(from.path().join("a/b")).unwrap();
        fs::write(from.path().join("a/b/f"), "text").unwrap();
        symlink(outside.path(), from.path().join("a/link")).unwrap();
        assert!(copy(from.path(), to.path(), 1_000).unwrap());
        assert_eq!(fs::read_to_string(to.path().join("a/b/f")).unwrap(), "text");
        assert!(fs::symlink_metadata(to.path().join("a/link")).unwrap().is_symlink());

        fs::File::create(from.path().join("endless")).unwrap().set_len(1 << 40).unwrap();
        let to = tempfile::tempdir().unwrap();
        assert!(!copy(from.path(), to.path(), 1_000).unwrap(), "that was not all");
        assert!(!to.path().join("endless").exists() && to.path().join("a/b/f").exists());
    }
}
