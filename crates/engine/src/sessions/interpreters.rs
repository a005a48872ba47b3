//! Interpreters that stay alive between executions, each owned by one session of one user.

use crate::artifacts::ArtifactFolder;
use crate::journal::Shown;
use crate::network::Doorway;
use coracle_sandbox::Sandbox;
use coracle_store::SessionRecord;
use coracle_types::{SessionId, UserId};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedMutexGuard, OwnedSemaphorePermit};
use tokio::time::Instant;

/// A sandbox with the state of its session.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) sandbox: Sandbox,
    pub(crate) artifacts: ArtifactFolder,
    /// Its connections to the network, if it has one.
    pub(crate) doorway: Option<Doorway>,
    /// The workspace it was opened with: another one needs another sandbox.
    pub(crate) workspace: PathBuf,
    /// Tasks in the copy of its log.
    pub(crate) shown: Shown,
    pub(crate) runs: u64,
    /// The number of the last task that it has run.
    pub(crate) last_task: u64,
    pub(crate) last_used: Instant,
    /// Its share of the limit on sandboxes.
    pub(crate) _place: Option<OwnedSemaphorePermit>,
}

/// One session: executions of it take turns.
type Seat = Arc<tokio::sync::Mutex<Option<Live>>>;

/// The right to use a session.
pub(crate) type Turn = OwnedMutexGuard<Option<Live>>;

/// The interpreters of all sessions.
#[derive(Debug, Default)]
pub(crate) struct Interpreters {
    all: Mutex<All>,
}

#[derive(Debug, Default)]
struct All {
    places: HashMap<(UserId, SessionId), Place>,
    /// Remembered sessions by label.
    labels: HashMap<(UserId, String), SessionId>,
}

#[derive(Debug, Default)]
struct Place {
    seat: Seat,
    /// Code has run in the session: if an interpreter starts now, it is a restart.
    used: bool,
    /// The session as it was in the store when its last task began.
    record: Option<SessionRecord>,
}

/// Maximum number of sessions that are remembered after their interpreter has ended.
const MAX_REMEMBERED: usize = 10_000;

impl Interpreters {
    fn lock(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The place of a session, where its executions take turns.
    pub(crate) fn seat(&self, user: &UserId, session: &SessionId) -> Seat {
        Arc::clone(&self.lock().places.entry((user.clone(), session.clone())).or_default().seat)
    }

    /// Marks a session as used; returns whether it was used before.
    pub(crate) fn mark_used(&self, user: &UserId, session: &SessionId) -> bool {
        let mut all = self.lock();
        let place = all.places.entry((user.clone(), session.clone())).or_default();
        std::mem::replace(&mut place.used, true)
    }

    /// Remembers a session for which the store has just accepted a task.
    pub(crate) fn remember(&self, user: &UserId, session: SessionRecord) {
        let mut all = self.lock();
        if let Some(label) = session.label.clone() {
            all.labels.insert((user.clone(), label), session.id.clone());
        }
        let place = all.places.entry((user.clone(), session.id.clone())).or_default();
        place.record = Some(session);
    }

    /// The session with this ID or label, if it has an interpreter. Another process may have ended the session: then the
    /// store does not accept its next task.
    pub(crate) fn remembered(&self, user: &UserId, handle: &SessionId) -> Option<SessionRecord> {
        let all = self.lock();
        let id =
            if handle.is_minted() { handle } else { all.labels.get(&(user.clone(), handle.as_str().to_owned()))? };
        let place = all.places.get(&(user.clone(), id.clone()))?;
        place.record.clone().filter(|_| place.is_live())
    }

    /// Number of interpreters that are alive.
    pub(crate) fn live(&self) -> usize {
        self.lock().places.values().filter(|place| place.is_live()).count()
    }

    /// Number of this user's interpreters that are alive or about to start.
    pub(crate) fn live_of(&self, user: &UserId) -> usize {
        self.lock().places.iter().filter(|((whose, _), place)| whose == user && place.is_live()).count()
    }

    /// Ends interpreters that have been unused for this long. The sessions are remembered, so that the next execution can
    /// report the restart.
    pub(crate) fn expire(&self, idle: Duration) {
        let mut all = self.lock();
        let All { places, labels } = &mut *all;
        for ((user, _), place) in places.iter_mut() {
            if let Ok(mut live) = place.seat.try_lock()
                && live.as_ref().is_some_and(|live| live.last_used.elapsed() >= idle)
            {
                *live = None;
            }
            if !place.is_live()
                && let Some(label) = place.record.take().and_then(|record| record.label)
            {
                labels.remove(&(user.clone(), label));
            }
        }
        if places.len() > MAX_REMEMBERED {
            places.retain(|_, place| place.is_live());
        }
    }

    /// Ends an interpreter, after the execution that it may be running.
    pub(crate) fn forget(&self, user: &UserId, session: &SessionId) {
        let mut all = self.lock();
        let gone = all.places.remove(&(user.clone(), session.clone()));
        if let Some(label) = gone.and_then(|place| place.record).and_then(|record| record.label) {
            all.labels.remove(&(user.clone(), label));
        }
    }

    /// Ends all interpreters of a user, after the executions that they may be running.
    pub(crate) fn forget_all_of(&self, user: &UserId) {
        let mut all = self.lock();
        all.places.retain(|(whose, _), _| whose != user);
        all.labels.retain(|(whose, _), _| whose != user);
    }

    /// Ends all of them.
    pub(crate) fn clear(&self) {
        *self.lock() = All::default();
    }
}

impl Place {
    /// Whether it has an interpreter, or an execution is about to use it.
    fn is_live(&self) -> bool {
        Arc::strong_count(&self.seat) > 1 || self.seat.try_lock().map_or(true, |live| live.is_some())
    }
}
