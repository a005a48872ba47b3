//! Classifies errors of the database, and tells which connections may be affected.

use crate::{Fault, StoreError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The free space below which an I/O error of SQLite is treated as a full disk.
const LITTLE_ROOM: u64 = 128 << 10;
/// How long other writes do not wait either, after a write has waited in vain for another process.
const GIVE_UP: Duration = Duration::from_millis(500);

/// Result codes of SQLite. Extended codes have them in their lowest byte.
mod code {
    pub(super) const BUSY: i32 = 5;
    pub(super) const LOCKED: i32 = 6;
    pub(super) const READONLY: i32 = 8;
    pub(super) const IOERR: i32 = 10;
    pub(super) const CORRUPT: i32 = 11;
    pub(super) const FULL: i32 = 13;
    pub(super) const CANTOPEN: i32 = 14;
    pub(super) const NOTADB: i32 = 26;
}

/// The faults of one database.
#[derive(Clone, Debug)]
pub(super) struct Faults {
    path: PathBuf,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Debug, Default)]
struct Seen {
    /// When an error last occurred. Older connections may be in a transaction that was rolled back, or hold outdated
    /// pages.
    last: Option<Instant>,
    /// When a write last gave up waiting for another process.
    locked: Option<Instant>,
    damaged: bool,
}

impl Faults {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, seen: Arc::default() }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether a connection of this age existed when an error last occurred.
    pub(super) fn outlived(&self, age: Duration) -> bool {
        let opened = Instant::now().checked_sub(age);
        self.seen().last.is_some_and(|last| opened.is_none_or(|opened| opened <= last))
    }

    /// Whether another process has locked the database: a write has just waited for it in vain.
    pub(super) fn is_locked(&self) -> bool {
        self.seen().locked.is_some_and(|locked| locked.elapsed() < GIVE_UP)
    }

    /// Whether an error occurred since.
    pub(super) fn any_since(&self, at: Instant) -> bool {
        let seen = self.seen();
        seen.last.max(seen.locked).is_some_and(|last| last > at)
    }

    pub(super) fn is_damaged(&self) -> bool {
        self.seen().damaged
    }

    /// Notes that the file was checked and is intact.
    pub(super) fn sound(&self) {
        self.seen().damaged = false;
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Converts an error of the database, with the operation that failed.
    pub(super) fn failed(&self, doing: &'static str) -> impl Fn(sqlx::Error) -> StoreError + use<> {
        let faults = self.clone();
        move |error| faults.told(doing, &error)
    }

    fn told(&self, doing: &'static str, error: &sqlx::Error) -> StoreError {
        let (fault, reason) = self.judged(error);
        self.note(fault);
        StoreError::Database { path: self.path.clone(), doing, fault, reason }
    }

    /// A write has waited for its turn in vain.
    pub(super) fn waited(&self, doing: &'static str) -> StoreError {
        let reason = "it is locked by another process, or busy".to_owned();
        StoreError::Database { path: self.path.clone(), doing, fault: Fault::Locked, reason }
    }

    /// The content of the database is invalid.
    pub(super) fn damaged(&self, doing: &'static str, reason: String) -> StoreError {
        self.note(Fault::Damaged);
        StoreError::Database { path: self.path.clone(), doing, fault: Fault::Damaged, reason }
    }

    /// Converts an error of the system about one of the database's files.
    pub(super) fn of_file(&self, path: &Path, doing: &'static str, error: &io::Error) -> StoreError {
        let fault = Fault::of(error);
        self.note(fault);
        StoreError::Database { path: path.to_owned(), doing, fault, reason: error.to_string() }
    }

    pub(super) fn note(&self, fault: Fault) {
        let now = Instant::now();
        let mut seen = self.seen();
        match fault {
            // The connection is not affected.
            Fault::Locked => seen.locked = Some(now),
            Fault::Damaged => (seen.last, seen.damaged) = (Some(now), true),
            Fault::Full | Fault::ReadOnly | Fault::Missing | Fault::Descriptors | Fault::Other => seen.last = Some(now),
        }
    }

    fn judged(&self, error: &sqlx::Error) -> (Fault, String) {
        let plain = |fault: Fault, reason: &str| (fault, reason.to_owned());
        let code = match error {
            sqlx::Error::Database(error) => error.code().and_then(|code| code.parse::<i32>().ok()),
            sqlx::Error::PoolTimedOut => return plain(Fault::Locked, "all connections are waiting for it"),
            sqlx::Error::Io(error) => return (Fault::of(error), error.to_string()),
            _ => None,
        };
        let Some(code) = code else { return (Fault::Other, error.to_string()) };
        match code & 0xff {
            code::BUSY | code::LOCKED => plain(Fault::Locked, "it is locked by another process"),
            code::FULL => plain(Fault::Full, "no space is left on its file system"),
            code::READONLY => plain(Fault::ReadOnly, "the file or its folder is read-only"),
            code::CORRUPT | code::NOTADB => (Fault::Damaged, message(error)),
            code::CANTOPEN => match std::fs::File::open("/dev/null") {
                Err(error) => (Fault::of(&error), error.to_string()),
                Ok(_) if self.path.try_exists().is_ok_and(|exists| !exists) => {
                    plain(Fault::Missing, "the file is gone")
                }
                Ok(_) => self.by_room(error),
            },
            code::IOERR => self.by_room(error),
            _ => (Fault::Other, message(error)),
        }
    }

    /// Finds out why a file could not be written, which SQLite does not say.
    fn by_room(&self, error: &sqlx::Error) -> (Fault, String) {
        let folder = self.path.parent().unwrap_or(&self.path);
        match rustix::fs::statvfs(folder) {
            Ok(found) if found.f_bavail.saturating_mul(found.f_frsize) < LITTLE_ROOM || is_out_of_files(&found) => {
                (Fault::Full, "no space is left on its file system".to_owned())
            }
            Ok(found) if found.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY) => {
                (Fault::ReadOnly, "its file system is read-only".to_owned())
            }
            _ => (Fault::Other, message(error)),
        }
    }
}

/// Whether the file system has no inodes left. Some file systems do not count them.
fn is_out_of_files(found: &rustix::fs::StatVfs) -> bool {
    found.f_files > 0 && found.f_favail == 0
}

fn message(error: &sqlx::Error) -> String {
    match error {
        sqlx::Error::Database(error) => error.message().to_owned(),
        other => other.to_string(),
    }
}
