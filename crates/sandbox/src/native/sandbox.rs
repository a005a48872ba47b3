//! A native sandbox in use: its life, its watches, and how it ended.

use super::cgroup::KillCount;
use super::disk::When;
use super::life::Life;
use super::link::{Ended, Link};
use super::messages::{Counters, Slot};
use super::output::Output;
use super::pool::Prepared;
use super::watch::{self, Pace, Watched, watch};
use crate::{Cause, Control, Exit, Sandbox};
use async_trait::async_trait;
use coracle_types::Enforced;
use rustix::process::Signal;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch as watch_channel;
use tokio::task::JoinHandle;

/// Maximum time until a killed sandbox is gone.
const GONE_WITHIN: Duration = Duration::from_secs(10);

/// Combines the parts of a sandbox to which a workspace has been bound.
pub(super) fn bound(prepared: Prepared, link: &Arc<Link>, watched: Watched, enforced: Enforced, tier: &str) -> Sandbox {
    let artifacts = prepared.life.artifacts.clone();
    let life = Arc::new(prepared.life);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (pace, watched) = (Arc::clone(&watched.pace), Arc::new(watched));
    let watcher = tokio::spawn(watch(Arc::clone(&watched), Arc::clone(&life), Arc::clone(&seen)));
    let (from_guest, to_guest) = prepared.channel.into_split();
    Sandbox {
        to_guest: Box::new(to_guest),
        from_guest: Box::new(from_guest),
        buffer: prepared.buffer,
        stdout: Box::new(Output(prepared.stdout)),
        stderr: Box::new(Output(prepared.stderr)),
        artifacts,
        enforced,
        tier: tier.to_owned(),
        control: Box::new(NativeControl {
            slot: prepared.slot,
            link: Arc::clone(link),
            ended: prepared.ended,
            seen,
            kills: prepared.kills.map(KillCount::new),
            watched,
            pace,
            watcher,
            life,
            earlier: Counters::default(),
        }),
    }
}

struct NativeControl {
    slot: Slot,
    link: Arc<Link>,
    ended: watch_channel::Receiver<Option<Ended>>,
    seen: Arc<Mutex<Vec<Cause>>>,
    /// The counter of processes that the kernel killed for memory.
    kills: Option<KillCount>,
    watched: Arc<Watched>,
    pace: Arc<Pace>,
    watcher: JoinHandle<()>,
    life: Arc<Life>,
    /// The counters at the end of earlier runs.
    earlier: Counters,
}

impl NativeControl {
    fn causes_with(&self, counters: Counters) -> Vec<Cause> {
        let mut causes = self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if counters.oom_kills > self.earlier.oom_kills {
            causes.push(Cause::Memory { used: None });
        }
        if counters.forks_refused > self.earlier.forks_refused {
            causes.push(Cause::Processes);
        }
        causes
    }
}

#[async_trait]
impl Control for NativeControl {
    fn kill(&self) {
        self.life.kill();
    }

    fn begin(&self) {
        self.pace.begin();
    }

    async fn rest(&mut self) {
        self.pace.rest();
        self.earlier = self.link.count(self.slot).await;
        watch::end_if_over(&self.watched, &self.life, &self.seen, When::Ended).await;
    }

    async fn exit(&mut self) -> Exit {
        let waited = async { self.ended.wait_for(Option::is_some).await.ok().and_then(|ended| ended.clone()) };
        let ended = tokio::time::timeout(GONE_WITHIN, waited).await.ok().flatten();
        // The launcher is gone or stuck: all that is known is that the sandbox was killed.
        let ended = ended.unwrap_or(Ended { status: Signal::KILL.as_raw(), ..Ended::default() });
        let mut causes = self.causes_with(ended.counters);
        causes.extend(ended.failure);
        Exit { status: shell_status(ended.status), causes }
    }

    async fn causes(&mut self) -> Vec<Cause> {
        let counters = self.link.count(self.slot).await;
        self.causes_with(counters)
    }

    async fn passed(&mut self) -> Option<Cause> {
        // The watch may have seen it a moment ago.
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner).first().cloned();
        if seen.is_some() {
            return seen;
        }
        if self.kills.as_mut().is_some_and(|kills| kills.read() > self.earlier.oom_kills) {
            return Some(Cause::Memory { used: None });
        }
        watch::disk(&self.watched, &self.life, When::Ending(self.pace.run())).await
    }
}

impl Drop for NativeControl {
    fn drop(&mut self) {
        self.watcher.abort();
        self.life.kill();
    }
}

/// A wait status as shells report it.
pub(crate) fn shell_status(status: i32) -> i32 {
    let signal = status & 0x7f;
    if signal == 0 { (status >> 8) & 0xff } else { 128 + signal }
}
