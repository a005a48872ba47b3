//! A launcher for one command: each sandbox is a Python of its own, started confined, without a zygote.
//!
//! Forking a zygote pays when there are many sandboxes; for one, it is a second process to make and to take down. What
//! holds in a sandbox is the same, from the same plans, carried out here instead of in `confine.rs` of the guest.
//!
//! Trust boundary: the order in `become_sandbox` is what keeps foreign code out until the process is confined.

use super::confinement::{INSIDE_ID, MemoryCount, Proc, sealing, settling};
use super::folders::Folders;
use super::id_map::{IdMaps, Mounts};
use super::kernel::{self, AfterExec, Forked, exit_now, fork_into, install_filter};
use super::plan::{NOTHING, Plan};
use super::privilege::{self, Privilege};
use super::serve::{parameters, settings};
use super::zygote::{ENVIRONMENT, NAMESPACES, name_yourself};
use super::{LaunchError, landlock, root, seccomp};
use crate::native::cgroup::{Cgroups, Group, GroupLimits};
use crate::native::messages::{self, Ask, Bind, Counters, Say, Slot, Start, Started};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Signal, WaitId, WaitIdOptions, pidfd_send_signal, set_parent_process_death_signal, waitid};
use seccompiler::BpfProgram;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// From the bundle if there is one, else module by module; see `bundle.py` of the guest.
const BOOT: &str = "\
import sys, marshal
sys.path.append('/coracle')
try:
    with open('/coracle/bundle', 'rb') as file: bundle, parts = marshal.loads(file.read())
    exec(bundle, scope := {'__name__': 'coracle_guest.bundle'})
    scope['load'](parts)
except Exception: pass
from coracle_guest import alone
alone.main()";

/// Where a sandbox has what it needs until it is one; what comes before and after is closed.
const CHANNEL: i32 = 3;
const ARTIFACTS: i32 = 21;
const WORKSPACE: i32 = 22;
const SERVERS: i32 = 23;
const SKILLS: i32 = 24;
/// At or above this, out of the way of all others.
const REPORT: i32 = 100;

const EXIT_BROKEN: i32 = 70;

/// What the launcher tells a new process: its ids are set, and then who counts its memory.
const IDS_ARE_SET: u8 = 1;
const KERNEL_COUNTS: u8 = 2;
const WE_COUNT: u8 = 3;
/// The step that fails when the launcher says nothing.
const HEAR: &str = "hear the launcher";

pub(super) struct Alone<'a> {
    server: BorrowedFd<'a>,
    start: Start,
    privilege: Privilege,
    proc: Proc,
    filters: Filters,
    plans: Plans,
    /// Looked for when the first sandbox is on its way.
    cgroups: Option<Result<Cgroups, String>>,
    id_maps: IdMaps,
    folders: Folders,
    has_said_started: bool,
    sandboxes: HashMap<Slot, Sandbox>,
}

/// The first two filters of a sandbox, by who counts its memory.
struct Filters {
    kernel_counts: [BpfProgram; 2],
    we_count: [BpfProgram; 2],
}

/// What is carried out before Python starts.
struct Plans {
    settling: Plan,
    sealing: Plan,
}

struct Sandbox {
    pidfd: OwnedFd,
    group: Option<Group>,
}

/// The server's ends of a sandbox's streams.
struct Ends {
    channel: OwnedFd,
    stdout: OwnedFd,
    stderr: OwnedFd,
}

/// What the sandbox sees, taken while it can be reached.
struct Trees {
    shared: Vec<root::Shared>,
    artifacts: OwnedFd,
    mounts: Mounts,
}

/// What a new process needs to become a sandbox.
struct Making<'a> {
    artifacts: &'a Path,
    bind: &'a Bind,
    /// Taken by root, who can reach everything; an ordinary user may take mounts in the new namespaces only.
    trees: Option<Trees>,
    channel: OwnedFd,
    stdout: OwnedFd,
    stderr: OwnedFd,
    /// The launcher's word.
    word: OwnedFd,
    /// Why it failed; closed by the start of Python.
    report: OwnedFd,
}

impl<'a> Alone<'a> {
    pub(super) fn new(start: Start, server: BorrowedFd<'a>) -> Result<Self, LaunchError> {
        let privilege = privilege::find(&start.guest_dir)?;
        let owner = (privilege == Privilege::Root).then(|| privilege.sandbox_ids());
        let folders = Folders::new(&start.run_dir, owner);
        let wrong = |error: seccomp::FilterError| LaunchError::other("make the filters", error.to_string());
        let settings = settings(&start, privilege, MemoryCount::Processes);
        let filters = Filters {
            kernel_counts: seccomp::of_zygote(MemoryCount::Kernel).map_err(wrong)?,
            we_count: seccomp::of_zygote(MemoryCount::Processes).map_err(wrong)?,
        };
        let plans = Plans { settling: settling(&settings), sealing: sealing(&settings).map_err(wrong)? };
        Ok(Self {
            server,
            start,
            privilege,
            proc: Proc::Own,
            filters,
            plans,
            cgroups: None,
            id_maps: IdMaps::default(),
            folders,
            has_said_started: false,
            sandboxes: HashMap::new(),
        })
    }

    /// Until the server is gone.
    pub(super) fn serve(mut self) -> Result<(), LaunchError> {
        loop {
            let (server, ended) = self.wait()?;
            for slot in ended {
                self.bury(slot)?;
            }
            if server && !self.hear_server()? {
                return Ok(());
            }
        }
    }

    /// Whether the server has something to say, and which sandboxes have ended.
    fn wait(&self) -> Result<(bool, Vec<Slot>), LaunchError> {
        let slots: Vec<Slot> = self.sandboxes.keys().copied().collect();
        let mut fds = vec![PollFd::new(&self.server, PollFlags::IN)];
        fds.extend(self.sandboxes.values().map(|sandbox| PollFd::new(&sandbox.pidfd, PollFlags::IN)));
        loop {
            match poll(&mut fds, None) {
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(LaunchError::step("wait", errno)),
                Ok(_) => break,
            }
        }
        let mut some = fds.iter().map(|fd| !fd.revents().is_empty());
        let server = some.next().unwrap_or(false);
        Ok((server, slots.into_iter().zip(some).filter_map(|(slot, ended)| ended.then_some(slot)).collect()))
    }

    fn say(&self, message: &Say, fds: &[BorrowedFd<'_>]) -> Result<(), LaunchError> {
        messages::send(self.server, message, fds).map_err(|error| LaunchError::io("talk to the server", &error))
    }

    /// One request; false if the server is gone.
    fn hear_server(&mut self) -> Result<bool, LaunchError> {
        let received =
            messages::receive::<Ask>(self.server).map_err(|error| LaunchError::io("hear the server", &error))?;
        let Some((ask, _)) = received else { return Ok(false) };
        match ask {
            Ask::Prepare { slot, bind: Some(bind), .. } => match self.make(slot, &bind) {
                Ok((sandbox, ends)) => {
                    self.say_started()?;
                    let fds = [ends.channel.as_fd(), ends.stdout.as_fd(), ends.stderr.as_fd(), sandbox.pidfd.as_fd()];
                    self.say(&Say::Prepared { slot }, &fds)?;
                    self.sandboxes.insert(slot, sandbox);
                }
                Err(error) => self.say(&Say::PrepareFailed { slot, reason: error.to_string() }, &[])?,
            },
            Ask::Prepare { slot, bind: None, .. } => {
                let reason = "a launcher for one command makes no sandbox without a workspace".to_owned();
                self.say(&Say::PrepareFailed { slot, reason }, &[])?;
            }
            Ask::Bind { slot, .. } => {
                self.say(&Say::BindFailed { slot, reason: "it has a workspace".to_owned() }, &[])?;
            }
            Ask::Count { slot } => {
                let counters = self.sandboxes.get(&slot).map(|sandbox| self.count(sandbox)).unwrap_or_default();
                self.say(&Say::Counted { slot, counters }, &[])?;
            }
        }
        Ok(true)
    }

    fn say_started(&mut self) -> Result<(), LaunchError> {
        if std::mem::replace(&mut self.has_said_started, true) {
            return Ok(());
        }
        let (host_uid, _) = self.privilege.sandbox_ids();
        let cgroup = match &self.cgroups {
            Some(found) => found.as_ref().map(Cgroups::kind).map_err(Clone::clone),
            None => Err("not looked for".to_owned()),
        };
        let started = Started {
            python_version: None,
            not_preloaded: Vec::new(),
            privilege: self.privilege.name().to_owned(),
            landlock: landlock::find(),
            cgroup,
            own_proc: self.proc == Proc::Own,
            host_uid,
        };
        self.say(&Say::Started(started), &[])
    }

    /// Makes a sandbox in which Python starts; where `/proc` cannot be mounted, one without.
    fn make(&mut self, slot: Slot, bind: &Bind) -> Result<(Sandbox, Ends), LaunchError> {
        let artifacts = self.folders.make(slot)?;
        match self.try_to_make(&artifacts, bind) {
            Err(error) if self.proc == Proc::Own && error.step == root::MOUNT_PROC => {
                self.proc = Proc::Empty;
                self.try_to_make(&artifacts, bind)
            }
            other => other,
        }
    }

    fn try_to_make(&mut self, artifacts: &PathBuf, bind: &Bind) -> Result<(Sandbox, Ends), LaunchError> {
        let step = |errno| LaunchError::step("make the sandbox's streams", errno);
        let trees = match self.privilege {
            Privilege::Root => Some(self.take(artifacts, bind)?),
            Privilege::Ordinary => None,
        };
        let (channel, guest_channel) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).map_err(step)?;
        let (stdout, guest_stdout) = pipe_with(PipeFlags::CLOEXEC).map_err(step)?;
        let (stderr, guest_stderr) = pipe_with(PipeFlags::CLOEXEC).map_err(step)?;
        let (word, our_word) = pipe_with(PipeFlags::CLOEXEC).map_err(step)?;
        let (report, guest_report) = pipe_with(PipeFlags::CLOEXEC).map_err(step)?;
        let making = Making {
            artifacts,
            bind,
            trees,
            channel: guest_channel,
            stdout: guest_stdout,
            stderr: guest_stderr,
            word,
            report: guest_report,
        };
        let forked = fork_into(NAMESPACES | libc::CLONE_NEWUSER)
            .map_err(|errno| LaunchError::step("make a user namespace", errno))?;
        let Forked::Parent(pid, pidfd) = forked else {
            // Else it would never hear that the launcher is gone.
            drop(our_word);
            if let Ok(report) = rustix::io::fcntl_dupfd_cloexec(&making.report, REPORT) {
                let error = self.become_sandbox(making, &report);
                let reason = serde_json::to_vec(&(&error.step, &error.cause)).unwrap_or_default();
                let _ = rustix::io::write(&report, &reason);
            }
            exit_now(EXIT_BROKEN)
        };
        drop(making);
        let seen_to = self.see_to(pid, bind, &our_word);
        // Who waits for a word that does not come any more says so.
        drop(our_word);
        let outcome = match (seen_to, reported(report)) {
            // Whoever has failed does not hear us: what it says tells more.
            (Err(ours), Err(theirs)) if theirs.step == HEAR => Err(ours),
            (_, Err(theirs)) => Err(theirs),
            (seen_to, Ok(())) => seen_to,
        };
        match outcome {
            Ok(group) => Ok((Sandbox { pidfd, group }, Ends { channel, stdout, stderr })),
            Err(error) => {
                end(&pidfd);
                Err(error)
            }
        }
    }

    fn take(&mut self, artifacts: &Path, bind: &Bind) -> Result<Trees, LaunchError> {
        Ok(Trees {
            shared: root::shared(&self.start.guest_dir, &self.start.folders)?,
            artifacts: root::user_folder(artifacts)?,
            mounts: self.id_maps.mounts(bind, self.privilege)?,
        })
    }

    /// What a new process cannot do for itself: its ids, its cgroup.
    fn see_to(&mut self, pid: u32, bind: &Bind, word: &OwnedFd) -> Result<Option<Group>, LaunchError> {
        let tell = |byte: u8| {
            let told = rustix::io::write(word, &[byte]);
            told.map_err(|errno| LaunchError::step("talk to the sandbox", errno)).map(drop)
        };
        let (uid, gid) = self.privilege.sandbox_ids();
        let maps = [
            ("setgroups", "deny".to_owned()),
            ("uid_map", format!("{INSIDE_ID} {uid} 1")),
            ("gid_map", format!("{INSIDE_ID} {gid} 1")),
        ];
        for (file, text) in maps {
            fs::write(format!("/proc/{pid}/{file}"), text)
                .map_err(|error| LaunchError::io(format!("write {file}"), &error))?;
        }
        tell(IDS_ARE_SET)?;
        let limits = GroupLimits { memory_bytes: bind.memory_bytes, processes: bind.processes };
        let cgroups = self.cgroups.get_or_insert_with(|| super::serve::cgroups(&self.start));
        let Ok(cgroups) = cgroups else { return tell(WE_COUNT).map(|()| None) };
        let group = cgroups.take(limits).map_err(|error| LaunchError::io("make a cgroup", &error))?;
        tell(KERNEL_COUNTS)?;
        // Takes milliseconds on a machine at rest, beside the start of Python. No code is run before it is done.
        let moved = cgroups.add(&group, pid);
        moved.map_err(|error| LaunchError::io("move the sandbox into its cgroup", &error))?;
        Ok(Some(group))
    }

    /// In the new process: everything up to the start of Python. Comes back only if it fails.
    fn become_sandbox(&mut self, making: Making<'_>, report: &OwnedFd) -> LaunchError {
        match self.confine(making, report) {
            Ok(mut python) => LaunchError::io(format!("start {}", self.start.python.display()), &python.exec()),
            Err(error) => error,
        }
    }

    fn confine(&mut self, mut making: Making<'_>, report: &OwnedFd) -> Result<Command, LaunchError> {
        let step = |name: &'static str| move |errno| LaunchError::step(name, errno);
        let hear = || {
            let mut byte = [0];
            match rustix::io::read(&making.word, &mut byte) {
                Ok(1) => Ok(byte[0]),
                _ => Err(LaunchError::other(HEAR, "it is gone")),
            }
        };
        if hear()? != IDS_ARE_SET {
            return Err(LaunchError::other(HEAR, "not the first word"));
        }
        if self.privilege == Privilege::Root {
            privilege::become_inside(INSIDE_ID)?;
        }
        // After the change of user, which would clear it. Fires even if the launcher is killed.
        set_parent_process_death_signal(Some(Signal::KILL)).map_err(step("ask to end with the launcher"))?;
        name_yourself()?;
        let Trees { shared, artifacts, mounts: Mounts { workspace, servers, skills } } = match making.trees.take() {
            Some(trees) => trees,
            None => self.take(making.artifacts, making.bind)?,
        };
        root::enter(shared, self.proc.of_sandbox())?;
        let (memory, filters) = match hear()? {
            KERNEL_COUNTS => (MemoryCount::Kernel, &self.filters.kernel_counts),
            _ => (MemoryCount::Processes, &self.filters.we_count),
        };
        let null = File::open("/dev/null").map_err(|error| LaunchError::io("open /dev/null", &error))?;
        let mut fixed = vec![
            (null.as_fd(), 0, AfterExec::Stays),
            (making.stdout.as_fd(), 1, AfterExec::Stays),
            (making.stderr.as_fd(), 2, AfterExec::Stays),
            (making.channel.as_fd(), CHANNEL, AfterExec::Stays),
            (artifacts.as_fd(), ARTIFACTS, AfterExec::Closes),
            (workspace.as_fd(), WORKSPACE, AfterExec::Closes),
        ];
        fixed.extend(servers.as_ref().map(|servers| (servers.as_fd(), SERVERS, AfterExec::Closes)));
        fixed.extend(skills.as_ref().map(|skills| (skills.as_fd(), SKILLS, AfterExec::Closes)));
        kernel::arrange(&fixed, report.as_fd()).map_err(step("arrange descriptors"))?;
        let bind = making.bind;
        // Closed by their numbers: whatever has these numbers now is not theirs.
        std::mem::forget((null, artifacts, workspace, servers, skills, making));
        let mut python = Command::new(&self.start.python);
        python.args(["-I", "-S", "-B", "-c", BOOT]).env_clear().envs(ENVIRONMENT).current_dir("/workspace");
        rustix::thread::set_no_new_privs(true).map_err(step("give up new privileges"))?;
        for filter in filters {
            install_filter(filter).map_err(step("install the filter"))?;
        }
        let failed = |(step, errno): (&str, rustix::io::Errno)| LaunchError::step(step, errno);
        self.plans.settling.carry_out(&[ARTIFACTS as u64]).map_err(failed)?;
        let mut all = vec![WORKSPACE as u64];
        all.extend(parameters(bind, memory));
        all.push(if bind.servers.is_some() { SERVERS as u64 } else { NOTHING });
        all.push(if bind.skills.is_some() { SKILLS as u64 } else { NOTHING });
        self.plans.sealing.carry_out(&all).map_err(failed)?;
        Ok(python)
    }

    fn bury(&mut self, slot: Slot) -> Result<(), LaunchError> {
        let Some(sandbox) = self.sandboxes.remove(&slot) else { return Ok(()) };
        let status = end(&sandbox.pidfd);
        let counters = self.count(&sandbox);
        // First, since somebody waits for it; nobody waits for the rest.
        self.say(&Say::Exited { slot, status, counters }, &[])?;
        if let (Some(Ok(cgroups)), Some(group)) = (&mut self.cgroups, sandbox.group) {
            cgroups.give_back(group);
        }
        Ok(())
    }

    fn count(&self, sandbox: &Sandbox) -> Counters {
        match (&self.cgroups, &sandbox.group) {
            (Some(Ok(cgroups)), Some(group)) => cgroups.counters(group),
            _ => Counters::default(),
        }
    }
}

/// Waits until a new process has become Python; the reason if it has not.
fn reported(report: OwnedFd) -> Result<(), LaunchError> {
    let mut reason = Vec::new();
    let read = File::from(report).take(4096).read_to_end(&mut reason);
    read.map_err(|error| LaunchError::io("hear of the sandbox", &error))?;
    match serde_json::from_slice::<(String, String)>(&reason) {
        Ok((step, cause)) => Err(LaunchError { step, cause }),
        Err(_) if reason.is_empty() => Ok(()),
        Err(_) => Err(LaunchError::other("make a sandbox", String::from_utf8_lossy(&reason))),
    }
}

/// Ends a sandbox, if it has not ended, and waits for it: its wait status.
fn end(pidfd: &OwnedFd) -> i32 {
    // Fails only if it is gone already.
    let _ = pidfd_send_signal(pidfd, Signal::KILL);
    let status = waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED).ok().flatten();
    let killed = Signal::KILL.as_raw();
    status.map_or(killed, |status| match status.exit_status() {
        Some(code) => code << 8,
        None => status.terminating_signal().unwrap_or(killed),
    })
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        for sandbox in self.sandboxes.values() {
            end(&sandbox.pidfd);
        }
        if let Some(Ok(cgroups)) = &self.cgroups {
            cgroups.remove();
        }
    }
}
