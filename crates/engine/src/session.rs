//! Interpreters that live on between executions, each owned by one user's session.

use crate::artifacts::ArtifactFolder;
use crate::journal::Shown;
use coracle_sandbox::Sandbox;
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
    /// The workspace it was opened with: another one needs another sandbox.
    pub(crate) workspace: PathBuf,
    /// What the copy of its log shows.
    pub(crate) shown: Shown,
    pub(crate) runs: u64,
    /// The number of the last task that it has run.
    pub(crate) last_task: u64,
    pub(crate) last_used: Instant,
    /// One of so many that there may be.
    pub(crate) _place: Option<OwnedSemaphorePermit>,
}

/// One session: executions of it take turns.
type Seat = Arc<tokio::sync::Mutex<Option<Live>>>;

/// The right to use a session.
pub(crate) type Turn = OwnedMutexGuard<Option<Live>>;

#[derive(Debug, Default)]
pub(crate) struct Sessions {
    seats: Mutex<HashMap<(UserId, SessionId), Place>>,
}

#[derive(Debug, Default)]
struct Place {
    seat: Seat,
    /// Something has run here: an interpreter that starts now starts anew.
    used: bool,
}

/// So many ended sessions are remembered.
const MAX_REMEMBERED: usize = 10_000;

impl Sessions {
    fn seats(&self) -> MutexGuard<'_, HashMap<(UserId, SessionId), Place>> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn seat(&self, user: &UserId, session: &SessionId) -> Seat {
        Arc::clone(&self.seats().entry((user.clone(), session.clone())).or_default().seat)
    }

    /// Whether something has run in it before; from now on, something has.
    pub(crate) fn mark_used(&self, user: &UserId, session: &SessionId) -> bool {
        let mut seats = self.seats();
        let place = seats.entry((user.clone(), session.clone())).or_default();
        std::mem::replace(&mut place.used, true)
    }

    /// How many interpreters live.
    pub(crate) fn live(&self) -> usize {
        self.seats().values().filter(|place| place.is_live()).count()
    }

    /// How many interpreters of this user live, or are about to.
    pub(crate) fn live_of(&self, user: &UserId) -> usize {
        self.seats().iter().filter(|((whose, _), place)| whose == user && place.is_live()).count()
    }

    /// Ends interpreters that nobody has used for so long. The session itself is remembered: its next answer says that
    /// it had to start anew.
    pub(crate) fn expire(&self, idle: Duration) {
        let mut seats = self.seats();
        for place in seats.values() {
            if let Ok(mut live) = place.seat.try_lock()
                && live.as_ref().is_some_and(|live| live.last_used.elapsed() >= idle)
            {
                *live = None;
            }
        }
        if seats.len() > MAX_REMEMBERED {
            seats.retain(|_, place| place.is_live());
        }
    }

    /// Ends an interpreter; one that runs something ends after that.
    pub(crate) fn forget(&self, user: &UserId, session: &SessionId) {
        self.seats().remove(&(user.clone(), session.clone()));
    }

    pub(crate) fn clear(&self) {
        self.seats().clear();
    }
}

impl Place {
    /// Whether it has an interpreter, or somebody is about to use it.
    fn is_live(&self) -> bool {
        Arc::strong_count(&self.seat) > 1 || self.seat.try_lock().map_or(true, |live| live.is_some())
    }
}
