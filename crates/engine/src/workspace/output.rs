//! Output of executions that was too long to return.

use crate::files::{Existing, FileError, FileInfo, FileKind, Listed, WorkspaceFiles};
use std::time::Duration;

/// The folder in a workspace for output that was too long to return.
pub(crate) const OUTPUT_FOLDER: &str = ".coracle-output";
/// Limits on the files in the folder: their number, their age, and their total size.
const KEPT_OUTPUTS: usize = 100;
const KEPT_OUTPUT_AGE: Duration = Duration::from_hours(7 * 24);
const KEPT_OUTPUT_BYTES: u64 = 128 << 20;

/// Writes one file of output, and deletes older ones that exceed the limits. Returns its path as code sees it.
pub(super) fn keep(files: &WorkspaceFiles, name: &str, bytes: &[u8]) -> Result<String, FileError> {
    let info = files.write(&format!("{OUTPUT_FOLDER}/{name}"), bytes, Existing::Keep)?;
    prune(files, &info.path);
    Ok(WorkspaceFiles::seen_at(&info.path))
}

/// Deletes output of earlier executions that exceeds a limit. `newest` is kept.
fn prune(files: &WorkspaceFiles, newest: &str) {
    let Ok(list) = files.list(OUTPUT_FOLDER, Listed::Here) else { return };
    let is_ours = |name: &str| name.rsplit('/').next().is_some_and(|name| name.starts_with("exec-"));
    let mut found: Vec<FileInfo> =
        list.files.into_iter().filter(|file| file.kind == FileKind::File && is_ours(&file.path)).collect();
    found.sort_by_key(|file| std::cmp::Reverse(file.modified()));
    let mut bytes = 0_u64;
    for (number, file) in found.iter().enumerate() {
        bytes = bytes.saturating_add(file.bytes);
        let is_old = file.modified().elapsed().is_ok_and(|age| age > KEPT_OUTPUT_AGE);
        if file.path != newest && (number >= KEPT_OUTPUTS || bytes > KEPT_OUTPUT_BYTES || is_old) {
            // Code may have deleted the file in the meantime.
            if let Err(error) = files.delete(&file.path, Listed::Here) {
                tracing::debug!(%error, "cannot delete old output");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{KEPT_OUTPUTS, OUTPUT_FOLDER, prune};
    use crate::files::{Quota, Usages, WorkspaceFiles};
    use std::fs::{self, File, FileTimes};
    use std::time::{Duration, SystemTime};

    #[test]
    fn pruning_deletes_old_output_and_no_other_files() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join(OUTPUT_FOLDER);
        fs::create_dir(&folder).unwrap();
        let put = |name: &str, age: Duration| {
            let file = File::create(folder.join(name)).unwrap();
            file.set_times(FileTimes::new().set_modified(SystemTime::now() - age)).unwrap();
        };
        for number in 0..KEPT_OUTPUTS + 5 {
            put(&format!("exec-{number:03}.txt"), Duration::from_secs(number as u64));
        }
        put("exec-old.txt", Duration::from_hours(24 * 30));
        put("mine.txt", Duration::from_hours(24 * 30));
        let files = WorkspaceFiles::open(home.path().to_owned(), Quota::NONE, Usages::default()).unwrap();
        prune(&files, &format!("{OUTPUT_FOLDER}/exec-104.txt"));
        let mut left: Vec<_> =
            fs::read_dir(&folder).unwrap().map(|one| one.unwrap().file_name().into_string().unwrap()).collect();
        left.sort();
        assert_eq!(left.len(), KEPT_OUTPUTS + 2, "{left:?}");
        for kept in ["exec-000.txt", "exec-104.txt", "mine.txt"] {
            assert!(left.iter().any(|name| name == kept), "{kept}: {left:?}");
        }
        assert!(!left.iter().any(|name| name == "exec-old.txt" || name == "exec-103.txt"), "{left:?}");
    }
}
