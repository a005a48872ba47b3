//! The user that code runs as, and the owner of its folders.

use crate::SandboxError;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, Uid, chownat, openat, statat};
use rustix::io::Errno;
use rustix::process::{getegid, geteuid};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The host's user for code when Coracle runs as root, as in the native backend.
const SANDBOX_ID: u32 = 61_042;

/// The maximum depth of folders that are given to another user.
const MAX_DEPTH: usize = 256;

/// The user and the group that code is in the container. Never the host's root.
pub(super) fn ids(workspace: &Path, is_rootless: bool) -> Result<(u32, u32), SandboxError> {
    if is_rootless {
        // The container's root is the user of the engine, who must be the one of this process.
        return Ok((0, 0));
    }
    if !geteuid().is_root() {
        return Ok((geteuid().as_raw(), getegid().as_raw()));
    }
    let wrong = |error: std::io::Error| SandboxError::Workspace { path: workspace.into(), reason: error.to_string() };
    let folder = std::fs::metadata(workspace).map_err(wrong)?;
    Ok(if folder.uid() == 0 { (SANDBOX_ID, SANDBOX_ID) } else { (folder.uid(), folder.gid()) })
}

/// Gives what belongs to root in a folder to the user of the code. Containers cannot map owners as the native backend
/// does, and code never runs as root.
pub(super) fn give(folder: &Path, ids: (u32, u32)) -> Result<(), SandboxError> {
    if !geteuid().is_root() || ids.0 == 0 {
        return Ok(());
    }
    let failed = |errno: Errno| SandboxError::Workspace {
        path: folder.to_owned(),
        reason: format!("cannot be given to the user {} of sandboxes: {errno}", ids.0),
    };
    let top = open(CWD, folder).map_err(failed)?;
    let seen = rustix::fs::fstat(&top).map_err(failed)?;
    if seen.st_uid != 0 {
        return Ok(());
    }
    give_entries(&top, ids, 0).map_err(failed)?;
    // Last, so that it is done again if this process dies midway.
    rustix::fs::fchown(&top, Some(Uid::from_raw(ids.0)), Some(Gid::from_raw(ids.1))).map_err(failed)
}

fn open(at: impl AsFd, name: impl rustix::path::Arg) -> Result<OwnedFd, Errno> {
    openat(at, name, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

/// Follows no link: the tree may be hostile.
fn give_entries(folder: &OwnedFd, ids: (u32, u32), depth: usize) -> Result<(), Errno> {
    if depth > MAX_DEPTH {
        return Err(Errno::LOOP);
    }
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let seen = match statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => continue,
            other => other?,
        };
        if FileType::from_raw_mode(seen.st_mode) == FileType::Directory {
            give_entries(&open(folder, name)?, ids, depth + 1)?;
        }
        if seen.st_uid == 0 {
            let (uid, gid) = (Uid::from_raw(ids.0), Gid::from_raw(ids.1));
            match chownat(folder, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => {}
                other => other?,
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{SANDBOX_ID, give, ids};
    use rustix::process::geteuid;
    use std::fs;
    use std::os::unix::fs::{MetadataExt, lchown, symlink};

    #[test]
    fn code_is_never_root_and_owns_its_workspace() {
        let folder = tempfile::tempdir().unwrap();
        let (workspace, outside) = (folder.path().join("workspace"), folder.path().join("outside"));
        fs::create_dir_all(workspace.join("a/b")).unwrap();
        fs::write(workspace.join("a/b/file"), "").unwrap();
        fs::write(workspace.join("hers"), "").unwrap();
        fs::write(&outside, "").unwrap();
        symlink(&outside, workspace.join("link")).unwrap();
        let own = geteuid().as_raw();
        let expected = ids(&workspace, false).unwrap();
        assert_ne!(expected.0, 0);
        give(&workspace, expected).unwrap();
        if own != 0 {
            assert_eq!(expected.0, own);
            return;
        }
        assert_eq!(expected.0, SANDBOX_ID);
        for path in ["", "a", "a/b", "a/b/file", "hers", "link"] {
            assert_eq!(fs::symlink_metadata(workspace.join(path)).unwrap().uid(), SANDBOX_ID, "{path}");
        }
        assert_eq!(fs::metadata(&outside).unwrap().uid(), 0, "a link was followed");
        // The folder of another user keeps its owner.
        lchown(&workspace, Some(4_242), Some(4_243)).unwrap();
        assert_eq!(ids(&workspace, false).unwrap(), (4_242, 4_243));
        assert_eq!(ids(&workspace, true).unwrap(), (0, 0));
    }
}
