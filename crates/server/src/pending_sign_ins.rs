//! Sign-ins to MCP servers that wait for a browser to come back.

use coracle_types::{ServerName, UserId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// Maximum number of sign-ins of one user that wait. Beyond it the oldest ends.
const MAX_OF_USER: usize = 4;
/// Maximum number of sign-ins that wait.
const MAX_OF_ALL: usize = 256;

/// The outcome of a sign-in: nothing, or the reason why it failed.
pub(crate) type Outcome = Result<(), String>;

/// A sign-in that waits.
#[derive(Debug)]
pub(crate) struct PendingSignIn {
    /// User who began it. Nobody else can complete it: otherwise, a person who follows a link of somebody else would sign
    /// that user in with their own account.
    pub(crate) user: UserId,
    /// Server to sign in to.
    pub(crate) server: ServerName,
    /// Takes the URL with which the browser comes back.
    pub(crate) arrival: oneshot::Sender<String>,
    /// Tells the outcome.
    pub(crate) outcome: oneshot::Receiver<Outcome>,
}

/// All sign-ins that wait, by their `state`. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct PendingSignIns(Arc<Mutex<Waiting>>);

#[derive(Debug, Default)]
struct Waiting {
    next: u64,
    by_state: HashMap<String, (u64, PendingSignIn)>,
}

impl PendingSignIns {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a sign-in. Returns whether there was room.
    pub(crate) fn add(&self, state: String, sign_in: PendingSignIn) -> bool {
        let mut waiting = self.waiting();
        let own = waiting.by_state.iter().filter(|(_, (_, other))| other.user == sign_in.user);
        let mut own: Vec<(u64, String)> = own.map(|(state, (number, _))| (*number, state.clone())).collect();
        own.sort();
        if own.len() >= MAX_OF_USER
            && let Some((_, oldest)) = own.first()
        {
            waiting.by_state.remove(oldest);
        }
        if waiting.by_state.len() >= MAX_OF_ALL {
            return false;
        }
        let number = waiting.next;
        waiting.next += 1;
        waiting.by_state.insert(state, (number, sign_in));
        true
    }

    /// Takes the sign-in of this user with this state.
    pub(crate) fn take(&self, state: &str, user: &UserId) -> Option<PendingSignIn> {
        let mut waiting = self.waiting();
        waiting.by_state.get(state).filter(|(_, sign_in)| sign_in.user == *user)?;
        waiting.by_state.remove(state).map(|(_, sign_in)| sign_in)
    }

    /// Forgets a sign-in that has ended.
    pub(crate) fn forget(&self, state: &str) {
        self.waiting().by_state.remove(state);
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_OF_ALL, MAX_OF_USER, PendingSignIn, PendingSignIns};
    use coracle_types::{ServerName, UserId};
    use tokio::sync::oneshot;

    #[test]
    fn only_the_user_who_began_can_complete_and_nobody_takes_the_room_of_others() {
        let pending = PendingSignIns::default();
        let user = |name: &str| UserId::new(name).unwrap();
        let add = |state: &str, name: &str| {
            let (arrival, _) = oneshot::channel();
            let (_, outcome) = oneshot::channel();
            let server = ServerName::new("mail").unwrap();
            pending.add(state.to_owned(), PendingSignIn { user: user(name), server, arrival, outcome })
        };
        assert!(add("first", "ann"));
        assert!(pending.take("first", &user("bob")).is_none() && pending.take("other", &user("ann")).is_none());
        for number in 0..MAX_OF_USER {
            assert!(add(&format!("bob{number}"), "bob") && add(&format!("ann{number}"), "ann"));
        }
        assert!(pending.take("first", &user("ann")).is_none(), "the oldest has ended");
        assert!(pending.take("bob0", &user("bob")).is_some() && pending.take("bob0", &user("bob")).is_none());
        pending.forget("ann0");
        assert!(pending.take("ann0", &user("ann")).is_none());
        assert!(add("bob4", "bob"));
        assert!(
            (0..MAX_OF_ALL).filter(|number| add(&format!("x{number}"), &format!("user{number}"))).count() < MAX_OF_ALL
        );
        assert!(add("again", "bob"), "in the place of an own one");
    }
}
