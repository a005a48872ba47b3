//! Prepared sandboxes, kept ready for requests.
//!
//! A sandbox leaves the pool once and never returns. A request that finds the pool empty gets the next one that is
//! being created. If all of those are taken, one is created with the workspace bound to it from the start.
//!
//! A request that comes twice in a row is likely to come again: one sandbox is bound to it ahead of time. It is not
//! used for any other request.

use super::life::Life;
use super::link::{Ended, Link};
use super::messages::{self, Ask, Bind, Kills, Slot};
use crate::{Network, SandboxError};
use coracle_protocol::{FrameBuffer, FrameError, FromGuest, VERSION, read_frame};
use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::io::Interest;
use tokio::net::unix::pipe;
use tokio::net::{TcpListener, UnixStream};
use tokio::sync::{oneshot, watch};

/// The delay before the next sandbox is created. Creating it at once would compete for the processor with the execution
/// that has just begun; while there are enough others, it can wait.
const UNHURRIED: Duration = Duration::from_millis(5);
const HURRIED: Duration = Duration::from_millis(2);

/// The maximum number of sandboxes in the pool that have rehearsed. The others need less memory.
const MOST_REHEARSED: usize = 32;

/// The number of sandboxes that are created at the same time for the pool.
const AT_ONCE: usize = 2;

/// How long the pool creates sandboxes as fast as possible after it was found empty.
const PRESSED_FOR: Duration = Duration::from_millis(100);

/// Maximum time for a child to send `ready`.
const READY_WITHIN: Duration = Duration::from_secs(20);

/// A sandbox that waits for a request.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) slot: Slot,
    pub(super) channel: UnixStream,
    pub(super) buffer: FrameBuffer,
    pub(super) stdout: pipe::Receiver,
    pub(super) stderr: pipe::Receiver,
    /// The listener in its network namespace, with [`Network::Proxy`].
    pub(super) listener: Option<TcpListener>,
    pub(super) ended: watch::Receiver<Option<Ended>>,
    pub(super) life: Life,
    pub(super) kills: Option<Kills>,
    /// The binding, if it is bound.
    pub(super) bound: Option<Bind>,
}

impl Prepared {
    /// Whether the sandbox is alive. It may have been lost with its zygote while it waited.
    fn lives(&self) -> bool {
        self.ended.borrow().is_none()
    }
}

/// A request that gets the next sandbox that fits.
#[derive(Debug)]
struct Waiting {
    bind: Bind,
    give: oneshot::Sender<Prepared>,
}

#[derive(Debug, Default)]
struct State {
    /// The sandbox that is bound ahead of time.
    ahead: Option<Prepared>,
    /// The last request, and whether it was the same as the one before.
    last: Option<Bind>,
    again: bool,
    /// Sandboxes that have rehearsed, which are taken first.
    rehearsed: VecDeque<Prepared>,
    /// The rest of a large pool: slower by a millisecond, with half the memory.
    cold: VecDeque<Prepared>,
    /// The numbers of sandboxes that are being created.
    rehearsing: usize,
    cooling: usize,
    /// Requests that get the next sandboxes: no more than are being created.
    waiting: VecDeque<Waiting>,
    refill_planned: bool,
    /// Whether a sandbox is being bound ahead of time.
    binding: bool,
    /// When a request last found the pool empty: there is no time to rehearse then.
    last_empty: Option<Instant>,
    stopped: bool,
}

impl State {
    fn ready(&self) -> usize {
        self.rehearsed.len() + self.cold.len() + usize::from(self.ahead.is_some())
    }

    fn being_made(&self) -> usize {
        self.rehearsing + self.cooling
    }
}

/// Whether a child does a trial run before its first request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rehearse {
    Yes,
    No,
}

#[derive(Debug)]
pub(super) struct Pool {
    link: Arc<Link>,
    target: usize,
    state: Mutex<State>,
}

impl Pool {
    pub(super) fn start(link: Arc<Link>, target: usize) -> Arc<Self> {
        let pool = Arc::new(Self { link, target, state: Mutex::default() });
        pool.make_up(&mut pool.state());
        pool
    }

    pub(super) fn ready(&self) -> usize {
        self.state().ready()
    }

    /// Takes a prepared sandbox that is unbound or has this binding. `None` if there is none and none will be soon.
    pub(super) async fn take(self: &Arc<Self>, bind: &Bind) -> Option<Prepared> {
        let next = {
            let mut state = self.state();
            self.plan_refill(&mut state);
            if let Some(ahead) = state.asked_for(bind) {
                return Some(ahead);
            }
            while let Some(prepared) = state.rehearsed.pop_front().or_else(|| state.cold.pop_front()) {
                if prepared.lives() {
                    return Some(prepared);
                }
            }
            state.last_empty = Some(Instant::now());
            if state.being_made() <= state.waiting.len() {
                return None;
            }
            let (give, next) = oneshot::channel();
            state.waiting.push_back(Waiting { bind: bind.clone(), give });
            next
        };
        next.await.ok()
    }

    pub(super) fn stop(&self) {
        let mut state = self.state();
        state.stopped = true;
        state.rehearsed.clear();
        state.cold.clear();
        state.waiting.clear();
        state.ahead = None;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn plan_refill(self: &Arc<Self>, state: &mut State) {
        if state.refill_planned || self.target == 0 {
            return;
        }
        state.refill_planned = true;
        let pool = Arc::clone(self);
        let delay = if state.ready() > self.target / 2 { UNHURRIED } else { HURRIED };
        tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            let mut state = pool.state();
            state.refill_planned = false;
            pool.make_up(&mut state);
        });
    }

    /// Starts to create missing sandboxes, a few at a time, because there is other work.
    fn make_up(self: &Arc<Self>, state: &mut State) {
        let missing = (self.target + state.waiting.len()).saturating_sub(state.ready() + state.being_made());
        let room = AT_ONCE.saturating_sub(state.being_made());
        for _ in 0..missing.min(room) {
            if state.stopped {
                return;
            }
            let pressed = state.last_empty.is_some_and(|then| then.elapsed() < PRESSED_FOR);
            let enough = state.rehearsed.len() + state.rehearsing >= MOST_REHEARSED;
            let rehearse = if pressed || enough { Rehearse::No } else { Rehearse::Yes };
            *state.under_way(rehearse) += 1;
            let pool = Arc::clone(self);
            tokio::spawn(async move {
                let made = match prepare(&pool.link, rehearse, None).await {
                    Ok(prepared) => pool.bind_ahead(prepared).await,
                    Err(error) => Err(error),
                };
                pool.put(made, rehearse);
            });
        }
    }

    /// Binds a sandbox to the request that came twice in a row, if none is bound yet.
    async fn bind_ahead(&self, mut prepared: Prepared) -> Result<Prepared, SandboxError> {
        let bind = {
            let mut state = self.state();
            let is_wanted = state.again && state.ahead.is_none() && state.waiting.is_empty() && !state.binding;
            let Some(bind) = state.last.clone().filter(|_| is_wanted) else { return Ok(prepared) };
            state.binding = true;
            bind
        };
        let sent = self.link.send(&Ask::Bind { slot: prepared.slot, bind: bind.clone() }).await;
        self.state().binding = false;
        sent.map_err(|error| SandboxError::Unavailable(format!("cannot talk to the launcher: {error}")))?;
        prepared.bound = Some(bind);
        Ok(prepared)
    }

    fn put(self: &Arc<Self>, made: Result<Prepared, SandboxError>, rehearse: Rehearse) {
        let mut state = self.state();
        *state.under_way(rehearse) -= 1;
        match made {
            _ if state.stopped => {}
            Ok(prepared) => {
                state.give(prepared, rehearse);
                self.make_up(&mut state);
            }
            // The next request tries again and gets the error, as do requests that wait for more sandboxes than are
            // being created.
            Err(error) => {
                tracing::warn!(%error, "cannot prepare a sandbox");
                let being_made = state.being_made();
                state.waiting.truncate(being_made);
            }
        }
    }
}

impl State {
    /// Notes a request, and returns the sandbox that is already bound to it, if there is one.
    fn asked_for(&mut self, bind: &Bind) -> Option<Prepared> {
        self.again = self.last.as_ref() == Some(bind);
        if !self.again {
            self.last = Some(bind.clone());
        }
        let fits = |ahead: &Prepared| ahead.bound.as_ref() == Some(bind);
        if self.ahead.as_ref().is_some_and(fits) {
            return self.ahead.take().filter(Prepared::lives);
        }
        if self.again {
            // Its binding is no longer requested.
            self.ahead = None;
        }
        None
    }

    /// Gives a sandbox to the request that has waited longest, or keeps it.
    fn give(&mut self, mut prepared: Prepared, rehearse: Rehearse) {
        let fits =
            |waiting: &Waiting, prepared: &Prepared| prepared.bound.as_ref().is_none_or(|bound| *bound == waiting.bind);
        while let Some(place) = self.waiting.iter().position(|waiting| fits(waiting, &prepared)) {
            let Some(waiting) = self.waiting.remove(place) else { break };
            match waiting.give.send(prepared) {
                Ok(()) => return,
                // The request was cancelled meanwhile.
                Err(back) => prepared = back,
            }
        }
        if prepared.bound.is_some() {
            self.ahead = Some(prepared);
            return;
        }
        match rehearse {
            Rehearse::Yes => self.rehearsed.push_back(prepared),
            Rehearse::No => self.cold.push_back(prepared),
        }
    }

    fn under_way(&mut self, rehearse: Rehearse) -> &mut usize {
        match rehearse {
            Rehearse::Yes => &mut self.rehearsing,
            Rehearse::No => &mut self.cooling,
        }
    }
}

/// Creates a sandbox with its workspace bound from the start. If the future is dropped midway, the sandbox is killed.
pub(super) async fn make(link: &Arc<Link>, bind: Bind) -> Result<Prepared, SandboxError> {
    let link = Arc::clone(link);
    let task = tokio::spawn(async move { prepare(&link, Rehearse::No, Some(bind)).await });
    task.await.unwrap_or_else(|_| Err(SandboxError::Unavailable("Coracle is shutting down".to_owned())))
}

async fn prepare(link: &Arc<Link>, rehearse: Rehearse, bind: Option<Bind>) -> Result<Prepared, SandboxError> {
    let unavailable = |error: io::Error| SandboxError::Unavailable(format!("cannot talk to the launcher: {error}"));
    let preparing = link.prepare(rehearse == Rehearse::Yes, bind).await.map_err(unavailable)?;
    let Ok(answer) = preparing.made.await else {
        // The launcher is gone, and its own error is more useful.
        link.started().await?;
        return Err(SandboxError::Unavailable("the launcher ended".to_owned()));
    };
    let ([channel, stdout, stderr, pidfd], kills) = answer.map_err(SandboxError::Unavailable)?;
    let life = Life { pidfd, artifacts: link.artifacts(preparing.slot) };
    let channel = std::os::unix::net::UnixStream::from(channel);
    channel.set_nonblocking(true).map_err(unavailable)?;
    let mut prepared = Prepared {
        slot: preparing.slot,
        channel: UnixStream::from_std(channel).map_err(unavailable)?,
        buffer: FrameBuffer::default(),
        stdout: pipe::Receiver::from_owned_fd(stdout).map_err(unavailable)?,
        stderr: pipe::Receiver::from_owned_fd(stderr).map_err(unavailable)?,
        listener: None,
        ended: preparing.ended,
        life,
        kills,
        bound: None,
    };
    let first = tokio::time::timeout(READY_WITHIN, first_frame(&mut prepared, link.network())).await;
    match first {
        Ok(Ok(Some(FromGuest::Ready { protocol: VERSION, .. }))) => {
            if link.network() == Network::Proxy && prepared.listener.is_none() {
                return Err(SandboxError::Unavailable("the guest sent no listener".to_owned()));
            }
            Ok(prepared)
        }
        Ok(Ok(Some(FromGuest::Failed { step, errno }))) => {
            let cause = io::Error::from_raw_os_error(errno);
            Err(SandboxError::Unavailable(format!("a step of the confinement failed: {step}: {cause}")))
        }
        Ok(other) => Err(SandboxError::Unavailable(format!("the guest did not become ready: {other:?}"))),
        Err(_) => Err(SandboxError::Unavailable(format!("the guest did not become ready within {READY_WITHIN:?}"))),
    }
}

/// Receives the first frame, and before it the listener, if the sandbox has one.
async fn first_frame(prepared: &mut Prepared, network: Network) -> Result<Option<FromGuest>, FrameError> {
    if network == Network::Proxy {
        let channel = &prepared.channel;
        let receive = || messages::receive_byte(channel.as_fd());
        match channel.async_io(Interest::READABLE, receive).await? {
            (_, Some(listener)) => {
                let listener = std::net::TcpListener::from(listener);
                listener.set_nonblocking(true)?;
                prepared.listener = Some(TcpListener::from_std(listener)?);
            }
            // The first byte of the frame that says why there is no listener.
            (byte, None) => prepared.buffer.push(&byte),
        }
    }
    read_frame(&mut prepared.channel, &mut prepared.buffer).await
}
