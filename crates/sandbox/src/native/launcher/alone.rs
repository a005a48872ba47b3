//! A launcher for one command: each sandbox is a separate Python that is started confined, without a zygote.
//!
//! Forking a zygote pays off for many sandboxes; for a single one, it is a second process to create and to tear down.
//! The confinement is the same, from the same plans, but carried out in `child.rs` instead of in `confine.rs` of the
//! guest.
//!
//! The first sandbox is started before the server has sent its request: its namespaces and most of its file tree do not
//! depend on it, and take about as long to create as the server takes to read its settings.

mod child;

use super::confinement::Proc;
use super::folders::Folders;
use super::id_map::IdMaps;
use super::kernel::{Forked, fork_into};
use super::privilege::{self, Privilege};
use super::root::{self, INSIDE_ID};
use super::zygote::NAMESPACES;
use super::{LaunchError, landlock};
use crate::native::cgroup::{Cgroups, Group, GroupLimits};
use crate::native::messages::{self, Ask, Bind, Counters, MAX_FDS, Say, Slot, Start, Started};
use child::{Child, HEAR, Word};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Signal, WaitId, WaitIdOptions, pidfd_send_signal, waitid};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// Everything that is created before the first message of the server.
pub(super) struct Ahead {
    privilege: Privilege,
    blank: Result<Blank, LaunchError>,
    id_maps: IdMaps,
}

impl Ahead {
    pub(super) fn new() -> Result<Self, LaunchError> {
        let privilege = privilege::find()?;
        Ok(Self { privilege, blank: Blank::new(privilege, Proc::Own), id_maps: IdMaps::of_root(privilege) })
    }
}

pub(super) struct Alone<'a> {
    server: BorrowedFd<'a>,
    start: Start,
    privilege: Privilege,
    proc: Proc,
    /// The first sandbox.
    ahead: Option<Result<Blank, LaunchError>>,
    /// Opened when the first sandbox is being created.
    cgroups: Option<Result<Cgroups, String>>,
    id_maps: IdMaps,
    folders: Folders,
    has_said_started: bool,
    sandboxes: HashMap<Slot, Sandbox>,
}

/// A process in its namespaces that has not been told its parameters yet.
struct Blank {
    pid: u32,
    pidfd: OwnedFd,
    ends: Ends,
    /// The socket for its parameters.
    words: OwnedFd,
    /// The pipe with the reason of a failure. Closed when Python starts.
    report: OwnedFd,
    /// The error while its parameters were sent. If the process has failed, its own report is more useful.
    trouble: Option<LaunchError>,
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

impl Blank {
    fn new(privilege: Privilege, proc: Proc) -> Result<Self, LaunchError> {
        let step = |errno| LaunchError::step("make the sandbox's streams", errno);
        // Taken as root, who can access everything. An ordinary user can take mounts only in the new namespaces.
        let common = (privilege == Privilege::Root).then(root::common).transpose()?;
        let pair = |kind| socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).map_err(step);
        let (channel, guest_channel) = pair(SocketType::STREAM)?;
        let (stdout, guest_stdout) = pipe_with(PipeFlags::CLOEXEC).map_err(step)?;
        let (stderr, guest_stderr) = pipe_with(PipeFlags::CLOEXEC).map_err(step)?;
        let (words, guest_words) = pair(SocketType::SEQPACKET)?;
        let (report, guest_report) = pipe_with(PipeFlags::CLOEXEC).map_err(step)?;
        let forked = fork_into(NAMESPACES | libc::CLONE_NEWUSER)
            .map_err(|errno| LaunchError::step("make a user namespace", errno))?;
        let Forked::Parent(pid, pidfd) = forked else {
            // Otherwise, it would not notice the end of the launcher.
            drop(words);
            let streams = [guest_channel, guest_stdout, guest_stderr];
            Child { privilege, proc, common, streams, words: guest_words }.live(guest_report)
        };
        let blank = Self { pid, pidfd, ends: Ends { channel, stdout, stderr }, words, report, trouble: None };
        match blank.map_ids(privilege).and_then(|()| blank.tell(&Word::IdsAreSet, &[])) {
            Ok(()) => Ok(blank),
            Err(error) => {
                end(&blank.pidfd);
                Err(error)
            }
        }
    }

    fn map_ids(&self, privilege: Privilege) -> Result<(), LaunchError> {
        let (uid, gid) = privilege.sandbox_ids();
        let maps = [
            ("setgroups", "deny".to_owned()),
            ("uid_map", format!("{INSIDE_ID} {uid} 1")),
            ("gid_map", format!("{INSIDE_ID} {gid} 1")),
        ];
        maps.into_iter().try_for_each(|(file, text)| {
            fs::write(format!("/proc/{}/{file}", self.pid), text)
                .map_err(|error| LaunchError::io(format!("write {file}"), &error))
        })
    }

    fn tell(&self, word: &Word, fds: &[BorrowedFd<'_>]) -> Result<(), LaunchError> {
        messages::send(self.words.as_fd(), word, fds).map_err(|error| LaunchError::io("talk to the sandbox", &error))
    }

    /// Sends the parameters that are the same for every sandbox.
    fn begin(mut self, start: &Start, privilege: Privilege) -> Self {
        self.trouble = self.tell_start(start, privilege).err();
        self
    }

    fn tell_start(&self, start: &Start, privilege: Privilege) -> Result<(), LaunchError> {
        self.tell(&Word::Start(Box::new(start.clone())), &[])?;
        if privilege == Privilege::Root {
            let mut named = root::named(start)?;
            named.extend(IdMaps::default().places(start, privilege)?);
            for some in named.chunks(MAX_FDS) {
                self.tell(&Word::Folders, &some.iter().map(AsFd::as_fd).collect::<Vec<_>>())?;
            }
        }
        Ok(())
    }
}

impl<'a> Alone<'a> {
    pub(super) fn new(start: Start, server: BorrowedFd<'a>, ahead: Ahead) -> Self {
        let Ahead { privilege, blank, id_maps } = ahead;
        let owner = (privilege == Privilege::Root).then(|| privilege.sandbox_ids());
        let folders = Folders::new(&start.run_dir, owner);
        let ahead = blank.map(|blank| blank.begin(&start, privilege));
        Self {
            server,
            start,
            privilege,
            proc: Proc::Own,
            ahead: Some(ahead),
            cgroups: None,
            id_maps,
            folders,
            has_said_started: false,
            sandboxes: HashMap::new(),
        }
    }

    /// Serves until the server is gone.
    pub(super) fn serve(mut self) -> Result<(), LaunchError> {
        loop {
            let (server, ended) = self.wait()?;
            for slot in ended {
                self.report_exit(slot)?;
            }
            if server && !self.hear_server()? {
                return Ok(());
            }
        }
    }

    /// Waits for messages of the server and for sandboxes that have ended.
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

    /// Handles one request. Returns false if the server is gone.
    fn hear_server(&mut self) -> Result<bool, LaunchError> {
        let received =
            messages::receive::<Ask>(self.server).map_err(|error| LaunchError::io("hear the server", &error))?;
        let Some((ask, _)) = received else { return Ok(false) };
        match ask {
            Ask::Prepare { slot, bind: Some(bind), .. } => match self.make(slot, &bind) {
                Ok((sandbox, ends)) => {
                    self.say_started()?;
                    let fds = [ends.channel.as_fd(), ends.stdout.as_fd(), ends.stderr.as_fd(), sandbox.pidfd.as_fd()];
                    let kills = match (&self.cgroups, &sandbox.group) {
                        (Some(Ok(cgroups)), Some(group)) => Some(cgroups.kills(group)),
                        _ => None,
                    };
                    self.say(&Say::Prepared { slot, kills }, &fds)?;
                    self.sandboxes.insert(slot, sandbox);
                }
                Err(error) => self.say(&Say::PrepareFailed { slot, reason: error.to_string() }, &[])?,
            },
            Ask::Prepare { slot, bind: None, .. } => {
                let reason = "a launcher for one command cannot create a sandbox without a workspace".to_owned();
                self.say(&Say::PrepareFailed { slot, reason }, &[])?;
            }
            Ask::Bind { slot, .. } => {
                self.say(&Say::BindFailed { slot, reason: "it already has a workspace".to_owned() }, &[])?;
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

    /// Creates a sandbox in which Python starts. If `/proc` cannot be mounted, creates one without it.
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

    fn try_to_make(&mut self, artifacts: &Path, bind: &Bind) -> Result<(Sandbox, Ends), LaunchError> {
        let blank = match self.ahead.take() {
            Some(ahead) => ahead?,
            None => Blank::new(self.privilege, self.proc)?.begin(&self.start, self.privilege),
        };
        let configured = self.configure(&blank, artifacts, bind);
        let Blank { pidfd, ends, words, report, trouble, .. } = blank;
        // A process that still waits for a message reports that.
        drop(words);
        let configured = trouble.map_or(configured, Err);
        let outcome = match (configured, reported(report)) {
            // If the process failed only for lack of a message, our error is the cause. Otherwise, its report is.
            (Err(ours), Err(theirs)) if theirs.step == HEAR => Err(ours),
            (_, Err(theirs)) => Err(theirs),
            (configured, Ok(())) => configured,
        };
        match outcome {
            Ok(group) => Ok((Sandbox { pidfd, group }, ends)),
            Err(error) => {
                end(&pidfd);
                Err(error)
            }
        }
    }

    /// Sends a process its parameters, and either moves it to its cgroup or sends the tasks file of the group.
    fn configure(&mut self, blank: &Blank, artifacts: &Path, bind: &Bind) -> Result<Option<Group>, LaunchError> {
        let word = Word::Bind { bind: bind.clone(), artifacts: artifacts.to_owned() };
        match self.privilege {
            Privilege::Root => {
                let artifacts = root::user_folder(artifacts)?;
                let mounts = self.id_maps.mounts(bind, self.privilege)?;
                let hidden = mounts.hidden.iter().flatten();
                let given = [&mounts.servers, &mounts.skills].into_iter().flatten().chain(hidden);
                let fds: Vec<_> = [&artifacts, &mounts.workspace].into_iter().chain(given).map(AsFd::as_fd).collect();
                blank.tell(&word, &fds)?;
            }
            Privilege::Ordinary => blank.tell(&word, &[])?,
        }
        let limits = GroupLimits { memory_bytes: bind.memory_bytes, processes: bind.processes };
        let cgroups = self.cgroups.get_or_insert_with(|| super::serve::cgroups(&self.start));
        let Ok(cgroups) = cgroups else { return blank.tell(&Word::WeCount, &[]).map(|()| None) };
        let group = cgroups.take(limits).map_err(|error| LaunchError::io("make a cgroup", &error))?;
        if let Some(tasks_file) = group.tasks_file() {
            blank.tell(&Word::KernelCounts, &[tasks_file])?;
        } else {
            blank.tell(&Word::KernelCounts, &[])?;
            // Takes milliseconds on an idle machine, while Python starts. No code runs before it is done.
            let moved = cgroups.add(&group, blank.pid);
            moved.map_err(|error| LaunchError::io("move the sandbox into its cgroup", &error))?;
        }
        Ok(Some(group))
    }

    fn report_exit(&mut self, slot: Slot) -> Result<(), LaunchError> {
        let Some(sandbox) = self.sandboxes.remove(&slot) else { return Ok(()) };
        let status = end(&sandbox.pidfd);
        let counters = self.count(&sandbox);
        // Sent first, because the server waits for it and not for the rest.
        self.say(&Say::Exited { slot, status, counters, unsealed: false }, &[])?;
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

/// Waits until a new process has become Python. Returns the reason if it has not.
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

/// Kills a sandbox, if it has not ended, and returns its wait status.
fn end(pidfd: &OwnedFd) -> i32 {
    // Fails only if the process is gone already.
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
        if let Some(Ok(blank)) = &self.ahead {
            end(&blank.pidfd);
        }
        for sandbox in self.sandboxes.values() {
            end(&sandbox.pidfd);
        }
        if let Some(Ok(cgroups)) = &self.cgroups {
            cgroups.remove();
        }
    }
}
