//! Appends records to the files of a log, under a lock that other processes take as well.

use crate::entry::{Entry, Event};
use crate::folder::{Folder, boot_id, current_length, private};
use crate::head::{Head, NoHead};
use crate::keys::Keys;
use crate::mark::Mark;
use crate::{AuditError, line, recovery, retention};
use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// When segments end, and how long they are kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Length at which a new segment begins.
    pub(crate) segment_bytes: u64,
    pub(crate) keep: Option<Duration>,
}

/// The open files of a log.
#[derive(Debug)]
pub(crate) struct Writer {
    folder: Folder,
    keys: Arc<Keys>,
    bounds: Bounds,
    lock: Arc<File>,
    head_file: Arc<File>,
    head: Head,
    segment: Arc<File>,
    boot: String,
    /// When the last segment has to end.
    segment_ends: Option<SystemTime>,
}

/// The lock of a log, until this is dropped.
struct Held<'a>(&'a File);

impl<'a> Held<'a> {
    fn take(lock: &'a File, folder: &Folder) -> Result<Self, AuditError> {
        match lock.try_lock() {
            Ok(()) => Ok(Self(lock)),
            Err(TryLockError::WouldBlock) => Err(AuditError::Locked { folder: folder.path().to_owned() }),
            Err(TryLockError::Error(error)) => Err(folder.written()(error)),
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.0.unlock() {
            tracing::error!(%error, "cannot release the lock of the audit log");
        }
    }
}

impl Writer {
    /// Creates a log whose first record is `first`, unless another process is faster. The log appears as a whole.
    pub(crate) fn create(folder: &Folder, keys: &Keys, first: &Entry) -> Result<(), AuditError> {
        let failed = folder.written();
        let unfinished = folder.unfinished();
        let made = || -> io::Result<()> {
            match std::fs::remove_dir_all(unfinished.path()) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            unfinished.make()?;
            let mut text = Vec::new();
            let mark = line::write(&mut text, keys, Mark::START, SystemTime::now(), first)?;
            let segment = private().create_new(true).open(unfinished.segment(1))?;
            segment.write_all_at(&text, 0)?;
            segment.sync_all()?;
            let length = text.len() as u64;
            let mut head = Head {
                generation: 0,
                key: keys.id.clone(),
                boot: boot_id(),
                segment: 1,
                written: mark,
                length,
                synced: mark,
                synced_length: length,
                before: Mark::START,
            };
            let file = private().create_new(true).open(unfinished.head())?;
            head.write(&file, keys)?;
            head.write(&file, keys)?;
            file.sync_all()?;
            unfinished.sync()?;
            std::fs::rename(unfinished.path(), folder.path())?;
            folder.sync_parent()
        };
        match made() {
            Ok(()) => Ok(()),
            Err(error) => {
                // What is left of it is removed by the next attempt.
                let _ = std::fs::remove_dir_all(unfinished.path());
                if folder.head().symlink_metadata().is_ok() {
                    return Ok(());
                }
                if error.kind() == io::ErrorKind::DirectoryNotEmpty || error.kind() == io::ErrorKind::AlreadyExists {
                    return Err(folder.damaged("its head is missing"));
                }
                Err(failed(error))
            }
        }
    }

    pub(crate) fn open(folder: Folder, keys: Arc<Keys>, bounds: Bounds) -> Result<Self, AuditError> {
        let head_file = match private().open(folder.head()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(AuditError::NotCreated { folder: folder.path().to_owned() });
            }
            opened => opened.map_err(folder.written())?,
        };
        let lock = folder.lock()?;
        let held = Held::take(&lock, &folder)?;
        let head = read_head(&folder, &head_file, &keys)?;
        let segment = open_segment(&folder, head.segment)?;
        drop(held);
        let mut writer = Self {
            segment: Arc::new(segment),
            segment_ends: None,
            boot: boot_id(),
            folder,
            keys,
            bounds,
            lock: Arc::new(lock),
            head_file: Arc::new(head_file),
            head,
        };
        writer.segment_ends = writer.ends_at()?;
        Ok(writer)
    }

    fn ends_at(&self) -> Result<Option<SystemTime>, AuditError> {
        let begun = retention::begun(&self.folder, self.head.segment).map_err(self.folder.read())?;
        Ok(begun.and_then(|begun| begun.checked_add(retention::segment_age(self.bounds.keep))))
    }

    /// The last record of the log, which other processes may have written.
    pub(crate) fn mark(&mut self) -> Result<Mark, AuditError> {
        let lock = Arc::clone(&self.lock);
        let _held = Held::take(&lock, &self.folder)?;
        Ok(self.catch_up()?.mark)
    }

    /// Appends entries, all of them or none, and returns the position after them. If this fails, the writer has to be opened again.
    pub(crate) fn append(&mut self, entries: &[(SystemTime, Entry)]) -> Result<Mark, AuditError> {
        let lock = Arc::clone(&self.lock);
        let _held = Held::take(&lock, &self.folder)?;
        let mut end = self.catch_up()?;
        let mut recovered = None;
        if end.rest > 0 || end.lost_records > 0 {
            recovered = Some(Event::LogRecovered { lost_records: end.lost_records, removed_bytes: end.rest });
        }
        let is_old = self.segment_ends.is_some_and(|ends| ends <= SystemTime::now());
        let is_new_segment = end.length >= self.bounds.segment_bytes || (is_old && end.length > 0);
        let mut pruned = None;
        if is_new_segment {
            self.begin_segment(&mut end)?;
            if let Some(keep) = self.bounds.keep {
                pruned = retention::prunable(&self.folder, self.head.before, keep).map_err(self.folder.read())?;
            }
        }
        let events = recovered.into_iter().chain(pruned.map(|mark| Event::LogPruned { through: mark.to_string() }));
        let own: Vec<_> = events.map(|event| (SystemTime::now(), Entry::of_operator(event))).collect();
        let mark = self.write(end, own.iter().chain(entries), pruned)?;
        if let Some(mark) = pruned {
            self.delete_before(mark);
        }
        Ok(mark)
    }

    fn write<'a>(
        &mut self,
        end: recovery::End,
        entries: impl Iterator<Item = &'a (SystemTime, Entry)>,
        pruned: Option<Mark>,
    ) -> Result<Mark, AuditError> {
        let failed = self.folder.written();
        let (mut text, mut mark) = (Vec::new(), end.mark);
        for (time, entry) in entries {
            mark = line::write(&mut text, &self.keys, mark, *time, entry).map_err(|error| failed(error.into()))?;
        }
        let (synced, synced_length) = if self.head.boot == self.boot {
            (self.head.synced, self.head.synced_length)
        } else {
            // What was found intact after a restart of the machine was read from the disk.
            (end.mark, end.length)
        };
        let mut head = Head {
            boot: self.boot.clone(),
            written: mark,
            length: end.length + text.len() as u64,
            synced,
            synced_length,
            before: pruned.unwrap_or(self.head.before),
            ..self.head.clone()
        };
        let written = || -> io::Result<()> {
            self.segment.write_all_at(&text, end.length)?;
            if end.rest > 0 {
                self.segment.set_len(head.length)?;
            }
            head.write(&self.head_file, &self.keys)
        };
        let mut written = written;
        if let Err(error) = written() {
            // Without this, records that nobody acknowledged would be taken in later.
            if let Err(error) = self.segment.set_len(end.length) {
                tracing::error!(%error, "cannot remove an incomplete record of the audit log");
            }
            return Err(failed(error));
        }
        self.head = head;
        Ok(mark)
    }

    /// Takes in what other processes have written, and finds the end of the log.
    fn catch_up(&mut self) -> Result<recovery::End, AuditError> {
        let folder = &self.folder;
        if current_length(&self.head_file, &folder.head()).map_err(folder.read())?.is_none() {
            return Err(folder.damaged("its head was removed or replaced while the program runs"));
        }
        let head = read_head(folder, &self.head_file, &self.keys)?;
        let is_other_segment = head.segment != self.head.segment;
        self.head = head;
        if is_other_segment {
            self.segment = Arc::new(open_segment(folder, self.head.segment)?);
            self.segment_ends = self.ends_at()?;
        }
        let path = self.folder.segment(self.head.segment);
        let length = current_length(&self.segment, &path).map_err(self.folder.read())?;
        let Some(length) = length else {
            return Err(self.folder.damaged("its last segment was removed or replaced while the program runs"));
        };
        let end = recovery::end(&self.head, &self.segment, length, &self.keys).map_err(self.folder.read())?;
        end.ok_or_else(|| self.folder.damaged(format!("records up to number {} are missing", self.head.written.seq)))
    }

    /// Ends the last segment, which is then on the disk, and begins another.
    fn begin_segment(&mut self, end: &mut recovery::End) -> Result<(), AuditError> {
        let failed = self.folder.written();
        let first = end.mark.seq + 1;
        if end.rest > 0 {
            self.segment.set_len(end.length).map_err(&failed)?;
        }
        self.segment.sync_data().map_err(&failed)?;
        // Nothing in a segment that the head does not know was acknowledged: an attempt to begin it failed.
        for unknown in self.folder.segments().map_err(&failed)?.into_iter().filter(|begin| *begin > self.head.segment) {
            std::fs::remove_file(self.folder.segment(unknown)).map_err(&failed)?;
        }
        let segment = private().create(true).truncate(true).open(self.folder.segment(first)).map_err(&failed)?;
        self.folder.sync().map_err(&failed)?;
        self.segment = Arc::new(segment);
        self.segment_ends = SystemTime::now().checked_add(retention::segment_age(self.bounds.keep));
        (self.head.segment, self.head.length) = (first, 0);
        (self.head.written, self.head.synced, self.head.synced_length) = (end.mark, end.mark, 0);
        (end.length, end.rest) = (0, 0);
        Ok(())
    }

    /// Deletes segments that only have records up to a mark, which is in the head already.
    fn delete_before(&self, mark: Mark) {
        let delete = || -> io::Result<()> {
            self.head_file.sync_data()?;
            for segment in self.folder.segments()?.into_iter().filter(|first| *first <= mark.seq) {
                std::fs::remove_file(self.folder.segment(segment))?;
            }
            Ok(())
        };
        if let Err(error) = delete() {
            tracing::warn!(%error, "cannot delete old segments of the audit log");
        }
    }

    /// What has to be synced: the last segment and the head.
    pub(crate) fn files(&self) -> (Arc<File>, Arc<File>, Head) {
        (Arc::clone(&self.segment), Arc::clone(&self.head_file), self.head.clone())
    }

    /// Notes in the head that the records of an earlier head are on the disk.
    pub(crate) fn synced(&mut self, at: &Head) -> Result<(), AuditError> {
        let lock = Arc::clone(&self.lock);
        let _held = Held::take(&lock, &self.folder)?;
        let head = read_head(&self.folder, &self.head_file, &self.keys)?;
        let is_news = head.segment == at.segment && head.boot == at.boot && head.synced.seq < at.written.seq;
        if is_news {
            let mut next = Head { synced: at.written, synced_length: at.length, ..head };
            next.write(&self.head_file, &self.keys).map_err(self.folder.written())?;
        }
        Ok(())
    }
}

/// Reads the head.
pub(crate) fn read_head(folder: &Folder, file: &File, keys: &Keys) -> Result<Head, AuditError> {
    match Head::read(file, keys) {
        Ok(slots) => Ok(slots.head),
        Err(NoHead::Damaged) => Err(folder.damaged("its head is damaged")),
        Err(NoHead::WrongKey) => Err(AuditError::WrongKey { folder: folder.path().to_owned() }),
        Err(NoHead::Failed(error)) => Err(folder.read()(error)),
    }
}

fn open_segment(folder: &Folder, first: u64) -> Result<File, AuditError> {
    match private().open(folder.segment(first)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(folder.damaged(format!("the segment that begins with record {first} is missing")))
        }
        opened => opened.map_err(folder.written()),
    }
}

/// Runs `read` while no process appends.
pub(crate) fn while_locked<T>(folder: &Folder, read: impl FnOnce() -> Result<T, AuditError>) -> Result<T, AuditError> {
    let lock = folder.lock()?;
    let _held = Held::take(&lock, folder)?;
    read()
}
