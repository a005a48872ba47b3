//! Durability: waits until writes are on the disk, and not only in the memory of the system.
//!
//! The pool writes with `synchronous = NORMAL`, so that only writes that promise durability pay for it: they wait here
//! after the commit. One sync covers all earlier commits.

use super::fault::Faults;
use crate::{Home, StoreError};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::Mutex;

#[derive(Debug)]
pub(super) struct Durable {
    log: PathBuf,
    folder: PathBuf,
    faults: Faults,
    /// The number of waits so far.
    asked: AtomicU64,
    done: Mutex<Done>,
}

#[derive(Debug, Default)]
struct Done {
    /// The last wait whose commits are on the disk.
    number: u64,
    /// The WAL that was last synced, together with its entry in the folder.
    log: Option<File>,
}

impl Durable {
    pub(super) fn new(home: &Home, faults: Faults) -> Self {
        let database = home.database();
        let mut log = database.clone().into_os_string();
        log.push("-wal");
        let folder = database.parent().map(PathBuf::from).unwrap_or_default();
        Self { log: log.into(), folder, faults, asked: AtomicU64::new(0), done: Mutex::default() }
    }

    /// Returns when all earlier commits are on the disk.
    pub(super) async fn wait(&self) -> Result<(), StoreError> {
        let own = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
        let mut done = self.done.lock().await;
        if done.number >= own {
            return Ok(());
        }
        let all = self.asked.load(Ordering::SeqCst);
        let (log, folder, known) = (self.log.clone(), self.folder.clone(), done.log.take());
        let synced = tokio::task::spawn_blocking(move || sync(&log, folder, known)).await;
        let synced = synced.map_err(io::Error::other).and_then(|synced| synced);
        done.log = synced.map_err(|error| self.faults.of_file(&self.log, "put a write on the disk", &error))?;
        done.number = all;
        Ok(())
    }
}

/// Opening the WAL and syncing its folder take as long as the rest, so both are done once per WAL.
fn sync(log: &PathBuf, folder: PathBuf, known: Option<File>) -> io::Result<Option<File>> {
    let identity = |found: fs::Metadata| (found.dev(), found.ino());
    let current = match fs::metadata(log) {
        Ok(found) => identity(found),
        // Its content was moved to the database, which SQLite does only durably.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            File::open(folder)?.sync_all()?;
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    if let Some(known) = known
        && identity(known.metadata()?) == current
    {
        known.sync_data()?;
        return Ok(Some(known));
    }
    let log = File::open(log)?;
    log.sync_data()?;
    File::open(folder)?.sync_all()?;
    Ok(Some(log))
}
