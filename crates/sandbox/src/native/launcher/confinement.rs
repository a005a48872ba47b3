//! The whole confinement: everything that is done to a child between its fork and the first untrusted instruction.
//!
//! `entering` runs as soon as the child exists, in its new user, mount and pid namespaces. The child then waits in the
//! pool. `sealing` runs when a workspace is bound to it. Trust boundary: every line here is security-critical.

use super::landlock;
use super::network;
use super::plan::{AT_FDCWD, Arg, Offset, Plan};
use super::privilege::at_most;
use super::root::{INSIDE_ID, ProcMount};
use super::seccomp::{self, MemoryCount};
use crate::Network;
use crate::native::messages::RLIMITS;
use Arg::{Bytes, IfGiven, Parameter, Value};
use rustix::mount::MountFlags;
use rustix::process::Resource;
use std::ffi::CStr;

/// Namespaces that are created for every child. Network, ipc, uts and cgroup namespaces are those of the zygote: they
/// are empty, and no child can create a socket, a queue or a segment in them, or change them. Children that have a
/// network get a network namespace of their own.
pub(super) fn new_namespaces(network: Network) -> i32 {
    libc::CLONE_NEWUSER | libc::CLONE_NEWNS | libc::CLONE_NEWPID | network::namespaces(network)
}

/// The `/proc` of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proc {
    /// Mounted for the child's own pid namespace, with processes only.
    Own,
    /// An empty folder, because the kernel refuses the mount (inside Docker).
    Empty,
}

impl Proc {
    /// The zygote has a complete one, to set up its children.
    pub(super) fn of_zygote(self) -> Option<ProcMount> {
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        (self == Self::Own).then_some(ProcMount { flags, options: c"" })
    }

    /// A sandbox without a zygote has the same as all sandboxes.
    pub(super) fn of_sandbox(self) -> Option<ProcMount> {
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC | MountFlags::RDONLY;
        (self == Self::Own).then_some(ProcMount { flags, options: PROC_OPTIONS })
    }
}

/// Shows processes only, and nothing about the machine.
const PROC_OPTIONS: &CStr = c"subset=pid";

/// The parameters of the plans.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    /// The zygote's IDs, to which the child's IDs are mapped.
    pub(super) outer_uid: u32,
    pub(super) outer_gid: u32,
    pub(super) tmp_bytes: u64,
    pub(super) tmp_inodes: u64,
    pub(super) proc: Proc,
    /// The highest capability of this kernel.
    pub(super) last_capability: u64,
    /// Additional readable folders: a Python outside /usr, or a /bin that is not a link.
    pub(super) readable: Vec<String>,
    /// Additional writable folders.
    pub(super) writable: Vec<String>,
    /// The version of Landlock. Zero if it is not available.
    pub(super) landlock_abi: u32,
    /// How memory is measured.
    pub(super) memory: MemoryCount,
    pub(super) network: Network,
}

const MOVE_MOUNT_F_EMPTY_PATH: u64 = 0x4;
const MOVE_MOUNT_T_EMPTY_PATH: u64 = 0x40;

/// The limit on core dumps. If the host pipes core dumps to a program, the kernel starts that program, as root and
/// outside, whatever the limit; only with 1 byte there is no dump at all.
const NO_CORE: u64 = 1;

/// The limit on pending signals, which are also counted per user, who is the same for all sandboxes: none may use up
/// all of them.
const PENDING_SIGNALS: u64 = 1_024;

/// In the new namespaces: IDs, `/proc`, `/tmp`, the artifacts. Parameter 0 is the mount of the artifacts.
pub(super) fn entering(settings: &Settings) -> Plan {
    let mut plan = Plan::default();
    plan.write_file("/proc/self/setgroups", "deny");
    plan.write_file("/proc/self/uid_map", &format!("{INSIDE_ID} {} 1\n", settings.outer_uid));
    plan.write_file("/proc/self/gid_map", &format!("{INSIDE_ID} {} 1\n", settings.outer_gid));
    let plain = libc::MS_NOSUID | libc::MS_NODEV;
    match settings.proc {
        Proc::Own => {
            if settings.network == Network::Proxy {
                network::limit_buffers(&mut plan);
            }
            let options = PROC_OPTIONS.to_str().unwrap_or_default();
            mount(&mut plan, "proc", "/proc", plain | libc::MS_NOEXEC | libc::MS_RDONLY, options);
        }
        Proc::Empty => {
            mount(&mut plan, "tmpfs", "/proc", plain | libc::MS_NOEXEC | libc::MS_RDONLY, "size=4k,mode=0555");
        }
    }
    if settings.network == Network::Proxy {
        network::listen(&mut plan);
    }
    settle(&mut plan, settings);
    plan
}

/// Like [`entering`], for a sandbox without a zygote, whose IDs and `/proc` the launcher has set up.
pub(super) fn settling(settings: &Settings) -> Plan {
    let mut plan = Plan::default();
    settle(&mut plan, settings);
    plan
}

fn settle(plan: &mut Plan, settings: &Settings) {
    let plain = libc::MS_NOSUID | libc::MS_NODEV;
    let tmp = format!("size={},nr_inodes={},mode=0700", settings.tmp_bytes, settings.tmp_inodes);
    mount(plan, "tmpfs", "/tmp", plain, &tmp);
    bind(plan, Parameter(0), "/artifacts");
    plan.call("close the mount of the artifacts", libc::SYS_close, &[Parameter(0)]);
    let least = [
        (libc::RLIMIT_CORE, at_most(Resource::Core, NO_CORE)),
        (libc::RLIMIT_MSGQUEUE, 0),
        (libc::RLIMIT_MEMLOCK, 0),
        (libc::RLIMIT_SIGPENDING, at_most(Resource::Sigpending, PENDING_SIGNALS)),
    ];
    for (resource, most) in least {
        let value = plan.bytes(&[most.to_ne_bytes(), most.to_ne_bytes()].concat());
        set_rlimit(plan, resource, value);
    }
    for capability in 0..=settings.last_capability {
        let args = [Value(libc::PR_CAPBSET_DROP as u64), Value(capability)];
        plan.call("drop a capability from the bounding set", libc::SYS_prctl, &args);
    }
    plan.call("setsid", libc::SYS_setsid, &[]);
    plan.call("umask", libc::SYS_umask, &[Value(0o022)]);
    if settings.landlock_abi > 0 {
        let folders = landlock::Folders { readable: &settings.readable, writable: &settings.writable };
        landlock::begin(plan, settings.landlock_abi, folders, settings.network);
    }
}

/// The parameters of [`sealing`] for the mounts of server modules and skills, the tasks file of the cgroup, a folder of
/// the workspace that is hidden, and the folder that is mounted over it.
const SERVERS_PARAMETER: usize = 1 + RLIMITS.len();
const SKILLS_PARAMETER: usize = SERVERS_PARAMETER + 1;
const TASKS_FILE_PARAMETER: usize = SKILLS_PARAMETER + 1;
const HIDDEN_PARAMETER: usize = TASKS_FILE_PARAMETER + 1;
const INSTEAD_PARAMETER: usize = HIDDEN_PARAMETER + 1;

/// The cgroup, the workspace, resource limits, no capabilities, Landlock, the last filter. Parameter 0 is the mount of
/// the workspace, the next are the values of [`RLIMITS`], and the last five are the optional ones above.
pub(super) fn sealing(settings: &Settings) -> Result<Plan, seccomp::FilterError> {
    let mut plan = Plan::default();
    let oneself = plan.text("0");
    plan.call("enter the cgroup", libc::SYS_write, &[IfGiven(TASKS_FILE_PARAMETER), Bytes(oneself), Value(1)]);
    plan.call("close the tasks file of the cgroup", libc::SYS_close, &[IfGiven(TASKS_FILE_PARAMETER)]);
    bind(&mut plan, Parameter(0), "/workspace");
    plan.call("close the mount of the workspace", libc::SYS_close, &[Parameter(0)]);
    // The folder was opened through the same mount that is now at /workspace.
    let empty = plan.text("");
    let onto = [IfGiven(INSTEAD_PARAMETER), Bytes(empty), IfGiven(HIDDEN_PARAMETER), Bytes(empty)];
    let flags = Value(MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
    plan.call("hide a folder of the workspace", libc::SYS_move_mount, &[onto.as_slice(), &[flags]].concat());
    for given in [HIDDEN_PARAMETER, INSTEAD_PARAMETER] {
        plan.call("close what hides a folder", libc::SYS_close, &[IfGiven(given)]);
    }
    for (modules, seen_at) in [(SERVERS_PARAMETER, "/coracle/servers"), (SKILLS_PARAMETER, "/coracle/skills")] {
        bind(&mut plan, IfGiven(modules), seen_at);
        plan.call(format!("close the mount of {seen_at}"), libc::SYS_close, &[IfGiven(modules)]);
    }
    let workspace = plan.text("/workspace");
    plan.call("chdir /workspace", libc::SYS_chdir, &[Bytes(workspace)]);
    for (index, resource) in RLIMITS.iter().enumerate() {
        let value = plan.bytes(&[0; 16]);
        plan.fill(value, index + 1);
        plan.fill(value.plus(8), index + 1);
        set_rlimit(&mut plan, *resource, value);
    }
    // _LINUX_CAPABILITY_VERSION_3 for this process, and three empty sets of two words each.
    let header = plan.bytes(&[0x2008_0522_u32.to_ne_bytes(), 0_u32.to_ne_bytes()].concat());
    let none = plan.bytes(&[0; 24]);
    plan.call("drop capabilities", libc::SYS_capset, &[Bytes(header), Bytes(none)]);
    if settings.landlock_abi > 0 {
        landlock::complete(&mut plan, settings.landlock_abi);
    }
    let filter = seccomp::of_seal(settings.network)?;
    let program = plan.bytes(&seccomp::to_bytes(&filter));
    let descriptor = plan.bytes(&[(filter.len() as u64).to_ne_bytes(), [0; 8]].concat());
    plan.pointer(descriptor.plus(8), program);
    let args = [Value(u64::from(libc::SECCOMP_SET_MODE_FILTER)), Value(0), Bytes(descriptor)];
    plan.call("seccomp", libc::SYS_seccomp, &args);
    Ok(plan)
}

fn mount(plan: &mut Plan, kind: &str, target: &str, flags: u64, options: &str) {
    let (kind_text, target_text, data) = (plan.text(kind), plan.text(target), plan.text(options));
    let args = [Bytes(kind_text), Bytes(target_text), Bytes(kind_text), Value(flags), Bytes(data)];
    plan.call(format!("mount {kind} at {target}"), libc::SYS_mount, &args);
}

fn bind(plan: &mut Plan, tree: Arg, target: &str) {
    let (empty, name) = (plan.text(""), plan.text(target));
    let args = [tree, Bytes(empty), AT_FDCWD, Bytes(name), Value(MOVE_MOUNT_F_EMPTY_PATH)];
    plan.call(format!("bind {target}"), libc::SYS_move_mount, &args);
}

fn set_rlimit(plan: &mut Plan, resource: libc::__rlimit_resource_t, value: Offset) {
    let args = [Value(0), Value(u64::from(resource)), Bytes(value), Value(0)];
    plan.call(format!("limit resource {resource}"), libc::SYS_prlimit64, &args);
}
