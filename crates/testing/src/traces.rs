//! Traces on the machine: processes, mounts, cgroups and files of one data folder, because others may be in use.

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// Process, identified by PID and start time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// Process ID.
    pub pid: u32,
    parent: u32,
    started: u64,
    /// Distance from the root of the tree.
    pub depth: usize,
}

/// Parent, start time, and whether it is not a zombie.
fn look(pid: u32) -> Option<(u32, u64, bool)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let alive = !matches!(*fields.first()?, "Z" | "X");
    Some((fields.get(1)?.parse().ok()?, fields.get(19)?.parse().ok()?, alive))
}

fn all_pids() -> Vec<u32> {
    fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

impl Process {
    /// The process with this ID, unless it has ended.
    pub fn of(pid: u32) -> Option<Self> {
        let (parent, started, alive) = look(pid)?;
        alive.then_some(Self { pid, parent, started, depth: 0 })
    }

    /// Whether it has not ended.
    pub fn is_alive(&self) -> bool {
        look(self.pid).is_some_and(|(_, started, alive)| alive && started == self.started)
    }

    /// Kills this process, and no other with the same PID.
    pub fn kill(&self) {
        let Some(pid) = Pid::from_raw(self.pid.cast_signed()) else { return };
        if let Ok(handle) = pidfd_open(pid, PidfdFlags::empty())
            && self.is_alive()
        {
            let _ = pidfd_send_signal(&handle, Signal::KILL);
        }
    }

    /// Its arguments, separated by spaces.
    pub fn command_line(&self) -> String {
        let bytes = fs::read(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).replace('\0', " ")
    }
}

/// Process and all its descendants, nearest first.
pub fn tree(pid: u32) -> Vec<Process> {
    let all: Vec<Process> = all_pids().into_iter().filter_map(Process::of).collect();
    let mut found: Vec<Process> = Process::of(pid).into_iter().collect();
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        next += 1;
        let children = all.iter().filter(|process| process.parent == parent.pid);
        found.extend(children.map(|child| Process { depth: parent.depth + 1, ..*child }));
    }
    found
}

/// Processes that have something in this folder mounted, open or in their arguments.
fn holders(folder: &str) -> Vec<String> {
    let own = std::process::id();
    let holds = |pid: u32| {
        let text = |file: &str| fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        let has = |file: &str| String::from_utf8_lossy(&text(file)).contains(folder);
        let links = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let open =
            links.filter_map(|link| fs::read_link(link.path()).ok()).any(|to| to.to_string_lossy().contains(folder));
        open || has("mountinfo") || has("cmdline")
    };
    let pids = all_pids().into_iter().filter(|pid| *pid != own && holds(*pid));
    pids.filter_map(Process::of).map(|process| format!("{} {}", process.pid, process.command_line())).collect()
}

/// Cgroups of these instances.
fn cgroups(instances: &BTreeSet<String>) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![std::path::PathBuf::from("/sys/fs/cgroup")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.strip_prefix("coracle-").is_some_and(|instance| instances.contains(instance)) {
                found.push(entry.path().display().to_string());
            }
            folders.push(entry.path());
        }
    }
    found
}

/// Instances that have a folder in this data folder.
pub fn instances(home: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(home.join("run")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).filter(|name| name != ".lock").collect()
}

fn half_made(home: &Path) -> Vec<String> {
    let entries = fs::read_dir(home.join("cache")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).filter(|name| name.starts_with('.')).collect()
}

/// Leftovers: `processes` that were seen, processes and mounts that use the folder of `home`, and cgroups of `seen`
/// instances. Folders of instances count only if they should be gone too.
pub fn leftovers(home: &Path, processes: &[Process], seen: &BTreeSet<String>) -> Vec<String> {
    let folder = home.parent().unwrap().display().to_string();
    let mut left: Vec<String> = processes
        .iter()
        .filter(|process| process.is_alive())
        .map(|process| format!("{process:?} {}", process.command_line()))
        .collect();
    left.extend(holders(&folder));
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    left.extend(mounts.lines().filter(|line| line.contains(&folder)).map(str::to_owned));
    left.extend(cgroups(seen));
    left
}

/// Files that a dead instance would leave.
pub fn files(home: &Path) -> Vec<String> {
    instances(home).into_iter().map(|name| format!("run/{name}")).chain(half_made(home)).collect()
}

/// Waits until nothing is found; panics with the leftovers.
pub fn nothing_within(patience: Duration, what: &str, mut find: impl FnMut() -> Vec<String>) {
    let begun = Instant::now();
    loop {
        let found = find();
        if found.is_empty() {
            return;
        }
        assert!(begun.elapsed() < patience, "{what}: left behind after {patience:?}: {found:#?}");
        std::thread::sleep(Duration::from_millis(30));
    }
}
