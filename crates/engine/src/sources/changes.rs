//! Whether files were changed since a moment.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The maximum number of files and folders that are looked at. A workspace with more counts as changed.
const MAX_ENTRIES: usize = 20_000;
/// The clock of file systems is behind by up to a tick.
const TICK: Duration = Duration::from_millis(50);

/// Whether anything in a folder was created, written, renamed, linked or deleted since a moment. The kernel sets the times
/// that are compared: code cannot. What cannot be read counts as changed. Links are not followed.
pub(super) fn is_changed(folder: &Path, since: SystemTime) -> bool {
    let since = since.checked_sub(TICK).and_then(|since| since.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    let is_later = |metadata: &fs::Metadata| {
        let (seconds, nanos) = (u64::try_from(metadata.ctime()).unwrap_or(u64::MAX), metadata.ctime_nsec());
        (seconds, u32::try_from(nanos).unwrap_or(u32::MAX)) >= (since.as_secs(), since.subsec_nanos())
    };
    let mut seen = 0;
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        if !fs::symlink_metadata(&folder).is_ok_and(|metadata| !is_later(&metadata)) {
            return true;
        }
        let Ok(entries) = fs::read_dir(&folder) else { return true };
        for entry in entries {
            seen += 1;
            let Some(metadata) = entry.as_ref().ok().and_then(|entry| entry.metadata().ok()) else { return true };
            if seen > MAX_ENTRIES || is_later(&metadata) {
                return true;
            }
            if metadata.is_dir()
                && let Ok(entry) = entry
            {
                folders.push(entry.path());
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::is_changed;
    use std::fs;
    use std::path::Path;
    use std::thread::sleep;
    use std::time::{Duration, SystemTime};

    /// Runs `change` in a folder whose files are older than any tick.
    fn changed_by(change: impl FnOnce(&Path)) -> bool {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("sub")).unwrap();
        fs::write(folder.path().join("sub/file"), "x").unwrap();
        sleep(Duration::from_millis(200));
        let since = SystemTime::now();
        change(folder.path());
        is_changed(folder.path(), since)
    }

    #[test]
    fn every_change_is_noticed_and_reading_is_none() {
        assert!(!changed_by(|_| {}));
        assert!(!changed_by(|folder| drop(fs::read(folder.join("sub/file")).unwrap())));
        assert!(changed_by(|folder| fs::write(folder.join("sub/file"), "y").unwrap()));
        assert!(changed_by(|folder| fs::write(folder.join("sub/other"), "").unwrap()));
        assert!(changed_by(|folder| fs::remove_file(folder.join("sub/file")).unwrap()));
        assert!(changed_by(|folder| fs::rename(folder.join("sub/file"), folder.join("file")).unwrap()));
        assert!(changed_by(|folder| {
            // An earlier time does not hide it.
            let file = fs::File::options().write(true).open(folder.join("sub/file")).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        }));
        assert!(is_changed(Path::new("/does/not/exist"), SystemTime::now()));
    }
}
