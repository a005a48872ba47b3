//! Tracks which processes are alive: each process that runs tasks locks a separate file, and the system releases the
//! lock however the process ends.

use crate::{Home, StoreError};
use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use tokio::sync::OnceCell;

#[derive(Debug)]
pub(super) struct Life {
    home: Home,
    own: OnceCell<Own>,
}

#[derive(Debug)]
struct Own {
    name: String,
    path: PathBuf,
    _lock: File,
}

impl Life {
    pub(super) fn new(home: Home) -> Self {
        Self { home, own: OnceCell::new() }
    }

    /// The name of this process.
    pub(super) async fn name(&self) -> Result<&str, StoreError> {
        let begin = async || {
            let home = self.home.clone();
            let begun = tokio::task::spawn_blocking(move || begin(&home)).await;
            begun.map_err(|error| StoreError::home(self.home.root(), error))?
        };
        Ok(self.own.get_or_try_init(begin).await?.name.as_str())
    }

    /// Returns those of these processes that are gone, and removes their files.
    pub(super) async fn gone(&self, names: Vec<String>) -> Result<Vec<String>, StoreError> {
        let own = self.own.get().map(|own| own.name.clone());
        let home = self.home.clone();
        let names = names.into_iter().filter(|name| Some(name) != own.as_ref()).collect();
        let gone = tokio::task::spawn_blocking(move || gone(&home, names)).await;
        gone.map_err(|error| StoreError::home(self.home.root(), error))?
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        // A missing file means the same as one that is not locked.
        let _ = fs::remove_file(&self.path);
    }
}

fn begin(home: &Home) -> Result<Own, StoreError> {
    // Between creating and locking its file, a process would look as if it were gone.
    let _gate = home.locked()?;
    let folder = home.live();
    let failed = |error: io::Error| StoreError::file(&folder, &error);
    match DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(error)),
        Ok(()) | Err(_) => {}
    }
    sweep(&folder);
    let number = getrandom::u64().map_err(|error| StoreError::home(&folder, error))?;
    let name = format!("{number:016x}");
    let path = folder.join(&name);
    let lock = File::create_new(&path).map_err(failed)?;
    lock.lock().map_err(failed)?;
    Ok(Own { name, path, _lock: lock })
}

/// Removes the files of processes that were killed while they had no tasks.
fn sweep(folder: &PathBuf) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        // Tasks of a process without a file count as lost as well.
        if File::open(entry.path()).is_ok_and(|file| file.try_lock().is_ok()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn gone(home: &Home, names: Vec<String>) -> Result<Vec<String>, StoreError> {
    if names.is_empty() {
        return Ok(names);
    }
    let _gate = home.locked()?;
    let is_gone = |name: &String| {
        let path = home.live().join(name);
        match File::open(&path) {
            Err(error) => error.kind() == io::ErrorKind::NotFound,
            Ok(file) => match file.try_lock() {
                Ok(()) => {
                    let _ = fs::remove_file(&path);
                    true
                }
                Err(TryLockError::WouldBlock | TryLockError::Error(_)) => false,
            },
        }
    };
    Ok(names.into_iter().filter(is_gone).collect())
}
