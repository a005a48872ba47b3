//! Memory limits for process trees: cgroup v2 if it is delegated, or else v1, or else none.
//!
//! Processes are limited here only in v2, where the same group does it at no cost. In v1 they have a separate
//! hierarchy, and each hierarchy costs every sandbox one more move. The resource limit on processes applies to the
//! whole tree anyway, because each sandbox has its own user namespace.
//!
//! Moving another process stops all forks on the machine for a moment, and takes milliseconds on an idle machine. In
//! v1, a single-threaded process that moves itself does neither: it is given the `tasks` file of its group, and moves
//! itself before it is sealed.
//!
//! Groups are reused, because creating one and setting its limits costs more than an execution. A group is reused only
//! when it is empty. The layout is found by trying. All groups are below one folder, whose path is recorded in the
//! instance's folder first, so that the next start finds and removes what a crash leaves behind.

use super::messages::{CgroupKind, Counters, Kills};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

#[cfg(test)]
mod tests;

/// The limits of one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GroupLimits {
    pub(crate) memory_bytes: u64,
    pub(crate) processes: u64,
}

/// The group of one sandbox.
#[derive(Debug)]
pub(crate) struct Group {
    name: String,
    limits: GroupLimits,
    /// The counters when the group was created or last given back.
    baseline: Counters,
    tasks_file: Option<File>,
}

/// The groups of this instance.
#[derive(Debug)]
pub(crate) struct Cgroups {
    layout: Layout,
    free: Vec<Group>,
    made: u64,
}

/// The folders that contain the groups.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Layout {
    One { memory: PathBuf },
    Two { base: PathBuf },
}

/// The file in an instance's folder with the paths of its cgroup folders, one per line.
const RECORD: &str = "cgroups";

/// The counter of processes killed for memory.
const OOM_KILL: &str = "oom_kill";

/// The file that lists the processes of a group, and moves processes to it.
const PROCESSES: &str = "cgroup.procs";
/// The file of v1 that moves one thread.
const THREADS: &str = "tasks";

/// The v2 group to which the server and its launcher are moved if necessary, so that their parent can have subgroups.
const HOST_GROUP: &str = "coracle-host";

/// The maximum number of unused groups to keep. Further ones are removed.
const MOST_FREE: usize = 32;

/// The memory use above which the page cache of a v1 group is dropped before the group is reused.
const LEFTOVER_BYTES: u64 = 8 << 20;

impl Cgroups {
    /// Tries the layouts of this machine. `membership` is the text of `/proc/self/cgroup`, and `mounts` of
    /// `/proc/self/mountinfo`. `limits` are the limits that sandboxes will most likely have; setting them is part of
    /// the trial.
    pub(crate) fn open(
        instance: &str,
        run_dir: &Path,
        (membership, mounts): (&str, &str),
        limits: GroupLimits,
    ) -> Result<Self, String> {
        let mut reasons = Vec::new();
        for candidate in candidates(membership, mounts) {
            let layout = candidate.below(&format!("coracle-{instance}"));
            match layout.make(run_dir) {
                Ok(()) => {
                    let mut cgroups = Self { layout, free: Vec::new(), made: 0 };
                    let trial = cgroups.take(limits);
                    match trial {
                        Ok(group) => {
                            cgroups.free.push(group);
                            return Ok(cgroups);
                        }
                        Err(error) => reasons.push(format!("limits refused: {error}")),
                    }
                    cgroups.remove();
                }
                Err(error) => {
                    layout.remove();
                    reasons.push(error.to_string());
                }
            }
        }
        if reasons.is_empty() {
            reasons.push("no cgroup with a memory controller is mounted".to_owned());
        }
        Err(reasons.join("; "))
    }

    pub(crate) fn kind(&self) -> CgroupKind {
        match self.layout {
            Layout::One { .. } => CgroupKind::Cgroup1,
            Layout::Two { .. } => CgroupKind::Cgroup2,
        }
    }

    /// Takes an empty group with these limits.
    pub(crate) fn take(&mut self, limits: GroupLimits) -> io::Result<Group> {
        let mut busy = Vec::new();
        let mut found = None;
        while let Some(group) = self.free.pop() {
            if self.layout.is_empty(&group.name) {
                found = Some(group);
                break;
            }
            busy.push(group);
        }
        self.free.append(&mut busy);
        let mut group = if let Some(group) = found {
            self.layout.shed(&group.name);
            group
        } else {
            self.made += 1;
            let name = format!("s{}", self.made);
            self.layout.create(&name)?;
            let baseline = self.layout.counters(&name);
            let tasks_file = self.layout.tasks_file(&name);
            Group { name, limits: GroupLimits { memory_bytes: 0, processes: 0 }, baseline, tasks_file }
        };
        self.limit(&mut group, limits)?;
        Ok(group)
    }

    /// Changes the limits of a group. Writes only those that differ.
    pub(crate) fn limit(&self, group: &mut Group, limits: GroupLimits) -> io::Result<()> {
        if group.limits.memory_bytes != limits.memory_bytes {
            self.layout.set_memory(&group.name, limits.memory_bytes)?;
        }
        if group.limits.processes != limits.processes {
            self.layout.set_processes(&group.name, limits.processes)?;
        }
        group.limits = limits;
        Ok(())
    }

    /// Moves a process to a group without a tasks file.
    pub(crate) fn add(&self, group: &Group, pid: u32) -> io::Result<()> {
        fs::write(self.layout.file(&group.name, PROCESSES), pid.to_string())
    }

    /// The counters since the group was taken.
    pub(crate) fn counters(&self, group: &Group) -> Counters {
        group.since(self.layout.counters(&group.name))
    }

    /// The counter of processes in the group that the kernel killed for memory.
    pub(crate) fn kills(&self, group: &Group) -> Kills {
        Kills { file: self.layout.kills(&group.name), before: group.baseline.oom_kills }
    }

    /// Gives a group back, and returns the counters since it was taken. Its processes may still be exiting.
    pub(crate) fn give_back(&mut self, mut group: Group) -> Counters {
        let now = self.layout.counters(&group.name);
        let since = group.since(now);
        group.baseline = now;
        self.free.push(group);
        if self.free.len() > MOST_FREE {
            let oldest = self.free.remove(0);
            // A group whose processes are still exiting is tried again later.
            if fs::remove_dir(self.layout.root().join(&oldest.name)).is_err() {
                self.free.push(oldest);
            }
        }
        since
    }

    /// Removes all groups. Their processes must be gone or exiting.
    pub(crate) fn remove(&self) {
        self.layout.remove();
    }
}

impl Group {
    /// The file to which a single-threaded process writes a zero in order to move to this group.
    pub(crate) fn tasks_file(&self) -> Option<BorrowedFd<'_>> {
        self.tasks_file.as_ref().map(AsFd::as_fd)
    }

    fn since(&self, now: Counters) -> Counters {
        Counters {
            oom_kills: now.oom_kills.saturating_sub(self.baseline.oom_kills),
            forks_refused: now.forks_refused.saturating_sub(self.baseline.forks_refused),
        }
    }
}

/// Reads the kernel's count of processes killed for memory. Its file stays open: a session reads it after every run.
#[derive(Debug)]
pub(crate) struct KillCount {
    kills: Kills,
    file: Option<File>,
}

impl KillCount {
    pub(crate) fn new(kills: Kills) -> Self {
        Self { kills, file: None }
    }

    /// The number of processes killed since the sandbox was made.
    pub(crate) fn read(&mut self) -> u64 {
        if self.file.is_none() {
            self.file = File::open(&self.kills.file).ok();
        }
        let text = self.file.as_ref().and_then(|file| beginning_of(file).ok()).unwrap_or_default();
        number(&text, OOM_KILL).saturating_sub(self.kills.before)
    }
}

/// Removes the groups that a dead instance recorded in its folder.
pub(crate) fn remove_recorded(run_dir: &Path) {
    let Ok(record) = fs::read_to_string(run_dir.join(RECORD)) else { return };
    for line in record.lines().filter(|line| line.contains("/coracle-")) {
        remove_tree(Path::new(line));
    }
}

/// Removes a cgroup folder and its subfolders. Waits a short time for processes that are being killed.
fn remove_tree(folder: &Path) {
    for child in fs::read_dir(folder).into_iter().flatten().flatten() {
        if child.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_tree(&child.path());
        }
    }
    for _ in 0..200 {
        match fs::remove_dir(folder) {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            _ => return,
        }
    }
}

/// The layouts to try, best first: v2 at our group, then v1 at our groups, then v1 at the top.
fn candidates(membership: &str, mounts: &str) -> Vec<Layout> {
    let mut all = Vec::new();
    let own = |controller: &str| {
        membership.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':');
            let controllers = parts.nth(1)?;
            controllers.split(',').any(|name| name == controller).then(|| parts.next().unwrap_or("/").to_owned())
        })
    };
    if let Some(mount) = Mount::find(mounts, "cgroup2", "") {
        let mut base = mount.below(&own("").unwrap_or_default());
        if base.ends_with(HOST_GROUP) {
            base.pop();
        }
        all.push(Layout::Two { base });
    }
    if let Some(mount) = Mount::find(mounts, "cgroup", "memory") {
        let below = Layout::One { memory: mount.below(&own("memory").unwrap_or_default()) };
        let top = Layout::One { memory: mount.point };
        if below != top {
            all.push(below);
        }
        all.push(top);
    }
    all
}

/// The mount point of a hierarchy, and the group that is mounted there, which in a container is not always the root.
struct Mount {
    root: PathBuf,
    point: PathBuf,
}

impl Mount {
    /// Finds a mount. For v1, the hierarchy with this controller.
    fn find(mounts: &str, kind: &str, controller: &str) -> Option<Self> {
        mounts.lines().find_map(|line| {
            let (before, after) = line.split_once(" - ")?;
            let mut after = after.split(' ');
            let is_kind = after.next() == Some(kind);
            let has = controller.is_empty() || after.nth(1)?.split(',').any(|option| option == controller);
            let mut before = before.split(' ').skip(3);
            let (root, point) = (before.next()?.into(), before.next()?.into());
            (is_kind && has).then_some(Self { root, point })
        })
    }

    /// The folder of the group with this path.
    fn below(&self, group: &str) -> PathBuf {
        let group = Path::new(group);
        let below = group.strip_prefix(&self.root).or_else(|_| group.strip_prefix("/")).unwrap_or(group);
        self.point.components().chain(below.components()).collect()
    }
}

impl Layout {
    fn below(&self, name: &str) -> Self {
        match self {
            Self::One { memory } => Self::One { memory: memory.join(name) },
            Self::Two { base } => Self::Two { base: base.join(name) },
        }
    }

    fn root(&self) -> &Path {
        match self {
            Self::One { memory } => memory,
            Self::Two { base } => base,
        }
    }

    /// A file of a group.
    fn file(&self, group: &str, file: &str) -> PathBuf {
        let mut path = self.root().join(group);
        path.push(file);
        path
    }

    /// Creates the folder of the instance, after recording it.
    fn make(&self, run_dir: &Path) -> io::Result<()> {
        let root = self.root();
        fs::write(run_dir.join(RECORD), root.display().to_string())?;
        if let Self::Two { base } = self {
            let parent = base.parent().unwrap_or(base);
            delegate(parent, |path, text| fs::write(path, text))?;
        }
        fs::create_dir(root).map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", root.display())))?;
        if let Self::Two { base } = self {
            fs::write(base.join("cgroup.subtree_control"), "+memory +pids")?;
        }
        Ok(())
    }

    fn remove(&self) {
        remove_tree(self.root());
    }

    fn create(&self, name: &str) -> io::Result<()> {
        fs::create_dir(self.root().join(name))?;
        if matches!(self, Self::Two { .. }) {
            // Optional files, which make the end of a sandbox cleaner. Absent on machines without swap.
            for (file, value) in [("memory.oom.group", "1"), ("memory.swap.max", "0")] {
                let path = self.file(name, file);
                if path.exists() {
                    fs::write(path, value)?;
                }
            }
        }
        Ok(())
    }

    fn tasks_file(&self, name: &str) -> Option<File> {
        match self {
            Self::One { .. } => File::options().write(true).open(self.file(name, THREADS)).ok(),
            Self::Two { .. } => None,
        }
    }

    fn set_memory(&self, name: &str, bytes: u64) -> io::Result<()> {
        match self {
            Self::One { .. } => {
                let (limit, with_swap) =
                    (self.file(name, "memory.limit_in_bytes"), self.file(name, "memory.memsw.limit_in_bytes"));
                // The limit including swap must never be below the one without.
                if with_swap.exists() {
                    fs::write(&with_swap, "-1")?;
                }
                fs::write(&limit, bytes.to_string())?;
                if with_swap.exists() {
                    fs::write(&with_swap, bytes.to_string())?;
                }
                Ok(())
            }
            Self::Two { .. } => fs::write(self.file(name, "memory.max"), bytes.to_string()),
        }
    }

    fn set_processes(&self, name: &str, processes: u64) -> io::Result<()> {
        match self {
            Self::One { .. } => Ok(()),
            Self::Two { .. } => fs::write(self.file(name, "pids.max"), processes.to_string()),
        }
    }

    fn is_empty(&self, name: &str) -> bool {
        beginning(&self.file(name, PROCESSES)).is_ok_and(|text| text.is_empty())
    }

    /// Drops page cache that an earlier sandbox was charged for, if there is much. Version 2 has no file for that.
    fn shed(&self, name: &str) {
        let Self::One { .. } = self else { return };
        let used = beginning(&self.file(name, "memory.usage_in_bytes")).unwrap_or_default();
        if used.trim().parse::<u64>().is_ok_and(|bytes| bytes > LEFTOVER_BYTES) {
            // Failure is harmless, because cache is dropped under memory pressure anyway.
            let _ = fs::write(self.file(name, "memory.force_empty"), "0");
        }
    }

    fn kills(&self, name: &str) -> PathBuf {
        match self {
            Self::One { .. } => self.file(name, "memory.oom_control"),
            Self::Two { .. } => self.file(name, "memory.events"),
        }
    }

    fn counters(&self, name: &str) -> Counters {
        let oom_kills = field(&self.kills(name), OOM_KILL);
        match self {
            Self::One { .. } => Counters { oom_kills, forks_refused: 0 },
            Self::Two { .. } => Counters { oom_kills, forks_refused: field(&self.file(name, "pids.events"), "max") },
        }
    }
}

/// Enables the memory and pids controllers for the children of a v2 group. A group that contains processes cannot do
/// that, so we first move ourselves and our parent, the server, one level down. `enable` writes to a control file.
fn delegate(group: &Path, mut enable: impl FnMut(&Path, &str) -> io::Result<()>) -> io::Result<()> {
    let in_group = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", group.display()));
    let available = fs::read_to_string(group.join("cgroup.controllers")).map_err(in_group)?;
    for needed in ["memory", "pids"] {
        if !available.split_whitespace().any(|word| word == needed) {
            return Err(io::Error::other(format!(
                "{}: the {needed} controller is not delegated here",
                group.display()
            )));
        }
    }
    let control = group.join("cgroup.subtree_control");
    let enabled = fs::read_to_string(&control)?;
    let has = |name: &str| enabled.split_whitespace().any(|word| word == name);
    if has("memory") && has("pids") {
        return Ok(());
    }
    if enable(&control, "+memory +pids").is_ok() {
        return Ok(());
    }
    let leaf = group.join(HOST_GROUP);
    if let Err(error) = fs::create_dir(&leaf)
        && error.kind() != io::ErrorKind::AlreadyExists
    {
        return Err(error);
    }
    for pid in [std::process::id(), std::os::unix::process::parent_id()] {
        fs::write(leaf.join("cgroup.procs"), pid.to_string())?;
    }
    enable(&control, "+memory +pids")
}

/// The beginning of a control file, which is the whole of a file with counters: one read, since every sandbox needs it.
fn beginning(path: &Path) -> io::Result<String> {
    beginning_of(&File::open(path)?)
}

fn beginning_of(file: &File) -> io::Result<String> {
    let mut buffer = [0; 512];
    let length = file.read_at(&mut buffer, 0)?;
    Ok(String::from_utf8_lossy(&buffer[..length]).into_owned())
}

fn field(path: &Path, name: &str) -> u64 {
    number(&beginning(path).unwrap_or_default(), name)
}

fn number(text: &str, name: &str) -> u64 {
    text.lines()
        .find_map(|line| line.split_once(' ').filter(|(key, _)| *key == name)?.1.trim().parse().ok())
        .unwrap_or(0)
}
