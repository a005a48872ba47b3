//! The users whose code is running, so that their workspaces are not deleted.

use coracle_types::UserId;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The users whose code is running.
#[derive(Clone, Debug, Default)]
pub(crate) struct Active(Arc<Mutex<HashMap<UserId, Count>>>);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    running: usize,
    held: bool,
}

/// A guard: while it exists, code of the user is running or is prevented from starting.
#[derive(Debug)]
pub(crate) struct Busy {
    active: Active,
    user: UserId,
    holds: bool,
}

impl Active {
    fn lock(&self) -> MutexGuard<'_, HashMap<UserId, Count>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether code of this user is running or is prevented from starting.
    pub(crate) fn is(&self, user: &UserId) -> bool {
        self.lock().contains_key(user)
    }

    /// Registers code that is about to run; `None` while code is prevented from starting.
    pub(crate) fn begin(&self, user: &UserId) -> Option<Busy> {
        let mut all = self.lock();
        let count = all.entry(user.clone()).or_default();
        if count.held {
            return None;
        }
        count.running += 1;
        Some(Busy { active: self.clone(), user: user.clone(), holds: false })
    }

    /// Prevents code of a user from starting; `None` if some is running or another guard already prevents it.
    pub(crate) fn hold(&self, user: &UserId) -> Option<Busy> {
        let mut all = self.lock();
        if all.contains_key(user) {
            return None;
        }
        all.insert(user.clone(), Count { running: 0, held: true });
        Some(Busy { active: self.clone(), user: user.clone(), holds: true })
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let mut all = self.active.lock();
        if let Some(count) = all.get_mut(&self.user) {
            if self.holds {
                count.held = false;
            } else {
                count.running = count.running.saturating_sub(1);
            }
            if *count == Count::default() {
                all.remove(&self.user);
            }
        }
    }
}
