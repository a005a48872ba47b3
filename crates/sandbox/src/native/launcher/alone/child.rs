//! The new process, from the fork to the start of Python.
//!
//! Trust boundary: the order of steps in `confine` makes sure that no untrusted code runs before the process is
//! confined.

use crate::Network;
use crate::native::launcher::LaunchError;
use crate::native::launcher::confinement::{Proc, sealing, settling};
use crate::native::launcher::id_map::{IdMaps, Mounts};
use crate::native::launcher::kernel::{self, AfterExec, exit_now, install_filter};
use crate::native::launcher::plan::NOTHING;
use crate::native::launcher::privilege::{self, Privilege};
use crate::native::launcher::root::{self, INSIDE_ID};
use crate::native::launcher::seccomp::{self, MemoryCount};
use crate::native::launcher::serve::{last_capability, parameters, settings};
use crate::native::launcher::zygote::{ENVIRONMENT, name_yourself};
use crate::native::messages::{self, Bind, Start};
use rustix::process::{Signal, set_parent_process_death_signal};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Loads the guest from the bundle if there is one, or else module by module; see `bundle.py` of the guest.
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

/// Descriptor numbers that the confinement uses. All others are closed.
const CHANNEL: i32 = 3;
const ARTIFACTS: i32 = 21;
const WORKSPACE: i32 = 22;
const SERVERS: i32 = 23;
const SKILLS: i32 = 24;
const TASKS_FILE: i32 = 25;
const HIDDEN: i32 = 26;
const INSTEAD: i32 = 27;
/// The minimum number of the report's descriptor, away from all others.
const REPORT: i32 = 100;

const EXIT_BROKEN: i32 = 70;

/// The step that fails when the launcher does not send a message.
pub(super) const HEAR: &str = "hear the launcher";

/// The messages of the launcher to a new process, in this order.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Word {
    IdsAreSet,
    Start(Box<Start>),
    /// As root: mounts of the named folders, as many as fit into one message.
    Folders,
    /// As root, with mounts: of the artifacts, the workspace, and everything else that is bound.
    Bind {
        bind: Bind,
        artifacts: PathBuf,
    },
    /// The kernel counts the sandbox's memory in a cgroup, whose tasks file is attached if it has one.
    KernelCounts,
    WeCount,
}

/// A process that becomes a sandbox.
pub(super) struct Child {
    pub(super) privilege: Privilege,
    pub(super) proc: Proc,
    /// Mounts that root has taken.
    pub(super) common: Option<root::Common>,
    /// Channel, standard output and standard error.
    pub(super) streams: [OwnedFd; 3],
    pub(super) words: OwnedFd,
}

impl Child {
    /// Becomes Python, or reports why not.
    pub(super) fn live(self, report: OwnedFd) -> ! {
        if let Ok(out_of_the_way) = rustix::io::fcntl_dupfd_cloexec(&report, REPORT) {
            drop(report);
            let error = self.become_sandbox(&out_of_the_way);
            let reason = serde_json::to_vec(&(&error.step, &error.cause)).unwrap_or_default();
            let _ = rustix::io::write(&out_of_the_way, &reason);
        }
        exit_now(EXIT_BROKEN)
    }

    /// Returns only if it fails.
    fn become_sandbox(self, report: &OwnedFd) -> LaunchError {
        match self.confine(report) {
            Ok(mut python) => {
                let name = Path::new(python.get_program()).display().to_string();
                LaunchError::io(format!("start {name}"), &python.exec())
            }
            Err(error) => error,
        }
    }

    fn hear(&self) -> Result<(Word, Vec<OwnedFd>), LaunchError> {
        match messages::receive_start(self.words.as_fd()) {
            Ok(Some(word)) => Ok(word),
            Ok(None) => Err(LaunchError::other(HEAR, "it is gone")),
            Err(error) => Err(LaunchError::io(HEAR, &error)),
        }
    }

    fn confine(mut self, report: &OwnedFd) -> Result<Command, LaunchError> {
        let step = |name: &'static str| move |errno| LaunchError::step(name, errno);
        let wrong = |error: seccomp::FilterError| LaunchError::other("make the filters", error.to_string());
        let unexpected = || LaunchError::other(HEAR, "unexpected message");
        let (Word::IdsAreSet, _) = self.hear()? else { return Err(unexpected()) };
        if self.privilege == Privilege::Root {
            privilege::become_inside(INSIDE_ID)?;
        }
        // After the change of user, which would clear it. Takes effect even if the launcher is killed.
        set_parent_process_death_signal(Some(Signal::KILL)).map_err(step("ask to end with the launcher"))?;
        name_yourself()?;
        let last_capability = last_capability();
        let common = self.common.take().map_or_else(root::common, Ok)?;
        let mut tree = root::Growing::begin(common, self.proc.of_sandbox())?;
        let of_zygote = |memory| seccomp::of_zygote(memory, Network::Off).map_err(wrong);
        let (kernel_counts, we_count) = (of_zygote(MemoryCount::Kernel)?, of_zygote(MemoryCount::Processes)?);

        let (Word::Start(start), _) = self.hear()? else { return Err(unexpected()) };
        let named = self.named(&start)?;
        tree.add(named, &start)?;
        let settings = settings(&start, self.privilege, MemoryCount::Processes, last_capability);
        let (settling, sealing) = (settling(&settings), sealing(&settings).map_err(wrong)?);

        let (Word::Bind { bind, artifacts }, fds) = self.hear()? else { return Err(unexpected()) };
        let (artifacts, Mounts { workspace, servers, skills, hidden }) = self.bound(&bind, &artifacts, fds)?;
        tree.enter()?;
        let (memory, filters, tasks_file) = match self.hear()? {
            (Word::KernelCounts, tasks_file) => (MemoryCount::Kernel, kernel_counts, tasks_file.into_iter().next()),
            (Word::WeCount, _) => (MemoryCount::Processes, we_count, None),
            _ => return Err(unexpected()),
        };
        let null = File::open("/dev/null").map_err(|error| LaunchError::io("open /dev/null", &error))?;
        let [channel, stdout, stderr] = &self.streams;
        let mut fixed = vec![
            (null.as_fd(), 0, AfterExec::Stays),
            (stdout.as_fd(), 1, AfterExec::Stays),
            (stderr.as_fd(), 2, AfterExec::Stays),
            (channel.as_fd(), CHANNEL, AfterExec::Stays),
            (artifacts.as_fd(), ARTIFACTS, AfterExec::Closes),
            (workspace.as_fd(), WORKSPACE, AfterExec::Closes),
        ];
        fixed.extend(servers.as_ref().map(|servers| (servers.as_fd(), SERVERS, AfterExec::Closes)));
        fixed.extend(skills.as_ref().map(|skills| (skills.as_fd(), SKILLS, AfterExec::Closes)));
        fixed.extend(tasks_file.as_ref().map(|tasks_file| (tasks_file.as_fd(), TASKS_FILE, AfterExec::Closes)));
        for (folder, number) in hidden.iter().flatten().zip([HIDDEN, INSTEAD]) {
            fixed.push((folder.as_fd(), number, AfterExec::Closes));
        }
        kernel::arrange(&fixed, report.as_fd()).map_err(step("arrange descriptors"))?;
        // Closed by number, because other descriptors may have these numbers by now.
        let (has_tasks_file, hides) = (tasks_file.is_some(), hidden.is_some());
        std::mem::forget((null, artifacts, workspace, servers, skills, tasks_file, hidden, self));
        let mut python = Command::new(&start.python);
        python.args(["-I", "-S", "-B", "-c", BOOT]).env_clear().envs(ENVIRONMENT).current_dir("/workspace");
        kernel::default_signals();
        rustix::thread::set_no_new_privs(true).map_err(step("give up new privileges"))?;
        for filter in &filters {
            install_filter(filter).map_err(step("install the filter"))?;
        }
        let failed = |(step, errno): (&str, rustix::io::Errno)| LaunchError::step(step, errno);
        settling.carry_out(&[ARTIFACTS as u64]).map_err(failed)?;
        let mut all = vec![WORKSPACE as u64];
        all.extend(parameters(&bind, memory));
        let given = [
            (bind.servers.is_some(), SERVERS),
            (bind.skills.is_some(), SKILLS),
            (has_tasks_file, TASKS_FILE),
            (hides, HIDDEN),
            (hides, INSTEAD),
        ];
        all.extend(given.map(|(is_given, number)| if is_given { number as u64 } else { NOTHING }));
        sealing.carry_out(&all).map_err(failed)?;
        Ok(python)
    }

    /// Mounts of the guest's files and of the configured folders.
    fn named(&self, start: &Start) -> Result<Vec<OwnedFd>, LaunchError> {
        if self.privilege == Privilege::Ordinary {
            let mut named = root::named(start)?;
            named.extend(IdMaps::default().places(start, self.privilege)?);
            return Ok(named);
        }
        let mut named = Vec::new();
        while named.len() < 1 + start.folders.len() + start.places.len() {
            match self.hear()? {
                (Word::Folders, some) if !some.is_empty() => named.extend(some),
                _ => return Err(LaunchError::other(HEAR, "unexpected mounts")),
            }
        }
        Ok(named)
    }

    /// Mounts of the artifacts and of the user's folders.
    fn bound(&self, bind: &Bind, artifacts: &Path, given: Vec<OwnedFd>) -> Result<(OwnedFd, Mounts), LaunchError> {
        if self.privilege == Privilege::Ordinary {
            return Ok((root::user_folder(artifacts)?, IdMaps::default().mounts(bind, self.privilege)?));
        }
        let mut given = given.into_iter();
        let mut next = || given.next().ok_or_else(|| LaunchError::other(HEAR, "unexpected mounts"));
        let (artifacts, workspace) = (next()?, next()?);
        let servers = bind.servers.is_some().then(&mut next).transpose()?;
        let skills = bind.skills.is_some().then(&mut next).transpose()?;
        let hidden = next().ok().zip(next().ok()).map(|(folder, instead)| [folder, instead]);
        Ok((artifacts, Mounts { workspace, servers, skills, hidden }))
    }
}
