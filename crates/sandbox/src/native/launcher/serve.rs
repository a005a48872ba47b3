//! The launcher's main loop.

use super::confinement::{Proc, Settings};
use super::folders::Folders;
use super::id_map::{IdMaps, Mounts};
use super::plan::NOTHING;
use super::privilege::{self, Privilege, at_most};
use super::seccomp::MemoryCount;
use super::zygote::{FromZygote, Zygote, host_pid};
use super::{LaunchError, landlock, root};
use crate::native::cgroup::{Cgroups, Group, GroupLimits};
use crate::native::messages::{self, Ask, Bind, Counters, RLIMITS, Say, Slot, Start, Started};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, recv, socketpair};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Resource, Signal, WaitId, WaitIdOptions, pidfd_send_signal, waitid};
use std::collections::{HashMap, VecDeque};
use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The oldest Python version that the zygote supports.
const OLDEST_PYTHON: [u32; 3] = [3, 10, 0];

/// CAP_AUDIT_READ, which every supported kernel has.
const OLDEST_LAST_CAPABILITY: u64 = 37;

/// The maximum number of files in `/tmp`.
const TMP_INODES: u64 = 65_536;

/// The maximum number of concurrent forks in the zygote: enough to keep it busy, and few enough that neither socket
/// fills.
const FORKS_UNDER_WAY: usize = 4;

/// The wait status of a sandbox that was lost with its zygote.
const STATUS_KILLED: i32 = 9;

pub(super) struct Launcher<'a> {
    server: BorrowedFd<'a>,
    start: Start,
    privilege: Privilege,
    settings: Settings,
    cgroups: Result<Cgroups, String>,
    id_maps: IdMaps,
    folders: Folders,
    zygote: Option<Zygote>,
    /// Whether the zygote is warm.
    warm: bool,
    queue: VecDeque<Order>,
    forking: HashMap<Slot, Ends>,
    sandboxes: HashMap<Slot, Sandbox>,
    /// Slots by the process IDs in the zygote's namespace.
    slots: HashMap<u64, Slot>,
}

/// A sandbox that is to be created.
struct Order {
    slot: Slot,
    rehearse: bool,
    binding: Option<Binding>,
}

/// A workspace for a sandbox that is being created.
struct Binding {
    bind: Bind,
    /// The mounts, once they have been taken.
    mounts: Option<Result<Mounts, LaunchError>>,
}

/// The ends of a new sandbox's streams, until its pidfd is known.
struct Ends {
    channel: OwnedFd,
    stdout: OwnedFd,
    stderr: OwnedFd,
    socket: OwnedFd,
    binding: Option<Binding>,
}

struct Sandbox {
    /// The socket on which the child waits for its workspace. If its confinement fails, the child reports that here. It
    /// has closed its end before it runs any untrusted code.
    binding: OwnedFd,
    is_bound: bool,
    group: Option<Group>,
}

/// The cgroups of this machine, found by trying.
pub(super) fn cgroups(start: &Start) -> Result<Cgroups, String> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let (membership, mounts) = (read("/proc/self/cgroup"), read("/proc/self/mountinfo"));
    let limits = GroupLimits { memory_bytes: start.memory_bytes, processes: start.processes };
    Cgroups::open(&start.instance, &start.run_dir, (&membership, &mounts), limits)
}

/// The highest capability of this kernel.
pub(super) fn last_capability() -> u64 {
    let told = fs::read_to_string("/proc/sys/kernel/cap_last_cap").ok();
    told.and_then(|text| text.trim().parse().ok()).unwrap_or(OLDEST_LAST_CAPABILITY)
}

/// The parameters of the plans for this launcher.
pub(super) fn settings(start: &Start, privilege: Privilege, memory: MemoryCount, last_capability: u64) -> Settings {
    let (outer_uid, outer_gid) = privilege.sandbox_ids();
    Settings {
        outer_uid,
        outer_gid,
        tmp_bytes: start.tmp_bytes,
        tmp_inodes: TMP_INODES,
        proc: Proc::Own,
        last_capability,
        readable: root::readable(start),
        writable: root::writable(start),
        landlock_abi: landlock::find().unwrap_or(0),
        memory,
        network: start.network,
    }
}

/// The maximum address space of a process without a cgroup, as a multiple of the memory limit, because programs map far
/// more than they use. It limits what can happen between two checks of the watch.
const ADDRESSES_TIMES: u64 = 4;
const LEAST_ADDRESSES: u64 = 1 << 30;

/// The values of [`RLIMITS`](crate::native::messages::RLIMITS). Without a cgroup, a watch adds up the memory of all
/// processes.
pub(super) fn parameters(bind: &Bind, memory: MemoryCount) -> [u64; RLIMITS.len()] {
    let data = match memory {
        MemoryCount::Kernel => u64::MAX,
        MemoryCount::Processes => {
            bind.memory_bytes.saturating_mul(ADDRESSES_TIMES).max(bind.memory_bytes.saturating_add(LEAST_ADDRESSES))
        }
    };
    let (data, file) = (at_most(Resource::Data, data), at_most(Resource::Fsize, bind.file_bytes));
    [data, bind.processes, bind.open_files, file]
}

impl<'a> Launcher<'a> {
    pub(super) fn new(start: Start, server: BorrowedFd<'a>) -> Result<Self, LaunchError> {
        privilege::raise_open_files();
        let cgroups = cgroups(&start);
        let privilege = privilege::enter_mount_namespace()?;
        let memory = if cgroups.is_ok() { MemoryCount::Kernel } else { MemoryCount::Processes };
        let settings = settings(&start, privilege, memory, last_capability());
        let zygote = Zygote::start(&start, &settings, privilege)?;
        let folders = Folders::new(&start.run_dir, (privilege == Privilege::Root).then(|| privilege.sandbox_ids()));
        Ok(Self {
            server,
            start,
            privilege,
            settings,
            cgroups,
            id_maps: IdMaps::default(),
            folders,
            zygote: Some(zygote),
            warm: false,
            queue: VecDeque::new(),
            forking: HashMap::new(),
            sandboxes: HashMap::new(),
            slots: HashMap::new(),
        })
    }

    /// Serves until the server is gone.
    pub(super) fn serve(mut self) -> Result<(), LaunchError> {
        loop {
            let (server, zygote, ended) = self.wait()?;
            if zygote && !self.hear_zygote()? || ended {
                self.lose_zygote()?;
            }
            if server && !self.hear_server()? {
                return Ok(());
            }
            self.fork_queued()?;
        }
    }

    /// Waits for the server, the zygote, and the end of the zygote. Returns which of them are ready.
    fn wait(&self) -> Result<(bool, bool, bool), LaunchError> {
        let mut fds = vec![PollFd::new(&self.server, PollFlags::IN)];
        if let Some(zygote) = &self.zygote {
            fds.push(PollFd::new(&zygote.control, PollFlags::IN));
            fds.push(PollFd::new(&zygote.pidfd, PollFlags::IN));
        }
        loop {
            match poll(&mut fds, None) {
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(LaunchError::step("wait", errno)),
                Ok(_) => break,
            }
        }
        let is = |index: usize| fds.get(index).is_some_and(|fd| !fd.revents().is_empty());
        Ok((is(0), is(1), is(2)))
    }

    fn say(&self, message: &Say, fds: &[BorrowedFd<'_>]) -> Result<(), LaunchError> {
        messages::send(self.server, message, fds).map_err(|error| LaunchError::io("talk to the server", &error))
    }

    /// Handles one request. Returns false if the server is gone.
    fn hear_server(&mut self) -> Result<bool, LaunchError> {
        let received =
            messages::receive::<Ask>(self.server).map_err(|error| LaunchError::io("hear the server", &error))?;
        let Some((ask, _)) = received else { return Ok(false) };
        match ask {
            Ask::Prepare { slot, rehearse, bind } => {
                // Mounts are taken now while Python starts. Later, the zygote should not wait for that.
                let now = !self.warm;
                let binding =
                    bind.map(|bind| Binding { mounts: now.then(|| self.id_maps.mounts(&bind, self.privilege)), bind });
                self.queue.push_back(Order { slot, rehearse, binding });
            }
            Ask::Bind { slot, bind } => self.bind(slot, Binding { bind, mounts: None })?,
            Ask::Count { slot } => {
                let counters = self.sandboxes.get(&slot).map(|sandbox| self.counters(sandbox)).unwrap_or_default();
                self.say(&Say::Counted { slot, counters }, &[])?;
            }
        }
        Ok(true)
    }

    fn counters(&self, sandbox: &Sandbox) -> Counters {
        match (&self.cgroups, &sandbox.group) {
            (Ok(cgroups), Some(group)) => cgroups.counters(group),
            _ => Counters::default(),
        }
    }

    /// Handles one message. Returns false if the zygote is gone.
    fn hear_zygote(&mut self) -> Result<bool, LaunchError> {
        let Some(zygote) = &self.zygote else { return Ok(true) };
        let Some((message, fds)) = zygote.hear() else { return Ok(false) };
        match message {
            FromZygote::Hello { version, failed } => {
                if version < OLDEST_PYTHON {
                    let cause = format!("is Python {}.{}: 3.10 or later is needed", version[0], version[1]);
                    return Err(LaunchError::other(self.start.python.display().to_string(), cause));
                }
                self.warm = true;
                let (host_uid, _) = self.privilege.sandbox_ids();
                let started = Started {
                    python_version: Some(version),
                    not_preloaded: self.not_preloaded(failed),
                    privilege: self.privilege.name().to_owned(),
                    landlock: landlock::find(),
                    cgroup: self.cgroups.as_ref().map(Cgroups::kind).map_err(Clone::clone),
                    own_proc: self.settings.proc == Proc::Own,
                    host_uid,
                };
                self.say(&Say::Started(started), &[])?;
            }
            FromZygote::Forked { slot, pid } => {
                let (Some(ends), Some(pidfd)) = (self.forking.remove(&slot), fds.into_iter().next()) else {
                    return Ok(false);
                };
                match self.admit(&pidfd) {
                    Ok(group) => {
                        self.slots.insert(pid, slot);
                        let fds = [ends.channel.as_fd(), ends.stdout.as_fd(), ends.stderr.as_fd(), pidfd.as_fd()];
                        let kills = match (&self.cgroups, &group) {
                            (Ok(cgroups), Some(group)) => Some(cgroups.kills(group)),
                            _ => None,
                        };
                        self.say(&Say::Prepared { slot, kills }, &fds)?;
                        self.sandboxes.insert(slot, Sandbox { binding: ends.socket, is_bound: false, group });
                        if let Some(binding) = ends.binding {
                            self.bind(slot, binding)?;
                        }
                    }
                    Err(reason) => {
                        // A sandbox without its limits must not exist.
                        let _ = pidfd_send_signal(&pidfd, Signal::KILL);
                        self.say(&Say::PrepareFailed { slot, reason }, &[])?;
                    }
                }
            }
            FromZygote::Failed { slot, errno } => {
                self.forking.remove(&slot);
                let cause = rustix::io::Errno::from_raw_os_error(errno);
                self.say(&Say::PrepareFailed { slot, reason: format!("clone: {cause}") }, &[])?;
            }
            FromZygote::Ended { pid, status } => {
                // A child that was never admitted has no slot.
                if let Some(slot) = self.slots.remove(&pid) {
                    self.report_exit(slot, status)?;
                }
            }
        }
        Ok(true)
    }

    fn not_preloaded(&self, failed: u64) -> Vec<String> {
        let modules = self.start.preload.iter().flatten().enumerate();
        modules
            .filter(|(bit, _)| failed.checked_shr(*bit as u32).unwrap_or(0) & 1 == 1)
            .map(|(_, name)| name.clone())
            .collect()
    }

    /// Gives a new child a cgroup, if there are any. If the group has a tasks file, the child enters it when it is
    /// bound.
    fn admit(&mut self, pidfd: &OwnedFd) -> Result<Option<Group>, String> {
        let Ok(cgroups) = &mut self.cgroups else { return Ok(None) };
        let limits = GroupLimits { memory_bytes: self.start.memory_bytes, processes: self.start.processes };
        let group = cgroups.take(limits).map_err(|error| format!("make a cgroup: {error}"))?;
        let added = || host_pid(pidfd).and_then(|pid| cgroups.add(&group, pid));
        match if group.tasks_file().is_some() { Ok(()) } else { added() } {
            Ok(()) => Ok(Some(group)),
            Err(error) => {
                cgroups.give_back(group);
                Err(format!("move the sandbox into its cgroup: {error}"))
            }
        }
    }

    fn report_exit(&mut self, slot: Slot, status: i32) -> Result<(), LaunchError> {
        let Some(sandbox) = self.sandboxes.remove(&slot) else { return Ok(()) };
        self.folders.give_back(slot);
        let unsealed = matches!(recv(&sandbox.binding, &mut [0; 8], RecvFlags::DONTWAIT), Ok((1.., _)));
        let counters = match (&mut self.cgroups, sandbox.group) {
            (Ok(cgroups), Some(group)) => cgroups.give_back(group),
            _ => Counters::default(),
        };
        self.say(&Say::Exited { slot, status, counters, unsealed }, &[])
    }

    /// Handles the end of the zygote, which ends all its sandboxes. The end of a zygote that was never warm is an error,
    /// unless it could not mount `/proc`: then one without it is started.
    fn lose_zygote(&mut self) -> Result<(), LaunchError> {
        let Some(mut zygote) = self.zygote.take() else { return Ok(()) };
        let _ = pidfd_send_signal(&zygote.pidfd, Signal::KILL);
        waitid(WaitId::PidFd(zygote.pidfd.as_fd()), WaitIdOptions::EXITED)
            .map_err(|errno| LaunchError::step("wait for the zygote", errno))?;
        if !self.warm {
            let words = zygote.last_error_line();
            if self.settings.proc == Proc::Own && words.starts_with(root::MOUNT_PROC) {
                self.settings.proc = Proc::Empty;
                self.zygote = Some(Zygote::start(&self.start, &self.settings, self.privilege)?);
                return Ok(());
            }
            return Err(LaunchError::other(format!("start {}", self.start.python.display()), words));
        }
        for (slot, _) in std::mem::take(&mut self.forking) {
            self.say(&Say::PrepareFailed { slot, reason: "the zygote ended".to_owned() }, &[])?;
        }
        self.slots.clear();
        let slots: Vec<Slot> = self.sandboxes.keys().copied().collect();
        for slot in slots {
            self.say(&Say::Lost { slot, reason: "the zygote ended".to_owned() }, &[])?;
            self.report_exit(slot, STATUS_KILLED)?;
        }
        Ok(())
    }

    /// Has queued sandboxes created if there is a warm zygote. A lost zygote is started again.
    fn fork_queued(&mut self) -> Result<(), LaunchError> {
        if self.zygote.is_none() && !self.queue.is_empty() {
            self.warm = false;
            self.zygote = Some(Zygote::start(&self.start, &self.settings, self.privilege)?);
        }
        while self.warm && self.forking.len() < FORKS_UNDER_WAY {
            let Some(order) = self.queue.pop_front() else { break };
            let slot = order.slot;
            if let Err(error) = self.fork(order) {
                self.say(&Say::PrepareFailed { slot, reason: error.to_string() }, &[])?;
            }
        }
        Ok(())
    }

    fn fork(&mut self, Order { slot, rehearse, mut binding }: Order) -> Result<(), LaunchError> {
        let step = |errno| LaunchError::step("make the sandbox's streams", errno);
        let Some(zygote) = &self.zygote else { return Ok(()) };
        let pair = |kind| socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None);
        let (channel, guest_channel) = pair(SocketType::STREAM).map_err(step)?;
        let (socket, guest_socket) = pair(SocketType::SEQPACKET).map_err(step)?;
        let (stdout, guest_stdout) = pipe_with(PipeFlags::CLOEXEC).map_err(step)?;
        let (stderr, guest_stderr) = pipe_with(PipeFlags::CLOEXEC).map_err(step)?;
        let artifacts = self.folders.take(slot)?;
        let fds = [&guest_channel, &guest_stdout, &guest_stderr, &guest_socket, &artifacts].map(AsFd::as_fd);
        zygote.order(slot, rehearse, &fds).map_err(|error| LaunchError::io("talk to the zygote", &error))?;
        if let Some(Binding { bind, mounts: mounts @ None }) = &mut binding {
            *mounts = Some(self.id_maps.mounts(bind, self.privilege));
        }
        self.forking.insert(slot, Ends { channel, stdout, stderr, socket, binding });
        Ok(())
    }

    /// Gives a sandbox its workspace, or reports why not.
    fn bind(&mut self, slot: Slot, Binding { bind, mounts }: Binding) -> Result<(), LaunchError> {
        let mounts = mounts.unwrap_or_else(|| self.id_maps.mounts(&bind, self.privilege));
        match mounts.and_then(|mounts| self.hand_over(slot, &bind, &mounts)) {
            Ok(()) => Ok(()),
            Err(error) => self.say(&Say::BindFailed { slot, reason: error.to_string() }, &[]),
        }
    }

    fn hand_over(&mut self, slot: Slot, bind: &Bind, mounts: &Mounts) -> Result<(), LaunchError> {
        let Some(sandbox) = self.sandboxes.get_mut(&slot) else { return Ok(()) };
        if let (Ok(cgroups), Some(group)) = (&self.cgroups, &mut sandbox.group) {
            let limits = GroupLimits { memory_bytes: bind.memory_bytes, processes: bind.processes };
            cgroups.limit(group, limits).map_err(|error| LaunchError::io("set the limits of the sandbox", &error))?;
        }
        if std::mem::replace(&mut sandbox.is_bound, true) {
            return Ok(());
        }
        let mut words = parameters(bind, self.settings.memory).to_vec();
        let mut fds = vec![mounts.workspace.as_fd()];
        let modules = [&mounts.servers, &mounts.skills].map(|modules| modules.as_ref().map(AsFd::as_fd));
        let tasks_file = sandbox.group.as_ref().and_then(Group::tasks_file);
        let hidden = [0, 1].map(|index| mounts.hidden.as_ref().map(|hidden: &[OwnedFd; 2]| hidden[index].as_fd()));
        for given in modules.into_iter().chain([tasks_file]).chain(hidden) {
            // The index of the descriptor, until the child has replaced it with its number.
            words.push(given.map_or(NOTHING, |_| fds.len() as u64));
            fds.extend(given);
        }
        let message: Vec<u8> = words.into_iter().flat_map(u64::to_ne_bytes).collect();
        messages::send_bytes(sandbox.binding.as_fd(), &message, &fds)
            .map_err(|error| LaunchError::io("give the workspace to the sandbox", &error))
    }
}

impl Drop for Launcher<'_> {
    fn drop(&mut self) {
        if let Some(zygote) = self.zygote.take() {
            let _ = pidfd_send_signal(&zygote.pidfd, Signal::KILL);
            let _ = waitid(WaitId::PidFd(zygote.pidfd.as_fd()), WaitIdOptions::EXITED);
        }
        if let Ok(cgroups) = &self.cgroups {
            cgroups.remove();
        }
    }
}
