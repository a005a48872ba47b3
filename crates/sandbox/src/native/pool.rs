//! Prepared sandboxes, kept ready so that a request finds one.
//!
//! A sandbox leaves the pool once and never comes back. Who finds the pool empty gets the next that is being made; if all
//! of those are spoken for, one is made with the workspace bound to it from the start.
//!
//! Who asks for the same twice in a row will likely do so again: one sandbox is bound to that ahead of time. It is given to
//! nobody who asks for anything else.

use super::life::Life;
use super::link::{Ended, Link};
use super::messages::{Ask, Bind, Kills, Slot};
use crate::SandboxError;
use coracle_protocol::{FrameBuffer, FromGuest, VERSION, read_frame};
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::sync::{oneshot, watch};

/// Making the next one at once would take the processor from the execution that has just begun, and from whoever reads
/// what came of it; while there are enough others it can wait.
const UNHURRIED: Duration = Duration::from_millis(5);
const HURRIED: Duration = Duration::from_millis(2);

/// So many of a pool have rehearsed; the others wait with less memory.
const MOST_REHEARSED: usize = 32;

/// So many are made at the same time for the pool.
const AT_ONCE: usize = 2;

/// After the pool was found empty, for so long all haste goes into making new ones.
const PRESSED_FOR: Duration = Duration::from_millis(100);

/// A child that has not said `ready` by then never will.
const READY_WITHIN: Duration = Duration::from_secs(20);

/// A sandbox that waits to be told what to run.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) slot: Slot,
    pub(super) channel: UnixStream,
    pub(super) buffer: FrameBuffer,
    pub(super) stdout: pipe::Receiver,
    pub(super) stderr: pipe::Receiver,
    pub(super) ended: watch::Receiver<Option<Ended>>,
    pub(super) life: Life,
    pub(super) kills: Option<Kills>,
    /// What it has been bound to.
    pub(super) bound: Option<Bind>,
}

impl Prepared {
    /// One that went down with its zygote while it waited is of no use.
    fn lives(&self) -> bool {
        self.ended.borrow().is_none()
    }
}

/// Somebody who gets the next one that fits.
#[derive(Debug)]
struct Waiting {
    bind: Bind,
    give: oneshot::Sender<Prepared>,
}

#[derive(Debug, Default)]
struct State {
    /// Bound ahead of time.
    ahead: Option<Prepared>,
    /// What was last asked for, and whether it was the same as the time before.
    last: Option<Bind>,
    again: bool,
    /// Taken first.
    rehearsed: VecDeque<Prepared>,
    /// The rest of a large pool: slower by a millisecond, and half the memory.
    cold: VecDeque<Prepared>,
    /// Being made.
    rehearsing: usize,
    cooling: usize,
    /// Those who get the next ones that are made: no more than are being made.
    waiting: VecDeque<Waiting>,
    refill_planned: bool,
    /// One is being bound ahead of time.
    binding: bool,
    /// When somebody last found nothing here: there is no time to rehearse then.
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

/// Whether a child runs through a first run before it is asked to.
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

    /// A prepared sandbox, bound to this or to nothing; none if there is none and none will be soon.
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

    /// Starts making what is missing and not under way: a few at a time, since there is other work.
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

    /// Binds it to what was asked for twice in a row, if nothing is yet.
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
        sent.map_err(|error| SandboxError::Unavailable(format!("the launcher: {error}")))?;
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
            // Whoever comes next will try again and be told; so does whoever waits for one too many.
            Err(error) => {
                tracing::warn!(%error, "no sandbox could be prepared");
                let being_made = state.being_made();
                state.waiting.truncate(being_made);
            }
        }
    }
}

impl State {
    /// Notes what is asked for; gives the sandbox that is bound to it already, if there is one.
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
            // What it is bound to is no longer asked for.
            self.ahead = None;
        }
        None
    }

    /// To whoever waits longest, or to those that are kept.
    fn give(&mut self, mut prepared: Prepared, rehearse: Rehearse) {
        let fits =
            |waiting: &Waiting, prepared: &Prepared| prepared.bound.as_ref().is_none_or(|bound| *bound == waiting.bind);
        while let Some(place) = self.waiting.iter().position(|waiting| fits(waiting, &prepared)) {
            let Some(waiting) = self.waiting.remove(place) else { break };
            match waiting.give.send(prepared) {
                Ok(()) => return,
                // Given up meanwhile.
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

/// Has a sandbox made with its workspace bound from the start. If this is dropped midway, what was made is killed.
pub(super) async fn make(link: &Arc<Link>, bind: Bind) -> Result<Prepared, SandboxError> {
    let link = Arc::clone(link);
    let task = tokio::spawn(async move { prepare(&link, Rehearse::No, Some(bind)).await });
    task.await.unwrap_or_else(|_| Err(SandboxError::Unavailable("Coracle is shutting down".to_owned())))
}

async fn prepare(link: &Arc<Link>, rehearse: Rehearse, bind: Option<Bind>) -> Result<Prepared, SandboxError> {
    let unavailable = |error: io::Error| SandboxError::Unavailable(format!("the launcher: {error}"));
    let preparing = link.prepare(rehearse == Rehearse::Yes, bind).await.map_err(unavailable)?;
    let Ok(answer) = preparing.made.await else {
        // The launcher is gone. Why it went is the better answer.
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
        ended: preparing.ended,
        life,
        kills,
        bound: None,
    };
    let first = tokio::time::timeout(READY_WITHIN, read_frame(&mut prepared.channel, &mut prepared.buffer)).await;
    match first {
        Ok(Ok(Some(FromGuest::Ready { protocol: VERSION, .. }))) => Ok(prepared),
        Ok(Ok(Some(FromGuest::Failed { step, errno }))) => {
            let cause = io::Error::from_raw_os_error(errno);
            Err(SandboxError::Unavailable(format!("a step of the confinement failed: {step}: {cause}")))
        }
        Ok(other) => Err(SandboxError::Unavailable(format!("the guest did not get ready: {other:?}"))),
        Err(_) => Err(SandboxError::Unavailable(format!("the guest did not get ready within {READY_WITHIN:?}"))),
    }
}
