//! Limits how much work the export and the deletion of users' data cause at once.

use coracle_types::UserId;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum number of exports at once. Each one needs a thread for as long as its client reads.
const MAX_EXPORTS: usize = 8;

/// Exports and deletions under way. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct UserDataTurns {
    exporting: Arc<Mutex<BTreeSet<UserId>>>,
    /// Held while data is deleted, because the whole database is then written anew.
    pub(crate) deleting: Arc<tokio::sync::Mutex<()>>,
}

/// An export under way.
#[derive(Debug)]
pub(crate) struct ExportTurn {
    turns: UserDataTurns,
    user: UserId,
}

impl UserDataTurns {
    fn exporting(&self) -> MutexGuard<'_, BTreeSet<UserId>> {
        self.exporting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins an export; `None` if one of the same user is under way, or too many are.
    pub(crate) fn export(&self, user: &UserId) -> Option<ExportTurn> {
        let mut exporting = self.exporting();
        let is_free = exporting.len() < MAX_EXPORTS && exporting.insert(user.clone());
        is_free.then(|| ExportTurn { turns: self.clone(), user: user.clone() })
    }
}

impl Drop for ExportTurn {
    fn drop(&mut self) {
        self.turns.exporting().remove(&self.user);
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_EXPORTS, UserDataTurns};
    use coracle_types::UserId;

    #[test]
    fn a_user_has_one_export_at_a_time_and_all_have_a_few() {
        let turns = UserDataTurns::default();
        let user = |number: usize| UserId::new(format!("user{number}")).unwrap();
        let first = turns.export(&user(0));
        assert!(first.is_some() && turns.export(&user(0)).is_none());
        let others: Vec<_> = (1..=MAX_EXPORTS).map(|number| turns.export(&user(number))).collect();
        assert_eq!(others.iter().filter(|turn| turn.is_some()).count(), MAX_EXPORTS - 1);
        drop(first);
        assert!(turns.export(&user(MAX_EXPORTS)).is_some());
    }
}
