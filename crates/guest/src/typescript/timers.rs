//! The due times of timers. The scripts know their callbacks.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

/// The maximum delay of a timer: the wall-clock limit of a run is lower.
const LONGEST: Duration = Duration::from_hours(48);

/// Timers by due time, then by age.
#[derive(Debug, Default)]
pub(super) struct Timers {
    due: BTreeSet<(Instant, u64)>,
    by_id: HashMap<u64, Instant>,
}

impl Timers {
    pub(super) fn set(&mut self, id: u64, milliseconds: f64) {
        self.clear(id);
        let delay = Duration::try_from_secs_f64(milliseconds / 1e3).unwrap_or(LONGEST).min(LONGEST);
        let moment = Instant::now() + delay;
        self.due.insert((moment, id));
        self.by_id.insert(id, moment);
    }

    pub(super) fn clear(&mut self, id: u64) {
        if let Some(moment) = self.by_id.remove(&id) {
            self.due.remove(&(moment, id));
        }
    }

    pub(super) fn clear_all(&mut self) {
        self.due.clear();
        self.by_id.clear();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.due.is_empty()
    }

    /// Time until the next timer is due.
    pub(super) fn wait(&self) -> Option<Duration> {
        self.due.first().map(|(moment, _)| moment.saturating_duration_since(Instant::now()))
    }

    /// Takes a timer that was due at `now`. Timers that are set meanwhile wait for their turn.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<u64> {
        let (moment, id) = *self.due.first()?;
        if moment > now {
            return None;
        }
        self.clear(id);
        Some(id)
    }
}

#[cfg(test)]
mod tests {
    use super::Timers;
    use std::time::{Duration, Instant};

    #[test]
    fn timers_fire_in_order_and_a_cleared_one_never() {
        let mut timers = Timers::default();
        timers.set(1, 5.0);
        timers.set(2, 0.0);
        timers.set(3, 0.0);
        timers.set(4, f64::MAX);
        timers.clear(3);
        let later = Instant::now() + Duration::from_secs(1);
        assert_eq!((timers.take_due(later), timers.take_due(later), timers.take_due(later)), (Some(2), Some(1), None));
        assert!(!timers.is_empty() && timers.wait().is_some());
        timers.clear_all();
        assert!(timers.is_empty() && timers.wait().is_none());
    }
}
