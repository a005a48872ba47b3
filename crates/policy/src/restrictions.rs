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
    read: Mutex<HashMap<UserId, (Instant, Arc<ByTool>)>>,
}

impl Restrictions {
    fn read(&self) -> MutexGuard<'_, HashMap<UserId, (Instant, Arc<ByTool>)>> {
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
        let known = self.read().get(user).filter(|(at, _)| at.elapsed() < FRESH).map(|(_, known)| Arc::clone(known));
        let known = match known {
            Some(known) => known,
            None => self.read_again(store, user).await?,
        };
        Ok(known.get(server).and_then(|tools| tools.get(tool)).copied())
    }

    async fn read_again(&self, store: &dyn Store, user: &UserId) -> Result<Arc<ByTool>, StoreError> {
        // Before the restrictions are read, so that those that are stored meanwhile are not taken for known.
        let at = Instant::now();
        let mut by_tool = ByTool::new();
        for decided in store.decisions(user).await? {
            if decided.decision != Decision::Allow {
                by_tool.entry(decided.server).or_default().insert(decided.tool, decided.decision);
            }
        }
        let by_tool = Arc::new(by_tool);
        let mut read = self.read();
        if read.len() >= MAX_USERS {
            read.clear();
        }
        read.insert(user.clone(), (at, Arc::clone(&by_tool)));
        Ok(by_tool)
    }

    /// Reads the restrictions of a user again before the next decision.
    pub(crate) fn forget(&self, user: &UserId) {
        self.read().remove(user);
    }
}
