//! Watches limits that the kernel does not enforce here: the memory of a process tree without a cgroup, and the sizes
//! of the workspace and the artifacts. A sandbox over a limit is killed. The limits are soft: a sandbox can exceed them
//! for a moment.

use super::disk::{Ledger, Most, Usage, When};
use super::sandbox::Life;
use crate::Cause;
use coracle_types::Limits;
use std::collections::HashMap;
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Intervals between checks while code runs: when the disk fills up, when memory changes, and otherwise.
const AT_ONCE: Duration = Duration::from_millis(10);
const QUICK: Duration = Duration::from_millis(40);
const USUAL: Duration = Duration::from_millis(80);
/// The maximum interval between two runs of a session, which is approached gradually.
const SLOW: Duration = Duration::from_millis(640);

/// The number of bytes that a disk loses between two checks when it counts as filling up.
const FILLING: u64 = 8 << 20;

/// The maximum number of open or mapped files of one process that are checked.
const MAX_HELD: usize = 4_096;

/// The maximum number of processes that are added up.
const MAX_PROCESSES: usize = 4_096;

/// What to watch.
#[derive(Debug)]
pub(super) struct Watched {
    pub(super) workspace: PathBuf,
    pub(super) artifacts: PathBuf,
    pub(super) limits: Limits,
    /// The contents of the workspace when the sandbox was opened, if that was over the limit: deleting must be
    /// possible.
    pub(super) over: Option<Usage>,
    /// Whether to watch the memory of the tree.
    pub(super) memory: bool,
    pub(super) ledger: Arc<Ledger>,
    /// Signals when a run begins.
    pub(super) pace: Arc<Pace>,
}

/// Whether code is running.
#[derive(Debug)]
pub(super) struct Pace {
    rests: AtomicBool,
    begins: Notify,
    begun: Mutex<Instant>,
}

impl Default for Pace {
    fn default() -> Self {
        Self { rests: AtomicBool::new(false), begins: Notify::new(), begun: Mutex::new(Instant::now()) }
    }
}

impl Pace {
    pub(super) fn begin(&self) {
        *self.begun.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        if self.rests.swap(false, Ordering::Relaxed) {
            self.begins.notify_one();
        }
    }

    /// How long the code has been running.
    pub(super) fn run(&self) -> Duration {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    pub(super) fn rest(&self) {
        self.rests.store(true, Ordering::Relaxed);
    }
}

/// Watches until a limit is exceeded or the task is aborted.
pub(super) async fn watch(watched: Arc<Watched>, life: Arc<Life>, seen: Arc<Mutex<Vec<Cause>>>) {
    let mut pause = QUICK;
    let (mut last, mut left) = (0, free_bytes(&watched.workspace));
    loop {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = watched.pace.begins.notified() => {
                // Code that has just begun has used nothing yet.
                pause = QUICK;
                continue;
            }
        }
        let rests = watched.pace.rests.load(Ordering::Relaxed);
        let resident = if watched.memory { resident_bytes(&life) } else { 0 };
        let now = free_bytes(&watched.workspace);
        pause = if watched.over.is_some() {
            // Each check is a walk then.
            QUICK * 5
        } else if left.saturating_sub(now) > FILLING {
            AT_ONCE
        } else if resident != last {
            QUICK
        } else if rests {
            (pause * 2).clamp(USUAL, SLOW)
        } else {
            USUAL
        };
        (last, left) = (resident, now);
        if let Some(cause) = memory(&watched, &life, resident) {
            end(&life, &seen, cause);
            return;
        }
        let when = if rests { When::Resting } else { When::Running };
        if end_if_over(&watched, &life, &seen, when).await {
            return;
        }
    }
}

/// Ends the sandbox if the workspace or the artifacts hold more than they may. Returns whether it did.
pub(super) async fn end_if_over(watched: &Watched, life: &Life, seen: &Mutex<Vec<Cause>>, when: When) -> bool {
    let cause = disk(watched, life, when).await;
    let is_over = cause.is_some();
    if let Some(cause) = cause {
        end(life, seen, cause);
    }
    is_over
}

fn end(life: &Life, seen: &Mutex<Vec<Cause>>, cause: Cause) {
    seen.lock().unwrap_or_else(PoisonError::into_inner).push(cause);
    life.kill();
}

/// Forgets the folder, even if the watch never started.
impl Drop for Watched {
    fn drop(&mut self) {
        self.ledger.forget(&self.artifacts);
    }
}

/// Checks whether the workspace or the artifacts are over their limits.
pub(super) async fn disk(watched: &Watched, life: &Life, when: When) -> Option<Cause> {
    let Watched { workspace, artifacts, limits, ledger, over, .. } = watched;
    let most = Most::of_workspace(limits);
    let most = over.map_or(most, |there| most.raised_to(there));
    let unseen = || nameless_bytes(life, workspace);
    if let Some(over) = ledger.check(workspace, "the workspace", most, when, unseen).await {
        return Some(over.cause);
    }
    // Usually on the same file system, where nameless files were counted above.
    let most = Most::of_artifacts(limits);
    ledger.check(artifacts, "/artifacts", most, when, || 0).await.map(|over| over.cause)
}

/// The free space of a folder's file system.
fn free_bytes(folder: &Path) -> u64 {
    rustix::fs::statfs(folder).map_or(0, |stat| stat.f_bfree * stat.f_bsize.unsigned_abs())
}

/// The size of deleted files on the workspace's file system that the sandbox holds open or mapped. They are in no
/// folder that could be walked.
fn nameless_bytes(life: &Life, workspace: &Path) -> u64 {
    let Ok(device) = fs::metadata(workspace).map(|folder| folder.dev()) else { return 0 };
    let mut found = HashMap::new();
    let mut count = |file: &fs::Metadata| {
        if file.is_file() && file.nlink() == 0 && file.dev() == device {
            found.insert(file.ino(), file.blocks() * 512);
        }
    };
    let mut hidden = HashMap::new();
    for pid in tree(life) {
        let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        open.take(MAX_HELD).filter_map(|entry| fs::metadata(entry.path()).ok()).for_each(|file| count(&file));
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        for map in maps.lines().filter(|line| line.ends_with(DELETED)).take(MAX_HELD).filter_map(Mapping::parse) {
            let Mapping { start, end, inode, .. } = map;
            // Inspecting mapped files needs more privileges than an ordinary user has. Without them, addresses are
            // used.
            match fs::metadata(format!("/proc/{pid}/map_files/{start:x}-{end:x}")) {
                Ok(file) => count(&file),
                Err(_) if map.is_on(device) => {
                    let length: &mut u64 = hidden.entry(inode).or_default();
                    *length = (*length).max(end.saturating_sub(start));
                }
                Err(_) => {}
            }
        }
    }
    for (inode, length) in hidden {
        found.entry(inode).or_insert(length);
    }
    found.values().sum()
}

/// The kernel's mark for a mapped file that was deleted.
const DELETED: &str = " (deleted)";

/// A line of `/proc/PID/maps`.
struct Mapping<'a> {
    start: u64,
    end: u64,
    device: &'a str,
    inode: u64,
}

impl<'a> Mapping<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let (start, end) = (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
        let device = words.nth(2)?;
        let inode = words.next()?.parse().ok()?;
        Some(Self { start, end, device, inode })
    }

    /// Some file systems report another device here than `stat` does.
    fn is_on(&self, device: u64) -> bool {
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        self.device == format!("{major:02x}:{minor:02x}")
    }
}

/// Checks memory. Resident memory counts shared pages in full; the exact share is costly, so it is read only if that is
/// over the limit.
fn memory(watched: &Watched, life: &Life, resident: u64) -> Option<Cause> {
    let limit = watched.limits.memory_bytes();
    if !watched.memory || resident <= limit {
        return None;
    }
    let processes = tree(life);
    let exact = tmp_bytes(&processes) + processes.into_iter().map(proportional_bytes).sum::<u64>();
    (exact > limit).then_some(Cause::Memory { used: Some(exact) })
}

/// The resident memory of the processes, and the contents of `/tmp`, which is memory too.
fn resident_bytes(life: &Life) -> u64 {
    let page = rustix::param::page_size() as u64;
    let processes = tree(life);
    let resident = |pid: &u32| {
        let text = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
        text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * page
    };
    tmp_bytes(&processes) + processes.iter().map(resident).sum::<u64>()
}

fn tmp_bytes(processes: &[u32]) -> u64 {
    let of_first = processes.first().and_then(|pid| rustix::fs::statfs(format!("/proc/{pid}/root/tmp")).ok());
    of_first.map_or(0, |stat| stat.f_blocks.saturating_sub(stat.f_bfree) * stat.f_bsize.unsigned_abs())
}

fn proportional_bytes(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let kilobytes =
        text.lines().find_map(|line| line.strip_prefix("Pss:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

/// The sandbox's processes: its first process adopts orphans, so its descendants are all of them.
fn tree(life: &Life) -> Vec<u32> {
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", life.pidfd.as_raw_fd())).unwrap_or_default();
    let Some(first) = info.lines().find_map(|line| line.strip_prefix("Pid:")?.trim().parse::<u32>().ok()) else {
        return Vec::new();
    };
    let mut all = vec![first];
    let mut next = 0;
    while let Some(pid) = all.get(next).copied().filter(|_| all.len() < MAX_PROCESSES) {
        next += 1;
        for task in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            all.extend(children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
        }
    }
    all
}
