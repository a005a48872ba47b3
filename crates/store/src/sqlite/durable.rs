//! On the disk, and not only in the system's memory: what was promised survives the machine.
//!
//! The pool writes with `synchronous = NORMAL`, so that nobody pays for a promise that was not made. Whoever made one
//! waits here after the commit. One wait serves all that committed before it began.

use crate::{Home, StoreError};
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::Mutex;

#[derive(Debug)]
pub(super) struct Durable {
    log: PathBuf,
    folder: PathBuf,
    /// Counts those who wait.
    asked: AtomicU64,
    /// All up to this one are on the disk.
    done: Mutex<u64>,
}

impl Durable {
    pub(super) fn new(home: &Home) -> Self {
        let database = home.database();
        let mut log = database.clone().into_os_string();
        log.push("-wal");
        let folder = database.parent().map(PathBuf::from).unwrap_or_default();
        Self { log: log.into(), folder, asked: AtomicU64::new(0), done: Mutex::new(0) }
    }

    /// Returns when everything that was committed before is on the disk.
    pub(super) async fn wait(&self) -> Result<(), StoreError> {
        let own = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
        let mut done = self.done.lock().await;
        if *done >= own {
            return Ok(());
        }
        let all = self.asked.load(Ordering::SeqCst);
        let (log, folder) = (self.log.clone(), self.folder.clone());
        let synced = tokio::task::spawn_blocking(move || sync(log, folder)).await;
        let synced = synced.map_err(io::Error::other).and_then(|synced| synced);
        synced.map_err(|error| StoreError::home(&self.log, error))?;
        *done = all;
        Ok(())
    }
}

fn sync(log: PathBuf, folder: PathBuf) -> io::Result<()> {
    match File::open(log) {
        Ok(log) => log.sync_data()?,
        // Its content was moved into the database, and SQLite does that only for good.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    // The log may be new.
    File::open(folder)?.sync_all()
}
