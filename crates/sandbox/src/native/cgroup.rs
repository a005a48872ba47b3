//! Memory limits for whole process trees: cgroup v2 where it is delegated to us, else v1, else nothing.
//!
//! Processes are limited here only where it costs nothing, in the one group of v2. In v1 they have a hierarchy of their
//! own, and each hierarchy costs every sandbox one more move. The resource limit on processes holds for the whole tree
//! anyway, since each sandbox has a user namespace of its own.
//!
//! Moving another process stops all forks on the machine for a moment, and takes milliseconds on a machine at rest. In v1
//! a process of one thread that moves itself does neither: there a sandbox is given the door of its group, and enters
//! before it is sealed.
//!
//! Groups are used again: making one and setting its limits costs more than an execution. A group is given out only when
//! it is empty. What is found is found by trying; all paths hang below one folder that is named in the instance's
//! folder first, so that a crash leaves nothing that the next start does not find.

use super::messages::{CgroupKind, Counters, Kills};
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

#[cfg(test)]
mod tests;

/// The limits of one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GroupLimits {
    pub(crate) memory_bytes: u64,
    pub(crate) processes: u64,
}

/// One sandbox's group.
#[derive(Debug)]
pub(crate) struct Group {
    name: String,
    limits: GroupLimits,
    /// What the kernel had counted when the group was made or last given back.
    baseline: Counters,
    tasks_file: Option<File>,
}

/// Where this instance's groups are.
#[derive(Debug)]
pub(crate) struct Cgroups {
    layout: Layout,
    free: Vec<Group>,
    made: u64,
}

/// The folders below which groups are made.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Layout {
    One { memory: PathBuf },
    Two { base: PathBuf },
}

/// The file in an instance's folder that names its cgroup folders, one a line.
const RECORD: &str = "cgroups";

/// The file that lists the processes of a group, and moves them there.
const PROCESSES: &str = "cgroup.procs";
/// The file of v1 that moves one thread.
const THREADS: &str = "tasks";

/// The v2 group that the server and its launcher are moved to where they stand in the way; its parent is then ours.
const HOST_GROUP: &str = "coracle-host";

/// So many wait to be given out again; what a rush leaves beyond that is removed.
const MOST_FREE: usize = 32;

/// Groups of v1 above this use are emptied of page cache before they are given out again.
const LEFTOVER_BYTES: u64 = 8 << 20;

impl Cgroups {
    /// Tries what this machine has. `membership` is the text of `/proc/self/cgroup`, `mounts` of `/proc/self/mountinfo`.
    /// `limits` are those that sandboxes will most likely ask for: setting them is the trial.
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

    /// An empty group with these limits.
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

    /// Changes the limits of a group, writing only what differs.
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

    /// Moves a process into a group that has no door.
    pub(crate) fn add(&self, group: &Group, pid: u32) -> io::Result<()> {
        fs::write(self.layout.file(&group.name, PROCESSES), pid.to_string())
    }

    /// What the kernel has counted since the group was taken.
    pub(crate) fn counters(&self, group: &Group) -> Counters {
        group.since(self.layout.counters(&group.name))
    }

    /// Where the kernel counts the processes of a group that it has killed for memory.
    pub(crate) fn kills(&self, group: &Group) -> Kills {
        Kills { file: self.layout.kills(&group.name), before: group.baseline.oom_kills }
    }

    /// Gives a group back, and says what the kernel has counted since it was taken. It may still be emptying.
    pub(crate) fn give_back(&mut self, mut group: Group) -> Counters {
        let now = self.layout.counters(&group.name);
        let since = group.since(now);
        group.baseline = now;
        self.free.push(group);
        if self.free.len() > MOST_FREE {
            let oldest = self.free.remove(0);
            // One that is still emptying gets another turn.
            if fs::remove_dir(self.layout.root().join(&oldest.name)).is_err() {
                self.free.push(oldest);
            }
        }
        since
    }

    /// Removes all groups; their processes must be gone or going.
    pub(crate) fn remove(&self) {
        self.layout.remove();
    }
}

impl Group {
    /// What a process of one thread writes a zero to in order to move here.
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

impl Kills {
    /// How many there were since the sandbox was made.
    pub(crate) fn count(&self) -> u64 {
        field(&self.file, "oom_kill").saturating_sub(self.before)
    }
}

/// Removes the groups that a dead instance recorded in its folder.
pub(crate) fn remove_recorded(run_dir: &Path) {
    let Ok(record) = fs::read_to_string(run_dir.join(RECORD)) else { return };
    for line in record.lines().filter(|line| line.contains("/coracle-")) {
        remove_tree(Path::new(line));
    }
}

/// Removes a cgroup folder and those in it, waiting a little for processes that are being killed.
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

/// What may work, best first: v2 at our own group, then v1 at our own groups, then v1 at the top.
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

/// Where a hierarchy is mounted, and which group of it is at the top there: in a container not always the first.
struct Mount {
    root: PathBuf,
    point: PathBuf,
}

impl Mount {
    /// For v1, the hierarchy with this controller.
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

    /// Where the group of this path is.
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

    /// Makes the folder of the instance, recording it first.
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
            // Without these the sandbox is ended less cleanly, not less surely: absent on machines without swap.
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
                // The limit with swap must never be below the one without.
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

    /// Drops page cache that an earlier sandbox was charged for, if it is much. Version 2 has no file for that.
    fn shed(&self, name: &str) {
        let Self::One { .. } = self else { return };
        let used = beginning(&self.file(name, "memory.usage_in_bytes")).unwrap_or_default();
        if used.trim().parse::<u64>().is_ok_and(|bytes| bytes > LEFTOVER_BYTES) {
            // Only a kindness to the next sandbox: cache is given up under pressure anyway.
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
        let oom_kills = field(&self.kills(name), "oom_kill");
        match self {
            Self::One { .. } => Counters { oom_kills, forks_refused: 0 },
            Self::Two { .. } => Counters { oom_kills, forks_refused: field(&self.file(name, "pids.events"), "max") },
        }
    }
}

/// Lets the children of a v2 group have memory and pids controllers. A group with processes of its own may not: then we
/// move ourselves and our parent, the server, one level down first. `enable` writes to a control file.
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

/// The beginning of a control file, which is all of those that count: one read, since this is done for every sandbox.
fn beginning(path: &Path) -> io::Result<String> {
    let mut buffer = [0; 512];
    let length = File::open(path)?.read(&mut buffer)?;
    Ok(String::from_utf8_lossy(&buffer[..length]).into_owned())
}

fn field(path: &Path, name: &str) -> u64 {
    let text = beginning(path).unwrap_or_default();
    text.lines()
        .find_map(|line| line.split_once(' ').filter(|(key, _)| *key == name)?.1.trim().parse().ok())
        .unwrap_or(0)
}
