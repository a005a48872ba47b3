//! Watches over what the kernel does not limit here: the memory of a whole tree without a cgroup, and the size of the
//! workspace and of the artifacts. Over a limit, the sandbox is killed. Soft: a sandbox can be over for a moment.

use super::disk::{Ledger, Most, Usage, When};
use super::sandbox::Life;
use crate::Cause;
use coracle_types::Limits;
use std::fs;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How often it looks; when nothing changes, more and more rarely.
const QUICK: Duration = Duration::from_millis(40);
const SLOW: Duration = Duration::from_millis(640);

/// A tree of more processes than this is not added up further.
const MAX_PROCESSES: usize = 4_096;

/// What to watch.
#[derive(Debug)]
pub(super) struct Watched {
    pub(super) workspace: PathBuf,
    pub(super) artifacts: PathBuf,
    pub(super) limits: Limits,
    /// What the workspace held when the sandbox was opened, if that was too much already: deleting must be possible.
    pub(super) over: Option<Usage>,
    /// Whether the memory of the tree must be watched.
    pub(super) memory: bool,
    pub(super) ledger: Arc<Ledger>,
}

/// Until a limit is passed, or for ever: whoever holds the task ends it.
pub(super) async fn watch(watched: Watched, life: Arc<Life>, seen: Arc<Mutex<Vec<Cause>>>) {
    let mut pause = QUICK;
    let mut last = 0;
    loop {
        tokio::time::sleep(pause).await;
        let resident = if watched.memory { resident_bytes(&life) } else { 0 };
        pause = if resident == last { (pause * 2).min(SLOW) } else { QUICK };
        last = resident;
        if !watched.memory {
            pause = QUICK * 2;
        }
        if watched.over.is_some() {
            // Each look is a walk then.
            pause = pause.max(QUICK * 5);
        }
        let cause = match memory(&watched, &life, resident) {
            Some(cause) => Some(cause),
            None => disk(&watched).await,
        };
        if let Some(cause) = cause {
            seen.lock().unwrap_or_else(PoisonError::into_inner).push(cause);
            life.kill();
            return;
        }
    }
}

/// Even if the watch never began.
impl Drop for Watched {
    fn drop(&mut self) {
        self.ledger.forget(&self.artifacts);
    }
}

async fn disk(watched: &Watched) -> Option<Cause> {
    let Watched { workspace, artifacts, limits, ledger, over, .. } = watched;
    let most = Most::of_workspace(limits);
    let most = over.map_or(most, |there| most.or_what_is_there(there));
    if let Some(over) = ledger.check(workspace, "the workspace", most, When::Running).await {
        return Some(over.cause);
    }
    ledger.check(artifacts, "/artifacts", Most::of_artifacts(limits), When::Running).await.map(|over| over.cause)
}

/// Resident memory counts shared pages in full; only if that is over the limit is the exact share worth its price.
fn memory(watched: &Watched, life: &Life, resident: u64) -> Option<Cause> {
    let limit = watched.limits.memory_bytes();
    if !watched.memory || resident <= limit {
        return None;
    }
    let processes = tree(life);
    let exact = tmp_bytes(&processes) + processes.into_iter().map(proportional_bytes).sum::<u64>();
    (exact > limit).then_some(Cause::Memory)
}

/// What the processes hold, and what lies in `/tmp`, which is memory too.
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

/// The sandbox's processes: orphans are adopted by its first, so its descendants are all.
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
