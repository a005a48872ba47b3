//! Prepared sandboxes, kept ready so that a request finds one.
//!
//! A sandbox leaves the pool once and never comes back. Who finds the pool empty waits for the next that is made; those
//! who wait come before the pool.

use super::link::{Ended, Link, Streams};
use super::messages::{Slot, Warmth};
use super::sandbox::Life;
use crate::SandboxError;
use coracle_protocol::{FrameBuffer, FromGuest, VERSION, read_frame};
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::sync::{oneshot, watch};

/// Making the next one at once would take the processor from the execution that has just begun.
const REFILL_DELAY: Duration = Duration::from_millis(2);

/// So many of a pool have rehearsed; the others wait with less memory.
const MOST_REHEARSED: usize = 32;

/// A child that has not said `ready` by then never will.
const READY_WITHIN: Duration = Duration::from_secs(20);

/// A sandbox that waits for a workspace.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) slot: Slot,
    pub(super) channel: UnixStream,
    pub(super) buffer: FrameBuffer,
    pub(super) stdout: pipe::Receiver,
    pub(super) stderr: pipe::Receiver,
    pub(super) ended: watch::Receiver<Option<Ended>>,
    pub(super) life: Life,
}

type Waiter = oneshot::Sender<Result<Prepared, SandboxError>>;

#[derive(Debug, Default)]
struct State {
    /// Taken first.
    rehearsed: VecDeque<Prepared>,
    /// The rest of a large pool: slower by a millisecond, and half the memory.
    cold: VecDeque<Prepared>,
    waiters: VecDeque<Waiter>,
    /// Being made: for the pool rehearsed or cold, or for those who wait.
    under_way: usize,
    rehearsing: usize,
    refill_planned: bool,
    stopped: bool,
}

impl State {
    fn ready(&self) -> usize {
        self.rehearsed.len() + self.cold.len()
    }
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

    /// A prepared sandbox, waiting for one if there is none.
    pub(super) async fn take(self: &Arc<Self>) -> Result<Prepared, SandboxError> {
        let waiting = {
            let mut state = self.state();
            while let Some(prepared) = state.rehearsed.pop_front().or_else(|| state.cold.pop_front()) {
                // One that went down with its zygote while it waited is of no use.
                if prepared.ended.borrow().is_none() {
                    self.plan_refill(&mut state);
                    return Ok(prepared);
                }
            }
            let (waiter, waiting) = oneshot::channel();
            state.waiters.push_back(waiter);
            self.make_up(&mut state);
            waiting
        };
        waiting.await.unwrap_or_else(|_| Err(SandboxError::Unavailable("Coracle is shutting down".to_owned())))
    }

    pub(super) fn stop(&self) {
        let mut state = self.state();
        state.stopped = true;
        state.rehearsed.clear();
        state.cold.clear();
        state.waiters.clear();
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
        tokio::spawn(async move {
            tokio::time::sleep(REFILL_DELAY).await;
            let mut state = pool.state();
            state.refill_planned = false;
            pool.make_up(&mut state);
        });
    }

    /// Starts making as many as are wanted and not under way.
    fn make_up(self: &Arc<Self>, state: &mut State) {
        if state.stopped {
            return;
        }
        let wanted = self.target + state.waiters.len();
        for _ in state.ready() + state.under_way..wanted {
            let warmth = if state.under_way < state.waiters.len() {
                Warmth::Copied
            } else if state.rehearsed.len() + state.rehearsing < MOST_REHEARSED {
                Warmth::Rehearsed
            } else {
                Warmth::Cold
            };
            state.under_way += 1;
            state.rehearsing += usize::from(warmth == Warmth::Rehearsed);
            let pool = Arc::clone(self);
            tokio::spawn(async move {
                let made = prepare(&pool.link, warmth).await;
                pool.deliver(made, warmth);
            });
        }
    }

    fn deliver(self: &Arc<Self>, made: Result<Prepared, SandboxError>, warmth: Warmth) {
        let mut state = self.state();
        state.under_way -= 1;
        state.rehearsing -= usize::from(warmth == Warmth::Rehearsed);
        if state.stopped {
            return;
        }
        let mut made = Some(made);
        while let Some(outcome) = made.take() {
            let Some(waiter) = state.waiters.pop_front() else {
                match outcome {
                    Ok(prepared) if warmth == Warmth::Cold => state.cold.push_back(prepared),
                    Ok(prepared) => state.rehearsed.push_back(prepared),
                    // Whoever comes next will try again and be told.
                    Err(error) => tracing::warn!(%error, "no sandbox could be prepared"),
                }
                return;
            };
            if let Err(unwanted) = waiter.send(outcome) {
                made = Some(unwanted);
            }
        }
    }
}

async fn prepare(link: &Arc<Link>, warmth: Warmth) -> Result<Prepared, SandboxError> {
    let unavailable = |error: io::Error| SandboxError::Unavailable(format!("the launcher: {error}"));
    let preparing = link.prepare(warmth).await.map_err(unavailable)?;
    let Ok(answer) = preparing.streams.await else {
        // The launcher is gone. Why it went is the better answer.
        link.started().await?;
        return Err(SandboxError::Unavailable("the launcher ended".to_owned()));
    };
    let [channel, stdout, stderr, pidfd]: Streams = answer.map_err(SandboxError::Unavailable)?;
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
