//! Tests with plain folders that are laid out like the kernel's trees. The test does what a plain file cannot, such as
//! refuse a write or count.

use super::{CgroupKind, Cgroups, Counters, GroupLimits, Layout, RECORD, candidates, remove_recorded};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A machine: one folder per mount, and the folder of an instance.
struct Machine {
    folder: TempDir,
}

impl Machine {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        fs::create_dir(folder.path().join("run")).unwrap();
        Self { folder }
    }

    fn run_dir(&self) -> PathBuf {
        self.folder.path().join("run")
    }

    fn at(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    /// A v2 group with these controllers, and those that are enabled for its children.
    fn two(&self, path: &str, controllers: &str, enabled: &str) {
        let group = self.at(path);
        fs::create_dir_all(&group).unwrap();
        for (file, text) in [
            ("cgroup.controllers", controllers),
            ("cgroup.subtree_control", enabled),
            ("cgroup.procs", ""),
            ("cgroup.type", "domain\n"),
            ("cgroup.events", "populated 0\nfrozen 0\n"),
        ] {
            fs::write(group.join(file), text).unwrap();
        }
    }

    fn mounts(&self, lines: &[(&str, &str, &str)]) -> String {
        let base = self.folder.path().display();
        let line = |(at, kind, options): &(&str, &str, &str)| {
            format!("31 23 0:28 / {base}/{at} rw,relatime shared:9 - {kind} {kind} rw,{options}\n")
        };
        "22 1 8:1 / / rw,relatime - ext4 /dev/root rw\n".to_owned() + &lines.iter().map(line).collect::<String>()
    }

    fn open(&self, membership: &str, mounts: &str) -> Result<Cgroups, String> {
        Cgroups::open(
            "0123",
            &self.run_dir(),
            (membership, mounts),
            GroupLimits { memory_bytes: 64 << 20, processes: 16 },
        )
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.at(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    fn recorded(&self) -> Vec<PathBuf> {
        fs::read_to_string(self.run_dir().join(RECORD)).unwrap_or_default().lines().map(PathBuf::from).collect()
    }
}

const LIMITS: GroupLimits = GroupLimits { memory_bytes: 500_000_000, processes: 64 };

/// Creates the files that the kernel would create in a new group.
fn fill_two(group: &Path) {
    for (file, text) in [
        ("cgroup.procs", ""),
        ("memory.current", "0\n"),
        ("memory.events", "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\noom_group_kill 0\n"),
        ("memory.oom.group", "0\n"),
        ("memory.swap.max", "max\n"),
        ("pids.events", "max 0\n"),
    ] {
        fs::write(group.join(file), text).unwrap();
    }
}

#[test]
fn version_two_is_used_where_it_is_delegated() {
    let machine = Machine::new();
    let scope = "cg/user.slice/app.scope";
    machine.two(scope, "cpuset cpu io memory hugetlb pids rdma misc\n", "");
    let mounts = machine.mounts(&[("cg", "cgroup2", "nsdelegate,memory_recursiveprot")]);
    let mut cgroups = machine.open("0::/user.slice/app.scope\n", &mounts).unwrap();
    assert_eq!(cgroups.kind(), CgroupKind::Cgroup2);
    assert_eq!(machine.recorded(), [machine.at(&format!("{scope}/coracle-0123"))]);
    // Both levels enable the controllers, and the trial group has limits.
    for control in [format!("{scope}/cgroup.subtree_control"), format!("{scope}/coracle-0123/cgroup.subtree_control")] {
        assert_eq!(machine.read(&control), "+memory +pids");
    }
    assert!(!machine.at(&format!("{scope}/coracle-host")).exists(), "no process had to move");

    let own = machine.at(&format!("{scope}/coracle-0123"));
    fill_two(&own.join("s1"));
    let group = cgroups.take(LIMITS).unwrap();
    assert_eq!(fs::read_to_string(own.join("s1/memory.max")).unwrap(), "500000000");
    assert_eq!(fs::read_to_string(own.join("s1/pids.max")).unwrap(), "64");
    cgroups.add(&group, 4321).unwrap();
    assert_eq!(fs::read_to_string(own.join("s1/cgroup.procs")).unwrap(), "4321");
}

/// A machine without swap has no file for it. Only the kernel creates files in a group.
#[test]
fn files_that_the_kernel_does_not_offer_are_not_created() {
    let machine = Machine::new();
    machine.two("cg", "memory pids", "memory pids");
    let layout = Layout::Two { base: machine.at("cg") };
    layout.create("plain").unwrap();
    assert_eq!(fs::read_dir(machine.at("cg/plain")).unwrap().count(), 0);
}

#[test]
fn version_two_without_the_controllers_reports_which_is_missing() {
    for (controllers, missing) in [("cpu io pids\n", "memory"), ("cpuset cpu memory\n", "pids"), ("\n", "memory")] {
        let machine = Machine::new();
        machine.two("cg/user.slice", controllers, "");
        let mounts = machine.mounts(&[("cg", "cgroup2", "nsdelegate")]);
        let reason = machine.open("0::/user.slice\n", &mounts).unwrap_err();
        assert!(reason.contains(&format!("the {missing} controller is not delegated")), "{reason}");
        assert!(!machine.at("cg/user.slice/coracle-0123").exists());
        assert_eq!(machine.read("cg/user.slice/cgroup.subtree_control"), "", "nothing was written");
    }
}

/// The kernel refuses to enable controllers in a group that contains processes.
#[test]
fn version_two_with_processes_in_the_group_moves_the_server_first() {
    let machine = Machine::new();
    machine.two("cg/app", "memory pids", "");
    let mounts = machine.mounts(&[("cg", "cgroup2", "nsdelegate")]);
    let mut refusals = 1;
    let enable = |path: &Path, text: &str| {
        if path == machine.at("cg/app/cgroup.subtree_control") && refusals > 0 {
            refusals -= 1;
            return Err(std::io::Error::from_raw_os_error(libc::EBUSY));
        }
        fs::write(path, text)
    };
    super::delegate(&machine.at("cg/app"), enable).unwrap();
    assert_eq!(refusals, 0);
    assert_eq!(machine.read("cg/app/cgroup.subtree_control"), "+memory +pids");
    // Both process IDs were written, but a plain file holds only the last one.
    let moved = machine.read("cg/app/coracle-host/cgroup.procs");
    assert_eq!(moved, std::os::unix::process::parent_id().to_string());

    // The launcher of the next start is in that group: no second level is created below.
    let next = candidates("0::/app/coracle-host\n", &mounts);
    assert_eq!(next, [Layout::Two { base: machine.at("cg/app") }]);
}

#[test]
fn version_two_that_stays_busy_is_not_used() {
    let machine = Machine::new();
    machine.two("cg/app", "memory pids", "");
    let busy = |_: &Path, _: &str| Err(std::io::Error::from_raw_os_error(libc::EBUSY));
    let error = super::delegate(&machine.at("cg/app"), busy).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EBUSY));
}

#[test]
fn counters_count_from_when_the_group_was_taken() {
    let machine = Machine::new();
    machine.two("cg", "memory pids", "memory pids");
    let mut cgroups = machine.open("0::/\n", &machine.mounts(&[("cg", "cgroup2", "nsdelegate")])).unwrap();
    let group_dir = machine.at("cg/coracle-0123/s1");
    fill_two(&group_dir);
    let count = |oom: u64, refused: u64| {
        let events = format!("low 0\nhigh 0\nmax 17\noom 5\noom_kill {oom}\noom_group_kill 1\n");
        fs::write(group_dir.join("memory.events"), events).unwrap();
        fs::write(group_dir.join("pids.events"), format!("max {refused}\n")).unwrap();
    };
    let group = cgroups.take(LIMITS).unwrap();
    assert_eq!(cgroups.counters(&group), Counters::default());
    count(2, 7);
    assert_eq!(cgroups.counters(&group), Counters { oom_kills: 2, forks_refused: 7 });
    let last = cgroups.give_back(group);
    assert_eq!(last, Counters { oom_kills: 2, forks_refused: 7 });
    let again = cgroups.take(LIMITS).unwrap();
    assert_eq!(again.name, "s1", "the same group");
    assert_eq!(cgroups.counters(&again), Counters::default(), "what an earlier sandbox did is not counted");
    count(3, 7);
    assert_eq!(cgroups.counters(&again), Counters { oom_kills: 1, forks_refused: 0 });
    // Counters that cannot be parsed count as zero and do not panic.
    fs::write(group_dir.join("memory.events"), "oom_kill many\n").unwrap();
    fs::remove_file(group_dir.join("pids.events")).unwrap();
    assert_eq!(cgroups.counters(&again), Counters::default());
}

#[test]
fn only_empty_groups_are_reused_and_only_changed_limits_are_written() {
    let machine = Machine::new();
    machine.two("cg", "memory pids", "memory pids");
    let mut cgroups = machine.open("0::/\n", &machine.mounts(&[("cg", "cgroup2", "nsdelegate")])).unwrap();
    let own = machine.at("cg/coracle-0123");
    fill_two(&own.join("s1"));
    let first = cgroups.take(LIMITS).unwrap();
    fs::write(own.join("s1/cgroup.procs"), "99\n").unwrap();
    cgroups.give_back(first);
    let second = cgroups.take(LIMITS).unwrap();
    assert_eq!(second.name, "s2", "the first is not empty yet");
    fs::write(own.join("s1/cgroup.procs"), "").unwrap();
    for file in ["memory.max", "pids.max"] {
        fs::write(own.join("s1").join(file), "untouched").unwrap();
    }
    let more = GroupLimits { processes: 65, ..LIMITS };
    let third = cgroups.take(more).unwrap();
    assert_eq!(third.name, "s1");
    assert_eq!(fs::read_to_string(own.join("s1/memory.max")).unwrap(), "untouched");
    assert_eq!(fs::read_to_string(own.join("s1/pids.max")).unwrap(), "65");
}

/// A layout recorded on a machine where systemd's empty v2 tree is mounted beside the v1 controllers.
#[test]
fn a_hybrid_machine_counts_as_version_one() {
    let machine = Machine::new();
    machine.two("cg/unified", "\n", "\n");
    for group in ["cg/memory/a/b", "cg/pids"] {
        fs::create_dir_all(machine.at(group)).unwrap();
    }
    let mounts = machine.mounts(&[
        ("cg/cpu", "cgroup", "cpu"),
        ("cg/memory", "cgroup", "memory"),
        ("cg/pids", "cgroup", "pids"),
        ("cg/systemd", "cgroup", "name=systemd"),
        ("cg/unified", "cgroup2", "nsdelegate"),
    ]);
    let mut cgroups = machine.open("9:name=systemd:/\n8:pids:/\n4:memory:/a/b\n0::/\n", &mounts).unwrap();
    assert_eq!(cgroups.kind(), CgroupKind::Cgroup1);
    let memory = machine.at("cg/memory/a/b/coracle-0123");
    assert_eq!(machine.recorded().as_slice(), std::slice::from_ref(&memory));
    assert!(!machine.at("cg/unified/coracle-0123").exists());

    fs::write(memory.join("s1/cgroup.procs"), "").unwrap();
    fs::write(memory.join("s1/memory.memsw.limit_in_bytes"), "").unwrap();
    let count = |oom: u64| {
        let control = format!("oom_kill_disable 0\nunder_oom 1\noom_kill {oom}\n");
        fs::write(memory.join("s1/memory.oom_control"), control).unwrap();
    };
    let group = cgroups.take(LIMITS).unwrap();
    let read = |path: PathBuf| fs::read_to_string(path).unwrap();
    assert_eq!(read(memory.join("s1/memory.limit_in_bytes")), "500000000");
    assert_eq!(read(memory.join("s1/memory.memsw.limit_in_bytes")), "500000000");
    count(4);
    assert_eq!(cgroups.counters(&group), Counters { oom_kills: 4, forks_refused: 0 });
    cgroups.give_back(group);
    let again = cgroups.take(LIMITS).unwrap();
    count(5);
    assert_eq!(cgroups.counters(&again), Counters { oom_kills: 1, forks_refused: 0 });
    cgroups.add(&again, 77).unwrap();
    assert_eq!(read(memory.join("s1/cgroup.procs")), "77");
    // The hierarchy of processes would cost another move, and is not used.
    assert_eq!(fs::read_dir(machine.at("cg/pids")).unwrap().count(), 0);
    assert!(!memory.join("s1/pids.max").exists());
}

/// Two controllers in one hierarchy, as some distributions mount them.
#[test]
fn controllers_that_share_a_mount_are_found() {
    let mounts = "1 2 0:3 / /cg/all rw - cgroup cgroup rw,memory,pids\n";
    let membership = "3:memory,pids:/x\n";
    let own = PathBuf::from("/cg/all/x");
    let top = PathBuf::from("/cg/all");
    assert_eq!(candidates(membership, mounts), [Layout::One { memory: own }, Layout::One { memory: top }]);
}

/// Page cache of an earlier sandbox is dropped if there is much.
#[test]
fn much_cache_is_dropped_before_a_group_of_version_one_is_reused() {
    let machine = Machine::new();
    fs::create_dir_all(machine.at("cg/memory")).unwrap();
    let mut cgroups = machine.open("4:memory:/\n", &machine.mounts(&[("cg/memory", "cgroup", "memory")])).unwrap();
    let group_dir = machine.at("cg/memory/coracle-0123/s1");
    fs::write(group_dir.join("cgroup.procs"), "").unwrap();
    for (used, dropped) in [("8388608\n", false), ("8388609\n", true)] {
        fs::write(group_dir.join("memory.usage_in_bytes"), used).unwrap();
        let group = cgroups.take(LIMITS).unwrap();
        assert_eq!((group.name.as_str(), group_dir.join("memory.force_empty").exists()), ("s1", dropped));
        cgroups.give_back(group);
    }
}

/// In a container, the path in `/proc/self/cgroup` may be the host's, which does not exist below the mount.
#[test]
fn paths_of_the_host_that_a_container_does_not_see_are_ignored() {
    let machine = Machine::new();
    machine.two("cg2", "memory pids", "memory pids");
    fs::create_dir_all(machine.at("cg/memory")).unwrap();
    let one = [("cg/memory", "cgroup", "memory")];
    let membership = "8:pids:/docker/abc\n4:memory:/docker/abc\n0::/docker/abc\n";
    let cgroups = machine.open(membership, &machine.mounts(&one)).unwrap();
    assert_eq!(cgroups.kind(), CgroupKind::Cgroup1);
    assert_eq!(machine.recorded(), [machine.at("cg/memory/coracle-0123")]);

    // If the list of mounts has the mount's root, the rest of the path is found.
    let base = machine.folder.path().display();
    let mounts = format!("31 23 0:28 /docker/abc {base}/cg2 rw,relatime - cgroup2 cgroup rw\n");
    let cgroups = machine.open("0::/docker/abc\n", &mounts).unwrap();
    assert_eq!(cgroups.kind(), CgroupKind::Cgroup2);
    assert_eq!(machine.recorded(), [machine.at("cg2/coracle-0123")]);

    let reason = machine.open("0::/docker/other\n", &machine.mounts(&[("cg2", "cgroup2", "rw")])).unwrap_err();
    assert!(reason.contains("docker/other"), "{reason}");
}

#[test]
fn a_machine_without_cgroups_is_reported() {
    let machine = Machine::new();
    let others = machine.mounts(&[("cg/cpu", "cgroup", "cpu,cpuacct"), ("cg/pids", "cgroup", "pids")]);
    for (membership, mounts) in
        [("", ""), ("0::/\n", "nonsense\n - \n"), ("8:pids:/\n", others.as_str()), (":::\n\n:", "a - b")]
    {
        let reason = machine.open(membership, mounts).unwrap_err();
        assert!(reason.contains("no cgroup with a memory controller"), "{reason}");
    }
}

/// A tree that looks right but refuses: each attempt is reported, and leaves nothing behind.
#[test]
fn a_refusal_leaves_nothing_behind() {
    let machine = Machine::new();
    machine.two("cg/unified", "cpu\n", "");
    fs::write(machine.at("cg/memory"), "a file, where no folder can be made").unwrap();
    let mounts = machine.mounts(&[("cg/unified", "cgroup2", "nsdelegate"), ("cg/memory", "cgroup", "memory")]);
    let before = fs::read_dir(machine.at("cg/unified")).unwrap().count();
    let reason = machine.open("4:memory:/\n0::/\n", &mounts).unwrap_err();
    assert!(reason.contains("cg/unified: the memory controller") && reason.contains("cg/memory"), "{reason}");
    assert_eq!(fs::read_dir(machine.at("cg/unified")).unwrap().count(), before);
}

#[test]
fn only_what_a_dead_instance_recorded_is_removed() {
    let machine = Machine::new();
    for group in ["cg/coracle-1/s1", "cg/coracle-1/s2", "cg/coracle-2/s1", "cg/other/s1"] {
        fs::create_dir_all(machine.at(group)).unwrap();
    }
    let record =
        ["cg/coracle-1", "cg/other", "cg/gone/coracle-9", ""].map(|path| machine.at(path).display().to_string());
    fs::write(machine.run_dir().join(RECORD), record.join("\n") + "\n\n/\nrelative\n").unwrap();
    remove_recorded(&machine.run_dir());
    assert!(!machine.at("cg/coracle-1").exists());
    for kept in ["cg/coracle-2/s1", "cg/other/s1", "run"] {
        assert!(machine.at(kept).exists(), "{kept}");
    }
    // A folder with files is not a cgroup, and stays with its contents.
    fs::create_dir_all(machine.at("home/coracle-notes")).unwrap();
    fs::write(machine.at("home/coracle-notes/text"), "mine").unwrap();
    fs::write(machine.run_dir().join(RECORD), machine.at("home/coracle-notes").display().to_string()).unwrap();
    remove_recorded(&machine.run_dir());
    assert_eq!(machine.read("home/coracle-notes/text"), "mine");
    // Without a record there is nothing to do.
    fs::remove_file(machine.run_dir().join(RECORD)).unwrap();
    remove_recorded(&machine.run_dir());
}
