//! Starts the zygote: namespaces, the file tree, no privileges, the filters, Python.

use super::confinement::{NEW_NAMESPACES, Proc, Settings, entering, sealing};
use super::kernel::{Forked, exit_now, fork_into, install_filter};
use super::privilege::{Privilege, drop_root};
use super::{LaunchError, root, seccomp};
use crate::native::messages::{self, Slot, Start};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::mount::{MountFlags, mount};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Signal, set_parent_process_death_signal};
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// A running zygote.
#[derive(Debug)]
pub(super) struct Zygote {
    pub(super) pidfd: OwnedFd,
    pub(super) control: OwnedFd,
    /// Standard error of Python, until it can send messages.
    pub(super) complaints: File,
}

/// A message of the zygote.
#[derive(Debug)]
pub(super) enum FromZygote {
    /// The zygote is warm. Bit N of `failed` is set if the N-th module could not be imported in advance.
    Hello { version: [u32; 3], failed: u64 },
    /// A child is waiting, and its pidfd is attached. `pid` is its process ID in the zygote's namespace.
    Forked { slot: Slot, pid: u64 },
    /// No child could be created.
    Failed { slot: Slot, errno: i32 },
    /// A child is gone.
    Ended { pid: u64, status: i32 },
}

impl FromZygote {
    /// Parses three words, of which the first is the kind. `confine.rs` and `zygote.py` of the guest write them.
    fn read(bytes: &[u8]) -> Option<Self> {
        let word = |index: usize| {
            let bytes = bytes.get(index * size_of::<u64>()..)?.first_chunk()?;
            Some(u64::from_ne_bytes(*bytes))
        };
        let (kind, which, value) = (word(0)?, word(1)?, word(2)?);
        Some(match kind {
            1 => Self::Hello {
                version: [value >> 16, value >> 8, value].map(|number| number as u32 & 0xff),
                failed: which,
            },
            2 => Self::Forked { slot: which, pid: value },
            3 => Self::Failed { slot: which, errno: value as i32 },
            4 => Self::Ended { pid: which, status: value as i32 },
            _ => return None,
        })
    }
}

/// The namespaces of the zygote. Sandboxes share the last four with it.
pub(super) const NAMESPACES: i32 = libc::CLONE_NEWPID
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP;

const BOOT: &str = "import sys; sys.path.append('/coracle'); from coracle_guest import zygote; zygote.main()";

/// The complete environment of code in a sandbox. Numeric libraries get one thread, because a process with threads
/// cannot enter a user namespace, and a sandbox has few processors.
pub(crate) const ENVIRONMENT: [(&str, &str); 12] = [
    ("PATH", "/coracle/bin:/usr/local/bin:/usr/bin:/bin"),
    ("HOME", "/tmp"),
    ("USER", "coderunner"),
    ("LOGNAME", "coderunner"),
    ("SHELL", "/bin/bash"),
    ("LANG", "C.UTF-8"),
    ("TMPDIR", "/tmp"),
    ("TERM", "dumb"),
    ("MPLBACKEND", "Agg"),
    ("OMP_NUM_THREADS", "1"),
    ("OPENBLAS_NUM_THREADS", "1"),
    ("MKL_NUM_THREADS", "1"),
];

/// The OOM score: when the host runs out of memory, sandboxes are killed first.
const OOM_SCORE: &str = "800";

/// The kernel's name for a machine without a domain. A new namespace starts with the host's.
const NO_DOMAIN: &[u8] = b"(none)";

/// The descriptor number of the zygote's socket.
const CONTROL: i32 = 3;

impl Zygote {
    /// Starts a zygote. It sends `Hello` when it is warm.
    pub(super) fn start(start: &Start, settings: &Settings, privilege: Privilege) -> Result<Self, LaunchError> {
        let step = |name: &'static str| move |errno| LaunchError::step(name, errno);
        let common = root::common()?;
        let common = if settings.proc == Proc::Empty { common.with_foreign_proc()? } else { common };
        let named = root::named(&start.guest_dir, &start.folders)?;
        let filters = seccomp::of_zygote(settings.memory)
            .map_err(|error| LaunchError::other("make the filters", error.to_string()))?;
        let flags = SocketFlags::CLOEXEC;
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
            .map_err(step("make the zygote's socket"))?;
        let (complaints, stderr) =
            rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(step("make a pipe"))?;
        let pidfd = match fork_into(NAMESPACES).map_err(step("fork the zygote"))? {
            Forked::Parent(_, pidfd) => pidfd,
            Forked::Child => {
                let ready = set_up(start, settings.proc, privilege, (common, named), &filters, &theirs, &stderr);
                let error = match ready {
                    // Returns only if it fails.
                    Ok(mut python) => LaunchError::io(format!("start {}", start.python.display()), &python.exec()),
                    Err(error) => error,
                };
                let _ = rustix::io::write(&stderr, error.to_string().as_bytes());
                exit_now(70)
            }
        };
        drop((theirs, stderr));
        rustix::io::ioctl_fionbio(&complaints, true).map_err(step("make a pipe"))?;
        let sealing = sealing(settings).map_err(|error| LaunchError::other("make the filters", error.to_string()))?;
        let config = serde_json::json!({
            "preload": start.preload,
            "clone_flags": NEW_NAMESPACES,
            "enter": entering(settings).to_json(),
            "seal": sealing.to_json(),
        });
        // A memory file for what it imports. Without it, only forks are slower.
        let memory = || memfd_create("zygote", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).ok();
        let memory = if start.preload.is_some() { memory() } else { None };
        let fds: Vec<_> = memory.iter().map(AsFd::as_fd).collect();
        // If the zygote is gone already, its exit and its output say more than this error.
        let _ = messages::send(ours.as_fd(), &config, &fds);
        Ok(Self { pidfd, control: ours, complaints: complaints.into() })
    }

    /// Orders a sandbox.
    pub(super) fn order(&self, slot: Slot, rehearse: bool, fds: &[BorrowedFd<'_>]) -> std::io::Result<()> {
        let words = [slot, u64::from(rehearse)].map(u64::to_ne_bytes);
        messages::send_bytes(self.control.as_fd(), words.as_flattened(), fds)
    }

    /// Receives one message with its descriptors. `None` if it is invalid, or the zygote is gone.
    pub(super) fn hear(&self) -> Option<(FromZygote, Vec<OwnedFd>)> {
        let (bytes, fds) = messages::receive_bytes(self.control.as_fd()).ok()?;
        Some((FromZygote::read(&bytes)?, fds))
    }

    /// The last line of its standard error.
    pub(super) fn last_error_line(&mut self) -> String {
        let mut words = Vec::new();
        // The pipe does not block.
        let _ = self.complaints.by_ref().take(64 << 10).read_to_end(&mut words);
        let text = String::from_utf8_lossy(&words);
        text.lines().last().unwrap_or("it exited without a message").trim().to_owned()
    }
}

/// Sets up the new process, up to the start of Python.
fn set_up(
    start: &Start,
    proc: Proc,
    privilege: Privilege,
    (common, named): (root::Common, Vec<OwnedFd>),
    filters: &[seccompiler::BpfProgram; 2],
    control: &OwnedFd,
    stderr: &OwnedFd,
) -> Result<Command, LaunchError> {
    let step = |name: &'static str| move |errno| LaunchError::step(name, errno);
    name_yourself()?;
    let mut tree = root::Growing::begin(common, proc.of_zygote())?;
    tree.add(named, &start.folders)?;
    tree.enter()?;
    if start.preload.as_ref().is_some_and(|modules| !modules.is_empty()) {
        // Some packages write a file when they are imported. Every child mounts its own folder over it.
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        mount("tmpfs", "/tmp", "tmpfs", flags, c"size=64m,mode=1777").map_err(step("mount /tmp"))?;
    }
    if privilege == Privilege::Root {
        drop_root()?;
    }
    // After the change of user, which would clear it. Takes effect even if the launcher is killed.
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(step("ask to end with the launcher"))?;
    rustix::thread::set_no_new_privs(true).map_err(step("give up new privileges"))?;
    let stderr = stderr.try_clone().map_err(|error| LaunchError::io("keep a pipe", &error))?;
    let mut python = Command::new(&start.python);
    python.args(["-I", "-S", "-B", "-c", BOOT]).env_clear().envs(ENVIRONMENT).current_dir("/");
    python.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::from(stderr));
    super::kernel::default_signals();
    super::kernel::pass_only(control.as_fd(), CONTROL).map_err(step("close descriptors"))?;
    for filter in filters {
        install_filter(filter).map_err(step("install the filter"))?;
    }
    Ok(python)
}

/// Sets a neutral host name, and a high OOM score.
pub(super) fn name_yourself() -> Result<(), LaunchError> {
    let step = |name: &'static str| move |errno| LaunchError::step(name, errno);
    rustix::system::sethostname(b"coracle").map_err(step("set the host name"))?;
    rustix::system::setdomainname(NO_DOMAIN).map_err(step("set the domain name"))?;
    // Not fatal, because the score only determines the order of kills.
    let _ = fs::write("/proc/self/oom_score_adj", OOM_SCORE);
    Ok(())
}

/// The host process ID of a pidfd.
pub(super) fn host_pid(pidfd: &OwnedFd) -> std::io::Result<u32> {
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd()))?;
    info.lines()
        .find_map(|line| line.strip_prefix("Pid:")?.trim().parse().ok())
        .ok_or_else(|| std::io::Error::other("the process is gone"))
}
