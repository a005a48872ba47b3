//! Sessions of clients that start with `initialize`, up to a limit. If there are more, the user with most of them loses
//! the least used one.

use coracle_types::UserId;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Maximum number of sessions of all users together.
pub(crate) const MAX_SESSIONS: usize = 1_000;

/// All sessions, with the time of their last use.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sessions(Arc<Mutex<HashMap<Arc<str>, Entry>>>);

#[derive(Debug)]
struct Entry {
    /// User who started the session. No other user can use it.
    user: UserId,
    last: Instant,
    /// Number of running requests.
    requests: usize,
    /// Whether there was a request after the first one.
    is_used: bool,
    /// Whether the client supports events without data, by the revision that it started with.
    is_primed: bool,
}

impl Sessions {
    /// Adds a session. Returns the one that was removed for it, if there were too many.
    pub(crate) fn add(&self, id: &str, user: &UserId, is_primed: bool) -> Option<Arc<str>> {
        let mut all = self.lock();
        all.insert(
            id.into(),
            Entry { user: user.clone(), last: Instant::now(), requests: 0, is_used: false, is_primed },
        );
        if all.len() <= MAX_SESSIONS {
            return None;
        }
        let mut counts: HashMap<&UserId, usize> = HashMap::new();
        for entry in all.values() {
            *counts.entry(&entry.user).or_default() += 1;
        }
        // Among users with equally many sessions, the least used session is removed.
        let most = counts.values().copied().max()?;
        let others = all.iter().filter(|(other, entry)| other.as_ref() != id && counts.get(&entry.user) == Some(&most));
        let least = others.min_by_key(|(_, entry)| (entry.requests > 0, entry.is_used, entry.last))?.0.clone();
        all.remove(&least);
        Some(least)
    }

    /// Whether the client of a session knows events without data; `None` if there is no such session.
    pub(crate) fn is_primed(&self, id: &str) -> Option<bool> {
        self.lock().get(id).map(|entry| entry.is_primed)
    }

    /// Whether the session belongs to another user.
    pub(crate) fn is_anothers(&self, id: &str, user: &UserId) -> bool {
        self.lock().get(id).is_some_and(|entry| entry.user != *user)
    }

    /// Marks a session as in use until the guard is dropped.
    pub(crate) fn begin(&self, id: &str) -> Option<InUse> {
        let mut all = self.lock();
        let entry = all.get_mut(id)?;
        entry.requests += 1;
        entry.is_used = true;
        entry.last = Instant::now();
        Some(InUse { id: id.into(), sessions: self.clone() })
    }

    pub(crate) fn remove(&self, id: &str) {
        self.lock().remove(id);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Guard of a running request.
#[derive(Debug)]
pub(crate) struct InUse {
    id: Arc<str>,
    sessions: Sessions,
}

impl Drop for InUse {
    fn drop(&mut self) {
        if let Some(entry) = self.sessions.lock().get_mut(&self.id) {
            entry.requests -= 1;
            entry.last = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_SESSIONS, Sessions};
    use coracle_types::UserId;

    #[test]
    fn the_user_with_most_sessions_loses_one() {
        let sessions = Sessions::default();
        let (ann, bob, carl) = (user("ann"), user("bob"), user("carl"));
        for number in 0..10 {
            assert_eq!(sessions.add(&format!("ann {number}"), &ann, true), None);
        }
        for number in 10..MAX_SESSIONS {
            assert_eq!(sessions.add(&format!("bob {number}"), &bob, true), None);
            // Even sessions that bob is using are removed before unused ones of ann.
            std::mem::forget(sessions.begin(&format!("bob {number}")));
        }
        for number in 0..2_000 {
            let gone = sessions.add(&format!("bob more {number}"), &bob, true).unwrap();
            assert!(gone.starts_with("bob"), "{gone}");
        }
        for number in 0..300 {
            let gone = sessions.add(&format!("carl {number}"), &carl, true).unwrap();
            assert!(gone.starts_with("bob"), "{gone}");
        }
        let gone = sessions.add("ann again", &ann, true).unwrap();
        assert!(gone.starts_with("bob"), "{gone}");
    }

    fn user(name: &str) -> UserId {
        UserId::new(name).unwrap()
    }

    #[test]
    fn unused_sessions_are_removed_first_and_busy_ones_last() {
        let sessions = Sessions::default();
        for name in ["served", "client", "knock"] {
            assert_eq!(sessions.add(name, &UserId::local(), true), None);
        }
        drop(sessions.begin("client"));
        let served = sessions.begin("served");
        for number in 3..MAX_SESSIONS {
            let name = format!("other {number}");
            assert_eq!(sessions.add(&name, &UserId::local(), true), None);
            drop(sessions.begin(&name));
        }
        assert_eq!(sessions.add("a", &UserId::local(), true).as_deref(), Some("knock"));
        assert_eq!(sessions.add("b", &UserId::local(), true).as_deref(), Some("a"));
        drop(sessions.begin("b"));
        assert_eq!(sessions.add("c", &UserId::local(), true).as_deref(), Some("client"));
        drop(served);
        drop(sessions.begin("c"));
        sessions.remove("c");
        assert_eq!(sessions.add("d", &UserId::local(), true), None);
        assert!(sessions.begin("c").is_none());
    }
}
