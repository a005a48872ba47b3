//! A running Coracle: its folder below `run/`, which it has locked, and the clean-up of folders that are no longer
//! locked.

use super::{cgroup, disk};
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The folder and lock of this instance. The server and its launcher share the lock: it is released when both are gone.
#[derive(Debug)]
pub(crate) struct Instance {
    pub(crate) id: String,
    pub(crate) dir: PathBuf,
    pub(crate) lock: File,
}

const LOCK: &str = "lock";
/// The lock file for all instances, beside their folders.
const GATE: &str = ".lock";
/// An empty folder, which is mounted over folders that must stay hidden.
pub(crate) const EMPTY: &str = "empty";

impl Instance {
    /// Removes what dead instances left behind, and claims a folder for a new one.
    pub(crate) fn claim(home: &Path) -> io::Result<Self> {
        let run = home.join("run");
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&run)?;
        // One at a time: between creating and locking its folder, an instance would look dead.
        let gate = File::create(run.join(GATE))?;
        flock(&gate, FlockOperation::LockExclusive)?;
        sweep(&run);
        let id = random_id()?;
        let dir = run.join(&id);
        fs::DirBuilder::new().mode(0o700).create(&dir)?;
        let lock = File::create(dir.join(LOCK))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        fs::create_dir(dir.join("artifacts"))?;
        fs::create_dir(dir.join(EMPTY))?;
        // Whatever the umask, because sandboxes of root run as another user.
        fs::set_permissions(dir.join(EMPTY), Permissions::from_mode(0o555))?;
        Ok(Self { id, dir, lock })
    }

    /// Removes what instances left behind that have died since this one started.
    pub(crate) fn sweep_others(&self) {
        let Some(run) = self.dir.parent() else { return };
        // If another process holds the lock, it cleans up.
        if let Ok(gate) = File::open(run.join(GATE))
            && flock(&gate, FlockOperation::NonBlockingLockExclusive).is_ok()
        {
            sweep(run);
        }
    }

    /// Removes everything of this instance. Its processes must be gone or exiting.
    pub(crate) fn remove(dir: &Path) {
        cgroup::remove_recorded(dir);
        // Sandboxes have left their artifacts in it, so its tree is not trusted. Removed before the lock, because
        // without the lock other instances would remove the folder as well.
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                let _ = disk::remove(&entry.path());
            }
        }
        if let Err(errno) = disk::remove(dir)
            && dir.exists()
        {
            tracing::warn!(dir = %dir.display(), %errno, "cannot remove the instance's folder");
        }
    }
}

fn sweep(run: &Path) {
    for entry in fs::read_dir(run).into_iter().flatten().flatten() {
        let dir = entry.path();
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let dead = match File::open(dir.join(LOCK)) {
            Ok(lock) => flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok(),
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        };
        if dead {
            tracing::info!(dir = %dir.display(), "removing the folder of a dead instance");
            Instance::remove(&dir);
        }
    }
}

/// Sixteen random hexadecimal digits.
pub(crate) fn random_id() -> io::Result<String> {
    let value = getrandom::u64().map_err(|error| io::Error::other(error.to_string()))?;
    Ok(format!("{value:016x}"))
}

#[cfg(test)]
mod tests {
    use super::{Instance, LOCK};
    use std::fs;

    #[test]
    fn folders_of_dead_instances_are_removed_at_start_and_end() {
        let home = tempfile::tempdir().unwrap();
        let first = Instance::claim(home.path()).unwrap();
        let living = Instance::claim(home.path()).unwrap();
        assert!(first.dir.is_dir(), "it lives");
        let (dir, other) = (first.dir.clone(), home.path().join("run/other"));
        drop(first);
        fs::create_dir_all(other.join("artifacts/deep")).unwrap();
        fs::write(other.join(LOCK), "").unwrap();
        living.sweep_others();
        assert!(!dir.exists() && !other.exists() && living.dir.is_dir());
        drop(living);
        let last = Instance::claim(home.path()).unwrap();
        let left: Vec<_> = fs::read_dir(home.path().join("run")).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(left.iter().filter(|path| path.is_dir()).collect::<Vec<_>>(), [&last.dir]);
    }
}
