//! Connections of clients that begin with `initialize`: so many are remembered. If there are more, whoever has most of
//! them loses the one that is needed least.

use coracle_types::UserId;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Maximum number of sessions of all users together.
pub(crate) const MAX_SESSIONS: usize = 1_000;

/// Which there are, and when each was last used.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sessions(Arc<Mutex<HashMap<Arc<str>, Entry>>>);

#[derive(Debug)]
struct Entry {
    /// Who has begun it: nobody else may use it.
    user: UserId,
    last: Instant,
    /// Requests under way.
    requests: usize,
    /// Somebody came back after the first request: a client, and not just a knock.
    is_used: bool,
    /// Its client knows events without data, by the revision that it began with.
    is_primed: bool,
}

impl Sessions {
    /// There is a new one; the one that has to go for it, if there are too many.
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
        // Users who have equally many all have to give: the least needed of theirs goes.
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

    /// Whether somebody else has begun it.
    pub(crate) fn is_anothers(&self, id: &str, user: &UserId) -> bool {
        self.lock().get(id).is_some_and(|entry| entry.user != *user)
    }

    /// A request for one of them is under way, until what comes back is dropped.
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

/// A request that is under way.
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
    fn whoever_has_most_gives_way() {
        let sessions = Sessions::default();
        let (ann, bob, carl) = (user("ann"), user("bob"), user("carl"));
        for number in 0..10 {
            assert_eq!(sessions.add(&format!("ann {number}"), &ann, true), None);
        }
        for number in 10..MAX_SESSIONS {
            assert_eq!(sessions.add(&format!("bob {number}"), &bob, true), None);
            // Even what bob uses goes before what ann does not.
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
    fn whoever_only_knocks_goes_first_and_whoever_is_served_last() {
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
