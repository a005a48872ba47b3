//! Measures and removes folders of users, whose trees may be hostile: without recursion, and without following links.
//!
//! A walk is costly. It is done when the file system has lost so much space since the last walk that the folder may be
//! over its limit, and otherwise as often as it is cheap, because space that others free hides space that was written
//! here. The state outlives a single execution, so that many small writers together cannot exceed the limit.

use crate::Cause;
use coracle_types::Limits;
use rustix::fs::{
    Access, AtFlags, CWD, Dir, FileType, Mode, OFlags, accessat, openat, renameat, statat, statfs, unlinkat,
};
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The maximum depth of folders. Deeper ones count as over the limit.
const MAX_DEPTH: usize = 256;

/// While code runs, a walk is due at once if the file system has lost more bytes or files than this.
const SLACK_BYTES: u64 = 16 << 20;
const SLACK_FILES: u64 = 4_096;

/// While code runs, a walk is also due after this multiple of the duration of the last one. Between two runs,
/// additionally not before this time.
const STALE: Duration = Duration::from_secs(5);
const STALE_TIMES: u32 = 50;
/// A walk is due at the end of a run that took longer than this multiple of the last walk.
const SOON_TIMES: u32 = 10;

/// At the end of a run, nameless files are looked for if the file system has lost this many bytes more than a walk finds.
/// Space that others free hides space that was written here, so after the answer they are looked for in any case, unless
/// that was done within this time.
const UNEXPLAINED_BYTES: u64 = 1 << 20;
const UNSEEN_FOR: Duration = Duration::from_millis(250);

/// The number of files up to which a walk takes less time than handing it to another thread.
const FEW_FILES: u64 = 128;

/// The contents of a folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Space on the disk in bytes: blocks, not lengths.
    pub bytes: u64,
    /// The number of files, folders and links.
    pub files: u64,
    /// Whether folders are nested so deeply that not everything was counted.
    pub too_deep: bool,
    /// When the last of them was changed, in seconds since 1970, according to the file system.
    pub changed: i64,
}

impl Usage {
    fn megabytes(self) -> u64 {
        self.bytes / 1_000_000
    }
}

/// The free space of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Left {
    bytes: u64,
    files: u64,
}

/// The last walk of each folder.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    last_walks: Mutex<HashMap<PathBuf, LastWalk>>,
}

/// The last walk of a folder.
#[derive(Clone, Copy, Debug)]
struct LastWalk {
    /// The free space then, increased by what others have freed since.
    left: Left,
    /// The free space at the last check.
    seen: Left,
    usage: Usage,
    unseen: Unseen,
    was_over: bool,
    at: Instant,
    took: Duration,
}

/// The last search for files that a walk does not find.
#[derive(Clone, Copy, Debug)]
struct Unseen {
    bytes: u64,
    /// The result of the walk then, and the free space of the file system.
    walked: u64,
    left: u64,
    at: Instant,
}

impl Unseen {
    fn new(bytes: u64, walked: u64, left: Left) -> Self {
        Self { bytes, walked, left: left.bytes, at: Instant::now() }
    }

    /// Whether there are still no such files: the file system has lost no more than walks have found since. A deleted
    /// file that is still open is no longer found by a walk, but its space is not freed.
    fn is_still_nothing(self, walked: u64, left: u64) -> bool {
        self.bytes == 0 && (self.left + self.walked).saturating_sub(left + walked) <= UNEXPLAINED_BYTES
    }
}

impl LastWalk {
    /// `usage` is the result of a walk.
    fn new(left: Left, usage: Usage) -> Self {
        let unseen = Unseen::new(0, usage.bytes, left);
        Self { left, seen: left, usage, unseen, was_over: false, at: Instant::now(), took: Duration::ZERO }
    }

    /// Whether so much was written since, by anyone, that another walk is due.
    fn is_due(&mut self, now: Left, most: Most, when: When) -> bool {
        let Left { bytes, files } = &mut self.left;
        let (lost_bytes, lost_files) = (bytes.saturating_sub(now.bytes), files.saturating_sub(now.files));
        // Space that others free must not hide space that is written here.
        *bytes = now.bytes.max(*bytes);
        *files = now.files.max(*files);
        self.unseen.left = now.bytes.max(self.unseen.left);
        let changed = std::mem::replace(&mut self.seen, now) != now;
        let may_be_over = self.usage.bytes + lost_bytes > most.bytes() || self.usage.files + lost_files > most.files;
        let much = lost_bytes > SLACK_BYTES || lost_files > SLACK_FILES;
        self.was_over
            || match when {
                When::Opening => may_be_over,
                // A slow walk is done only rarely, unless there is a reason to hurry.
                When::Running => may_be_over && much || self.is_older_than(STALE_TIMES),
                When::Resting => may_be_over && much || self.at.elapsed() > STALE && self.is_older_than(STALE_TIMES),
                When::Ending(run) => may_be_over || changed && (self.is_small() || run > self.took * SOON_TIMES),
                When::Ended => self.is_small() && self.unseen.at.elapsed() > UNSEEN_FOR,
            }
    }

    fn is_small(&self) -> bool {
        self.usage.files <= FEW_FILES
    }

    /// Whether the walk is older than this multiple of its duration.
    fn is_older_than(&self, times: u32) -> bool {
        self.at.elapsed() > self.took * times
    }
}

/// The occasion of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// Before a sandbox is opened. The caller waits for the answer.
    Opening,
    /// While code runs.
    Running,
    /// Between two runs of a session.
    Resting,
    /// Code that ran for this long reports success, and a caller waits for the answer.
    Ending(Duration),
    /// The caller has the answer, and the session goes on.
    Ended,
}

/// The limits of a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Most {
    pub(crate) megabytes: u64,
    pub(crate) files: u64,
    pub(crate) any_depth: bool,
}

impl Most {
    /// The limits of an execution's workspace.
    pub(crate) fn of_workspace(limits: &Limits) -> Self {
        Self { megabytes: limits.workspace_mb, files: limits.workspace_files, any_depth: false }
    }

    fn bytes(self) -> u64 {
        self.megabytes.saturating_mul(1_000_000)
    }

    /// The limits of an execution's artifacts.
    pub(crate) fn of_artifacts(limits: &Limits) -> Self {
        Self { megabytes: limits.artifacts_mb, files: limits.workspace_files, any_depth: false }
    }

    /// For a folder that is already over its limits, raises them to its contents.
    pub(crate) fn raised_to(self, there: Usage) -> Self {
        Self {
            megabytes: self.megabytes.max(there.megabytes()),
            files: self.files.max(there.files),
            any_depth: there.too_deep,
        }
    }
}

/// A folder that is over its limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Over {
    pub(crate) usage: Usage,
    pub(crate) cause: Cause,
}

impl Ledger {
    /// Walks the folder if a walk is due. Returns whether it is over its limits. `unseen` measures files that a walk
    /// does not find.
    pub(crate) async fn check(
        &self,
        folder: &Path,
        name: &str,
        most: Most,
        when: When,
        unseen: impl FnOnce() -> u64,
    ) -> Option<Over> {
        let now = left(folder)?;
        let (due, known) = match self.lock().get_mut(folder) {
            Some(last) => (last.is_due(now, most, when), Some(last.unseen)),
            // The contents of a folder that was never walked are not known.
            None => (true, None),
        };
        if !due {
            return None;
        }
        let begun = Instant::now();
        let mut usage = match walk(folder, FEW_FILES)? {
            Walk::Whole(usage) => usage,
            Walk::Cut => {
                let path = folder.to_owned();
                tokio::task::spawn_blocking(move || usage(&path)).await.ok()??
            }
        };
        let walked = usage.bytes;
        // Looking for nameless files takes longer than a small run.
        let known = known.filter(|known| matches!(when, When::Ending(_)) && known.is_still_nothing(walked, now.bytes));
        let unseen = known.unwrap_or_else(|| Unseen::new(unseen(), walked, now));
        usage.bytes += unseen.bytes;
        let cause = over(usage, name, most);
        let last = LastWalk { was_over: cause.is_some(), took: begun.elapsed(), unseen, ..LastWalk::new(now, usage) };
        self.lock().insert(folder.to_owned(), last);
        cause.map(|cause| Over { usage, cause })
    }

    /// Notes that a folder is empty, before anyone can write to it.
    pub(crate) fn begin(&self, folder: &Path) {
        if let Some(now) = left(folder) {
            self.lock().insert(folder.to_owned(), LastWalk::new(now, Usage::default()));
        }
    }

    /// Forgets a folder that has been removed.
    pub(crate) fn forget(&self, folder: &Path) {
        self.lock().remove(folder);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<PathBuf, LastWalk>> {
        self.last_walks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn over(usage: Usage, name: &str, most: Most) -> Option<Cause> {
    let megabytes = usage.megabytes();
    if usage.too_deep && !most.any_depth {
        Some(Cause::Disk(format!("folders in {name} are nested deeper than {MAX_DEPTH}")))
    } else if megabytes > most.megabytes {
        Some(Cause::Disk(format!("{name} holds {megabytes} MB: the limit is {} MB", most.megabytes)))
    } else if usage.files > most.files {
        Some(Cause::Disk(format!("{name} holds {} files and folders: the limit is {}", usage.files, most.files)))
    } else {
        None
    }
}

fn left(folder: &Path) -> Option<Left> {
    let stat = statfs(folder).ok()?;
    Some(Left { bytes: stat.f_bfree * stat.f_bsize as u64, files: stat.f_ffree })
}

fn open_folder(at: impl AsFd, name: impl rustix::path::Arg) -> Result<OwnedFd, Errno> {
    openat(at, name, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

/// The result of a walk.
enum Walk {
    Whole(Usage),
    /// There are more files than the given maximum.
    Cut,
}

/// Measures a folder. Returns `None` if it cannot be opened. Does not follow links, and may take long.
pub fn usage(folder: &Path) -> Option<Usage> {
    match walk(folder, u64::MAX)? {
        Walk::Whole(usage) => Some(usage),
        Walk::Cut => None,
    }
}

/// Measures a folder if it has at most `most` files. Files that vanish meanwhile do not count.
fn walk(folder: &Path, most: u64) -> Option<Walk> {
    let mut total = Usage::default();
    let mut open = vec![Dir::new(open_folder(CWD, folder).ok()?).ok()?];
    while let Some(dir) = open.last_mut() {
        let Some(entry) = dir.read() else {
            open.pop();
            continue;
        };
        let Ok(entry) = entry else { continue };
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let Ok(at) = dir.fd() else { continue };
        let Ok(stat) = statat(at, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        total.files += 1;
        if total.files > most {
            return Some(Walk::Cut);
        }
        total.changed = total.changed.max(stat.st_ctime);
        total.bytes += stat.st_blocks.unsigned_abs() * 512;
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            let Ok(below) = open_folder(at, name).and_then(Dir::new) else { continue };
            if open.len() >= MAX_DEPTH {
                total.too_deep = true;
                continue;
            }
            open.push(below);
        }
    }
    Some(Walk::Whole(total))
}

/// Removes what a sandbox that is gone or exiting left in its folder, in the background. The folder is moved first,
/// because the launcher may give an empty folder to another sandbox.
pub(super) fn remove_soon(folder: &Path) {
    let is_empty = std::fs::read_dir(folder).map_or(true, |mut entries| entries.next().is_none());
    let trash = folder.with_extension("trash");
    if is_empty || std::fs::rename(folder, &trash).is_err() {
        return;
    }
    let removal = move || {
        // At the end of the process, the parent folder may be removed at the same time.
        if let Err(errno) = remove(&trash)
            && errno != Errno::NOENT
        {
            tracing::warn!(folder = %trash.display(), %errno, "cannot remove a sandbox's folder");
        }
    };
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => drop(runtime.spawn_blocking(removal)),
        Err(_) => removal(),
    }
}

/// Removes a folder with its contents, however deep: folders two levels down are moved up first. Does not follow links.
pub fn remove(folder: &Path) -> Result<(), Errno> {
    let top = match open_for_removal(CWD, folder) {
        Err(Errno::NOENT) => return Ok(()),
        other => other?,
    };
    let mut moved: u64 = 0;
    loop {
        let mut folders = Vec::new();
        for name in names(&top)? {
            if unlinkat(&top, &name, AtFlags::empty()) == Err(Errno::ISDIR) {
                folders.push(name);
            }
        }
        if folders.is_empty() {
            break;
        }
        for name in folders {
            let below = open_for_removal(&top, name.as_c_str())?;
            for inner in names(&below)? {
                if unlinkat(&below, &inner, AtFlags::empty()) == Err(Errno::ISDIR) {
                    moved += 1;
                    let up = || renameat(&below, &inner, &top, format!(".removing-{moved}-{}", std::process::id()));
                    // A folder must be writable to be moved to another parent.
                    up().or_else(|_| permit(&below, inner.as_c_str()).and_then(|()| up()))?;
                }
            }
            unlinkat(&top, &name, AtFlags::REMOVEDIR)?;
        }
    }
    rustix::fs::rmdir(folder)
}

/// Opens a folder and makes it removable. Its permissions may have been changed by its owner, who is us.
fn open_for_removal(at: impl AsFd, name: impl rustix::path::Arg + Copy) -> Result<OwnedFd, Errno> {
    // Fails for a link, which is not followed, and for folders of other users.
    let usable = accessat(&at, name, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS).is_ok();
    if !usable {
        permit(&at, name)?;
    }
    open_folder(at, name)
}

/// Gives the owner all permissions on a folder, unless it is a link.
fn permit(at: impl AsFd, name: impl rustix::path::Arg) -> Result<(), Errno> {
    let folder =
        openat(at, name, OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    // Not by name, because the folder could have been replaced by a link.
    rustix::fs::chmod(format!("/proc/self/fd/{}", folder.as_raw_fd()), Mode::RWXU)
}

fn names(folder: &OwnedFd) -> Result<Vec<CString>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        if entry.file_name() != c"." && entry.file_name() != c".." {
            names.push(entry.file_name().to_owned());
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::{Left, MAX_DEPTH, UNEXPLAINED_BYTES, Unseen, remove, usage};
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_tree_is_removed_however_deep_and_no_link_is_followed() {
        let home = tempfile::tempdir().unwrap();
        let outside = home.path().join("outside");
        fs::write(&outside, "keep").unwrap();
        let top = home.path().join("top");
        fs::create_dir(&top).unwrap();
        symlink(home.path(), top.join("link")).unwrap();
        symlink(&outside, top.join("file-link")).unwrap();
        // Deeper than the maximum length of a path, so created from within.
        let mut at = rustix::fs::open(&top, rustix::fs::OFlags::DIRECTORY, rustix::fs::Mode::empty()).unwrap();
        for _ in 0..3_000 {
            rustix::fs::mkdirat(&at, "deep", rustix::fs::Mode::RWXU).unwrap();
            at = rustix::fs::openat(&at, "deep", rustix::fs::OFlags::DIRECTORY, rustix::fs::Mode::empty()).unwrap();
        }
        fs::create_dir_all(top.join("locked/inner/a/b")).unwrap();
        fs::create_dir_all(top.join("unwritable/inner")).unwrap();
        for (name, mode) in [("locked/inner/a", 0), ("locked/inner", 0), ("locked", 0), ("unwritable", 0o500)] {
            fs::set_permissions(top.join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        let seen = usage(&top).unwrap();
        assert!(seen.too_deep && seen.files > MAX_DEPTH as u64);
        fs::set_permissions(&top, fs::Permissions::from_mode(0o0)).unwrap();
        remove(&top).unwrap();
        assert!(!top.exists());
        assert_eq!(fs::read_to_string(outside).unwrap(), "keep");
    }

    #[test]
    fn nameless_files_are_searched_when_walks_do_not_explain_lost_space() {
        let (walked, left, much) = (1_000, 1 << 40, UNEXPLAINED_BYTES + 1);
        let nothing = Unseen::new(0, walked, Left { bytes: left, files: 0 });
        assert!(nothing.is_still_nothing(walked, left));
        assert!(nothing.is_still_nothing(walked + much, left - much), "a file with a name was written");
        assert!(nothing.is_still_nothing(walked, left + much), "others have freed something");
        assert!(!nothing.is_still_nothing(walked, left - much), "something was written that no walk finds");
        assert!(!Unseen { walked: much, ..nothing }.is_still_nothing(0, left), "a file has lost its name");
        assert!(!Unseen { bytes: 1, ..nothing }.is_still_nothing(walked, left), "there was one");
    }

    #[test]
    fn blocks_are_counted_and_not_the_sparse_length() {
        let home = tempfile::tempdir().unwrap();
        fs::File::create(home.path().join("sparse")).unwrap().set_len(1 << 40).unwrap();
        fs::write(home.path().join("full"), vec![1; 1 << 20]).unwrap();
        let seen = usage(home.path()).unwrap();
        assert_eq!(seen.files, 2);
        assert!((1 << 20..4 << 20).contains(&seen.bytes), "{}", seen.bytes);
    }
}
