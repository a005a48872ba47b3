//! The server's side of the launcher: starts it, talks to it, notices its end.

use super::disk;
use super::instance::{EMPTY, Instance};
use super::launcher::ForkedLauncher;
use super::messages::{self, Ask, Bind, Counters, Kills, Say, Slot, Start, Started};
use super::process::Process;
use crate::{Cause, Network, SandboxError};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::sync::{oneshot, watch};

/// Maximum time for the launcher to exit by itself.
const LAUNCHER_ENDS_WITHIN: Duration = Duration::from_secs(10);

/// A wait status and the counters of the kernel.
#[derive(Clone, Debug, Default)]
pub(super) struct Ended {
    pub(super) status: i32,
    pub(super) counters: Counters,
    /// Set if the launcher could not bind the workspace, or if it or its zygote is gone.
    pub(super) failure: Option<Cause>,
}

/// The wait status of a sandbox that was lost with the launcher.
const STATUS_KILLED: i32 = 9;

impl Ended {
    /// Killed, with this cause.
    fn by(cause: Cause) -> Self {
        Self { status: STATUS_KILLED, counters: Counters::default(), failure: Some(cause) }
    }
}

/// The ends of a prepared sandbox's streams: channel, stdout, stderr, pidfd.
pub(super) type Streams = [OwnedFd; 4];

/// The launcher's reply about a new sandbox.
pub(super) type Made = (Streams, Option<Kills>);

/// The pending requests about one slot.
#[derive(Debug)]
struct Waiting {
    prepared: Option<oneshot::Sender<Result<Made, String>>>,
    ended: watch::Sender<Option<Ended>>,
    counted: Vec<oneshot::Sender<Counters>>,
}

impl Waiting {
    /// Only the first report of how it ended counts.
    fn end(&self, how: Ended) {
        self.ended.send_if_modified(|ended| {
            let first = ended.is_none();
            if first {
                *ended = Some(how);
            }
            first
        });
    }
}

#[derive(Debug)]
struct Book {
    slots: HashMap<Slot, Waiting>,
    next: Slot,
    lost: bool,
}

type StartedState = Option<Result<Started, String>>;

/// The connection to one launcher.
#[derive(Debug)]
pub(super) struct Link {
    /// A socket of sequenced packets. Only the descriptor and readiness of the type are used.
    socket: UnixStream,
    book: Mutex<Book>,
    started: watch::Receiver<StartedState>,
    launcher: Process,
    instance: Instance,
    /// The network of the launcher's sandboxes.
    network: Network,
    /// True when the launcher is gone and everything of it is removed.
    gone: watch::Receiver<bool>,
}

/// A request for a new sandbox.
pub(super) struct Preparing {
    pub(super) slot: Slot,
    pub(super) made: oneshot::Receiver<Result<Made, String>>,
    pub(super) ended: watch::Receiver<Option<Ended>>,
}

impl Link {
    /// Starts `program` as the launcher.
    pub(super) fn start(program: &Path, start: &Start, instance: Instance) -> io::Result<Arc<Self>> {
        let (ours, launcher) = match spawn(program, start, &instance) {
            // A Ctrl-C reached the new process before it was in its own process group. That does not happen twice.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => spawn(program, start, &instance)?,
            other => other?,
        };
        Self::join(ours, launcher, instance, start.network)
    }

    /// Takes over a forked launcher that waits for its first message.
    pub(super) fn adopt(forked: ForkedLauncher, start: &Start, instance: Instance) -> io::Result<Arc<Self>> {
        let ForkedLauncher { socket, process } = forked;
        messages::send(socket.as_fd(), start, &[instance.lock.as_fd()])?;
        Self::join(socket, process, instance, start.network)
    }

    fn join(ours: OwnedFd, launcher: Process, instance: Instance, network: Network) -> io::Result<Arc<Self>> {
        rustix::io::ioctl_fionbio(&ours, true)?;
        let (say_started, started) = watch::channel(None);
        let book = Mutex::new(Book { slots: HashMap::new(), next: 1, lost: false });
        let (say_gone, gone) = watch::channel(false);
        let socket = UnixStream::from_std(ours.into())?;
        let link = Arc::new(Self { socket, book, started, launcher, instance, network, gone });
        let reader = Arc::clone(&link);
        tokio::spawn(async move {
            reader.read(say_started).await;
            reader.clean_up().await;
            say_gone.send_replace(true);
        });
        Ok(link)
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn launcher_pid(&self) -> u32 {
        self.launcher.pid
    }

    pub(super) fn network(&self) -> Network {
        self.network
    }

    pub(super) fn is_lost(&self) -> bool {
        self.book().lost
    }

    /// Whether it has no sandboxes.
    pub(super) fn is_idle(&self) -> bool {
        self.book().slots.is_empty()
    }

    pub(super) fn artifacts(&self, slot: Slot) -> PathBuf {
        self.instance.dir.join("artifacts").join(slot.to_string())
    }

    /// A folder that is always empty.
    pub(super) fn empty_folder(&self) -> PathBuf {
        self.instance.dir.join(EMPTY)
    }

    /// What the launcher found. Waits until it is known.
    pub(super) async fn started(&self) -> Result<Started, SandboxError> {
        let mut started = self.started.clone();
        let state = started.wait_for(Option::is_some).await.map(|state| state.clone());
        match state {
            Ok(Some(Ok(started))) => Ok(started),
            Ok(Some(Err(reason))) => Err(SandboxError::Unavailable(reason)),
            _ => Err(SandboxError::Unavailable("the launcher ended".to_owned())),
        }
    }

    /// Requests a new sandbox.
    pub(super) async fn prepare(&self, rehearse: bool, bind: Option<Bind>) -> io::Result<Preparing> {
        let (prepared, made) = oneshot::channel();
        let (ended_sender, ended) = watch::channel(None);
        let slot = {
            let mut book = self.book();
            if book.lost {
                return Err(io::Error::other("the launcher ended"));
            }
            let slot = book.next;
            book.next += 1;
            book.slots.insert(slot, Waiting { prepared: Some(prepared), ended: ended_sender, counted: Vec::new() });
            slot
        };
        self.send(&Ask::Prepare { slot, rehearse, bind }).await?;
        Ok(Preparing { slot, made, ended })
    }

    /// The counters of the kernel for a sandbox.
    pub(super) async fn count(&self, slot: Slot) -> Counters {
        let (sender, counted) = oneshot::channel();
        match self.book().slots.get_mut(&slot) {
            Some(waiting) => waiting.counted.push(sender),
            None => return Counters::default(),
        }
        if self.send(&Ask::Count { slot }).await.is_err() {
            return Counters::default();
        }
        counted.await.unwrap_or_default()
    }

    pub(super) async fn send(&self, ask: &Ask) -> io::Result<()> {
        let bytes = serde_json::to_vec(ask)?;
        self.socket.async_io(Interest::WRITABLE, || messages::send_bytes(self.socket.as_fd(), &bytes, &[])).await
    }

    async fn read(&self, say_started: watch::Sender<StartedState>) {
        loop {
            let message =
                self.socket.async_io(Interest::READABLE, || messages::receive::<Say>(self.socket.as_fd())).await;
            let Ok(Some((say, fds))) = message else { break };
            self.hear(say, fds, &say_started);
        }
        let waiting = {
            let mut book = self.book();
            book.lost = true;
            std::mem::take(&mut book.slots)
        };
        for waiting in waiting.into_values() {
            waiting.end(Ended::by(Cause::Lost("the launcher ended".to_owned())));
        }
    }

    fn hear(&self, say: Say, fds: Vec<OwnedFd>, say_started: &watch::Sender<StartedState>) {
        let mut book = self.book();
        match say {
            Say::Started(started) => {
                for module in &started.not_preloaded {
                    tracing::warn!("execution.preload: cannot import {module} in advance: is it installed?");
                }
                say_started.send_replace(Some(Ok(started)));
            }
            Say::StartFailed { reason } => {
                say_started.send_replace(Some(Err(reason)));
            }
            Say::Prepared { slot, kills } => {
                let streams = Streams::try_from(fds).map_err(|_| "the launcher sent no streams".to_owned());
                book.answer(slot, streams.map(|streams| (streams, kills)));
            }
            Say::PrepareFailed { slot, reason } => {
                book.answer(slot, Err(reason));
                book.slots.remove(&slot);
            }
            Say::BindFailed { slot, reason } => {
                if let Some(waiting) = book.slots.get(&slot) {
                    waiting.end(Ended::by(Cause::Setup(reason)));
                }
            }
            Say::Lost { slot, reason } => {
                if let Some(waiting) = book.slots.get(&slot) {
                    waiting.end(Ended::by(Cause::Lost(reason)));
                }
            }
            Say::Counted { slot, counters } => {
                for counted in
                    book.slots.get_mut(&slot).map(|waiting| std::mem::take(&mut waiting.counted)).into_iter().flatten()
                {
                    // The requester may be gone.
                    let _ = counted.send(counters);
                }
            }
            Say::Exited { slot, status, counters, unsealed } => {
                if let Some(waiting) = book.slots.remove(&slot) {
                    let unwanted = waiting.ended.is_closed();
                    let failure = unsealed.then(|| Cause::Setup("a step of the confinement failed".to_owned()));
                    waiting.end(Ended { status, counters, failure });
                    if unwanted {
                        // The sandbox may have written something between being dropped and being dead.
                        disk::remove_soon(&self.artifacts(slot));
                    }
                }
            }
        }
    }

    /// Closes the connection, which ends the launcher and everything that it created.
    pub(super) fn hang_up(&self) {
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
    }

    /// Returns when the launcher is gone and nothing of it is left.
    pub(super) async fn gone(&self) {
        // An error means that the reader is gone, as at the end of the runtime.
        let _ = self.gone.clone().wait_for(|gone| *gone).await;
    }

    /// Waits for the launcher, and removes what it left behind if it was killed: the kernel has ended its zygote and
    /// all sandboxes with it.
    async fn clean_up(self: Arc<Self>) {
        let cleaning = tokio::task::spawn_blocking(move || {
            self.launcher.wait(LAUNCHER_ENDS_WITHIN);
            if self.instance.dir.exists() {
                Instance::remove(&self.instance.dir);
            }
            self.instance.sweep_others();
        });
        // If the runtime is shutting down, the next start cleans up.
        let _ = cleaning.await;
    }
}

/// Starts a launcher and sends the first message. Returns our end of its socket.
fn spawn(program: &Path, start: &Start, instance: &Instance) -> io::Result<(OwnedFd, Process)> {
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    let mut launcher = Command::new(program)
        .arg(super::LAUNCHER_ARGUMENT)
        .env_clear()
        .current_dir("/")
        // In a separate process group, because Ctrl-C is for the server, which has the launcher clean up.
        .process_group(0)
        .stdin(Stdio::from(theirs))
        .stdout(Stdio::null())
        .spawn()?;
    match messages::send(ours.as_fd(), start, &[instance.lock.as_fd()]) {
        Ok(()) => Ok((ours, Process::of(&launcher)?)),
        Err(error) => {
            // Its socket is closed, so it is gone or exiting.
            let _ = launcher.kill();
            launcher.wait()?;
            Err(error)
        }
    }
}

impl Book {
    fn answer(&mut self, slot: Slot, made: Result<Made, String>) {
        if let Some(prepared) = self.slots.get_mut(&slot).and_then(|waiting| waiting.prepared.take()) {
            // Dropped by the requester, and so are the streams. The drop in the pool kills the sandbox.
            let _ = prepared.send(made);
        }
    }
}
