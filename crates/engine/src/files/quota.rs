//! Disk use of workspaces, for writes from outside of a sandbox.
//!
//! The use is measured by walking the folder. A result is reused for some twenty times as long as the walk took, so that
//! walking is only a small part of the work. Writers reserve space first, so that several of them at the same time do not
//! exceed the limit together.

use super::FileError;
use coracle_sandbox::{FolderUsage, folder_usage};
use coracle_types::Limits;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A result is reused for this many times the duration of the walk.
const WORTH: u32 = 20;
/// Maximum number of workspaces that are remembered.
const MAX_REMEMBERED: usize = 4_096;
/// Size of a block; files take whole blocks.
const BLOCK: u64 = 4_096;

/// Limits of a workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Maximum disk space, in bytes.
    pub bytes: u64,
    /// Maximum number of files, folders and links.
    pub files: u64,
}

impl Quota {
    /// No limits here, because others enforce them.
    pub(crate) const NONE: Self = Self { bytes: u64::MAX, files: u64::MAX };

    /// The limits of executions.
    pub fn of(limits: &Limits) -> Self {
        Self { bytes: limits.workspace_mb.saturating_mul(1_000_000), files: limits.workspace_files }
    }
}

/// Disk space of a file of this length.
pub(crate) fn on_disk(length: u64) -> u64 {
    length.div_ceil(BLOCK).saturating_mul(BLOCK)
}

/// Known disk use of workspaces. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Usages {
    known: Arc<Mutex<HashMap<PathBuf, Known>>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Known {
    usage: Option<(FolderUsage, Instant, Duration)>,
    /// Reserved by writers and not written yet.
    bytes: u64,
    files: u64,
    /// Everything that writers have written so far: a walk may not have seen it.
    written: Room,
}

impl Usages {
    fn lock(&self) -> MutexGuard<'_, HashMap<PathBuf, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Disk use of the folder. May walk it.
    pub(crate) fn usage(&self, folder: &Path) -> Result<FolderUsage, FileError> {
        let before = self.lock().get(folder).copied().unwrap_or_default();
        if let Some((usage, at, took)) = before.usage
            && at.elapsed() < took * WORTH
        {
            return Ok(usage);
        }
        let begun = Instant::now();
        let walked = folder_usage(folder);
        let mut usage = walked.ok_or_else(|| FileError::failed(&".", "looked at", &"it cannot be opened"))?;
        let mut known = self.lock();
        if known.len() >= MAX_REMEMBERED {
            known.retain(|_, known| known.bytes > 0 || known.files > 0);
        }
        let entry = known.entry(folder.to_owned()).or_default();
        // If the walk has seen it, it counts twice until the next walk: too much, never too little.
        usage.bytes += entry.written.bytes.saturating_sub(before.written.bytes);
        usage.files += entry.written.files.saturating_sub(before.written.files);
        entry.usage = Some((usage, Instant::now(), begun.elapsed()));
        Ok(usage)
    }

    /// Reserves space if there is enough. `freed` bytes will be freed when it is used.
    pub(crate) fn reserve(
        &self,
        folder: &Path,
        quota: Quota,
        wanted: Room,
        freed: u64,
    ) -> Result<Reservation, FileError> {
        self.take(folder, quota, wanted, wanted.bytes > freed, freed)?;
        Ok(Reservation { usages: self.clone(), folder: folder.to_owned(), room: wanted, freed })
    }

    /// A write that makes the workspace smaller is allowed even if the workspace is too full.
    fn take(&self, folder: &Path, quota: Quota, more: Room, grows: bool, freed: u64) -> Result<(), FileError> {
        if quota == Quota::NONE {
            return Ok(());
        }
        let walked = self.usage(folder)?;
        let mut known = self.lock();
        let entry = known.entry(folder.to_owned()).or_default();
        // Others may have written in the meantime.
        let usage = entry.usage.map_or(walked, |(usage, ..)| usage);
        let there = usage.bytes + entry.bytes;
        if grows && (there + more.bytes).saturating_sub(freed) > quota.bytes {
            let (more, most) = (more.bytes, quota.bytes);
            let reason = format!("it holds {there} bytes, {more} more are to be written, and the limit is {most}");
            return Err(FileError::Full { reason });
        }
        let there = usage.files + entry.files;
        if more.files > 0 && there + more.files > quota.files {
            let reason = format!("it holds {there} files and folders, and the limit is {}", quota.files);
            return Err(FileError::Full { reason });
        }
        entry.bytes += more.bytes;
        entry.files += more.files;
        Ok(())
    }

    /// Forgets the result of the walk after a change that is not worth adding up.
    pub(crate) fn forget(&self, folder: &Path) {
        if let Some((_, _, worth)) = self.lock().get_mut(folder).and_then(|known| known.usage.as_mut()) {
            *worth = Duration::ZERO;
        }
    }
}

/// Requested space.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Room {
    pub(crate) bytes: u64,
    pub(crate) files: u64,
}

/// Space that is reserved for a writer, until it is dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    usages: Usages,
    folder: PathBuf,
    room: Room,
    freed: u64,
}

impl Reservation {
    /// Extends the reservation to this many bytes, if it has less.
    pub(crate) fn grow(&mut self, quota: Quota, bytes: u64) -> Result<(), FileError> {
        if bytes <= self.room.bytes {
            return Ok(());
        }
        let more = Room { bytes: bytes - self.room.bytes, files: 0 };
        self.usages.take(&self.folder, quota, more, bytes > self.freed, self.freed)?;
        self.room.bytes = bytes;
        Ok(())
    }

    /// The reserved space was used. If a walk has seen it, it counts twice until the next walk: too much, never too little.
    pub(crate) fn used(mut self) {
        let room = std::mem::take(&mut self.room);
        let mut known = self.usages.lock();
        let Some(known) = known.get_mut(&self.folder) else { return };
        known.give_back(room);
        known.written.bytes += room.bytes;
        known.written.files += room.files;
        if let Some((usage, ..)) = &mut known.usage {
            usage.bytes = (usage.bytes + room.bytes).saturating_sub(self.freed);
            usage.files += room.files;
        }
    }
}

impl Known {
    fn give_back(&mut self, room: Room) {
        self.bytes = self.bytes.saturating_sub(room.bytes);
        self.files = self.files.saturating_sub(room.files);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if let Some(known) = self.usages.lock().get_mut(&self.folder) {
            known.give_back(self.room);
        }
    }
}
