//! Connections of clients that begin with `initialize`: so many are remembered, and the least needed gives way.

use coracle_types::UserId;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// So many at once.
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
}

impl Sessions {
    /// There is a new one; the one that has to go for it, if there are too many.
    pub(crate) fn add(&self, id: &str, user: &UserId) -> Option<Arc<str>> {
        let mut all = self.lock();
        all.insert(id.into(), Entry { user: user.clone(), last: Instant::now(), requests: 0, is_used: false });
        if all.len() <= MAX_SESSIONS {
            return None;
        }
        let others = all.iter().filter(|(other, _)| other.as_ref() != id);
        let least = others.min_by_key(|(_, entry)| (entry.requests > 0, entry.is_used, entry.last))?.0.clone();
        all.remove(&least);
        Some(least)
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
    fn whoever_only_knocks_goes_first_and_whoever_is_served_last() {
        let sessions = Sessions::default();
        for name in ["served", "client", "knock"] {
            assert_eq!(sessions.add(name, &UserId::local()), None);
        }
        drop(sessions.begin("client"));
        let served = sessions.begin("served");
        for number in 3..MAX_SESSIONS {
            let name = format!("other {number}");
            assert_eq!(sessions.add(&name, &UserId::local()), None);
            drop(sessions.begin(&name));
        }
        assert_eq!(sessions.add("a", &UserId::local()).as_deref(), Some("knock"));
        assert_eq!(sessions.add("b", &UserId::local()).as_deref(), Some("a"));
        drop(sessions.begin("b"));
        assert_eq!(sessions.add("c", &UserId::local()).as_deref(), Some("client"));
        drop(served);
        drop(sessions.begin("c"));
        sessions.remove("c");
        assert_eq!(sessions.add("d", &UserId::local()), None);
        assert!(sessions.begin("c").is_none());
    }
}
