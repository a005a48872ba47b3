//! Tools that users want to be asked about, or that they refuse for good, whatever the rules allow.

use coracle_store::{Store, StoreError};
use coracle_types::{Decision, ServerName, UserId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long restrictions are used without reading them again. Those that another process stores apply after this.
const FRESH: Duration = Duration::from_secs(1);
/// The maximum number of users whose restrictions are held in memory.
const MAX_USERS: usize = 10_000;

/// The restrictions of one user: by server, and by the name of the tool.
type ByTool = HashMap<ServerName, HashMap<String, Decision>>;

/// The restrictions of users, as they were read last.
#[derive(Debug, Default)]
pub(crate) struct Restrictions {
    read: Mutex<Read>,
}

#[derive(Debug, Default)]
struct Read {
    by_user: HashMap<UserId, (Instant, Arc<ByTool>)>,
    /// Number of changes. What was read before a change is not kept after it.
    changes: u64,
}

impl Restrictions {
    fn read(&self) -> MutexGuard<'_, Read> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The restriction of a user on a tool: ask or deny.
    pub(crate) async fn on(
        &self,
        store: &dyn Store,
        user: &UserId,
        server: &ServerName,
        tool: &str,
    ) -> Result<Option<Decision>, StoreError> {
        let fresh = |read: &Read| {
            let known = read.by_user.get(user).filter(|(at, _)| at.elapsed() < FRESH);
            known.map(|(_, known)| Arc::clone(known))
        };
        let known = fresh(&self.read());
        let known = match known {
            Some(known) => known,
            None => self.read_again(store, user).await?,
        };
        Ok(known.get(server).and_then(|tools| tools.get(tool)).copied())
    }

    async fn read_again(&self, store: &dyn Store, user: &UserId) -> Result<Arc<ByTool>, StoreError> {
        // Before the restrictions are read, so that those that are stored meanwhile are not taken for known.
        let (at, changes) = (Instant::now(), self.read().changes);
        let mut by_tool = ByTool::new();
        for decided in store.decisions(user).await? {
            if decided.decision != Decision::Allow {
                by_tool.entry(decided.server).or_default().insert(decided.tool, decided.decision);
            }
        }
        let by_tool = Arc::new(by_tool);
        self.keep(user, at, changes, Arc::clone(&by_tool));
        Ok(by_tool)
    }

    /// Keeps what was read at a moment when there were this many changes, unless there are more now.
    fn keep(&self, user: &UserId, at: Instant, changes: u64, by_tool: Arc<ByTool>) {
        let mut read = self.read();
        if read.changes != changes {
            return;
        }
        if read.by_user.len() >= MAX_USERS {
            read.by_user.clear();
        }
        read.by_user.insert(user.clone(), (at, by_tool));
    }

    /// Reads the restrictions of a user again before the next decision.
    pub(crate) fn forget(&self, user: &UserId) {
        let mut read = self.read();
        read.changes += 1;
        read.by_user.remove(user);
    }
}

#[cfg(test)]
mod tests {
    use super::{ByTool, Restrictions};
    use coracle_types::UserId;
    use std::sync::Arc;
    use std::time::Instant;

    #[test]
    fn what_was_read_before_a_change_is_not_kept_after_it() {
        let (restrictions, ann) = (Restrictions::default(), UserId::local());
        let before = restrictions.read().changes;
        restrictions.forget(&ann);
        restrictions.keep(&ann, Instant::now(), before, Arc::new(ByTool::new()));
        assert!(restrictions.read().by_user.is_empty());
        let now = restrictions.read().changes;
        restrictions.keep(&ann, Instant::now(), now, Arc::new(ByTool::new()));
        assert!(restrictions.read().by_user.contains_key(&ann));
    }
}
