//! Limits how much expensive work is done at once: one piece for each user, and a few for all of them.

use coracle_types::UserId;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Work under way, by user. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct UserTurns {
    busy: Arc<Mutex<BTreeSet<UserId>>>,
    /// Maximum number of users at once.
    most: usize,
}

/// Work of a user that is under way until this is dropped.
#[derive(Debug)]
pub(crate) struct UserTurn {
    turns: UserTurns,
    user: UserId,
}

impl UserTurns {
    pub(crate) fn at_most(most: usize) -> Self {
        Self { busy: Arc::default(), most }
    }

    fn busy(&self) -> MutexGuard<'_, BTreeSet<UserId>> {
        self.busy.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins work; `None` if some of the same user is under way, or too much of others.
    pub(crate) fn begin(&self, user: &UserId) -> Option<UserTurn> {
        let mut busy = self.busy();
        let is_free = busy.len() < self.most && busy.insert(user.clone());
        is_free.then(|| UserTurn { turns: self.clone(), user: user.clone() })
    }
}

impl Drop for UserTurn {
    fn drop(&mut self) {
        self.turns.busy().remove(&self.user);
    }
}

#[cfg(test)]
mod tests {
    use super::UserTurns;
    use coracle_types::UserId;

    #[test]
    fn a_user_has_one_turn_at_a_time_and_all_have_a_few() {
        let turns = UserTurns::at_most(8);
        let user = |number: usize| UserId::new(format!("user{number}")).unwrap();
        let first = turns.begin(&user(0));
        assert!(first.is_some() && turns.begin(&user(0)).is_none());
        let others: Vec<_> = (1..=8).map(|number| turns.begin(&user(number))).collect();
        assert_eq!(others.iter().filter(|turn| turn.is_some()).count(), 7);
        drop(first);
        assert!(turns.begin(&user(8)).is_some());
    }
}
