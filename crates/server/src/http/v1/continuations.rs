//! What the agent did before it called a tool of the client.
//!
//! A client sends the whole conversation with each request, but knows only its own tool calls. The agent's own calls,
//! their results and signed reasoning are kept here until the client returns with the results of its calls.

use coracle_models::{Call, Item};
use coracle_types::UserId;
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

/// Maximum number of continuations of one user, and their maximum size together, in bytes. A user who needs more loses
/// the oldest, and not those of others.
const MAX_ENTRIES_OF_USER: usize = 50;
const MAX_BYTES_OF_USER: usize = 8 << 20;
/// The same for all users.
const MAX_ENTRIES: usize = 2_000;
const MAX_BYTES: usize = 64 << 20;

/// The continuations of all users.
#[derive(Debug, Default)]
pub(crate) struct Continuations {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    entries: HashMap<Key, Entry>,
    /// The oldest first.
    order: VecDeque<Key>,
    bytes: usize,
}

/// A user, and the ID of the first of the calls that the client got.
type Key = (UserId, String);

#[derive(Debug)]
struct Entry {
    /// What the agent did, including the calls of the client in the form that the provider wants to have back.
    items: Vec<Item>,
    bytes: usize,
}

impl Continuations {
    /// Keeps the items of a run that ended with calls of the client.
    pub(super) fn keep(&self, user: &UserId, calls: &[Call], items: Vec<Item>) {
        let Some(first) = calls.first() else { return };
        let bytes = serde_json::to_vec(&items).map_or(usize::MAX, |text| text.len());
        if bytes > MAX_BYTES_OF_USER {
            return;
        }
        let key = (user.clone(), first.id.clone());
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.remove(&key);
        state.bytes += bytes;
        state.order.push_back(key.clone());
        state.entries.insert(key, Entry { items, bytes });
        while state.exceeds_share(user) {
            let Some(oldest) = state.order.iter().find(|(owner, _)| owner == user).cloned() else { break };
            state.remove(&oldest);
        }
        while state.entries.len() > MAX_ENTRIES || state.bytes > MAX_BYTES {
            let Some(oldest) = state.order.front().cloned() else { break };
            state.remove(&oldest);
        }
    }

    /// Puts what the agent did back into a conversation, in place of the calls as the client sent them.
    pub(super) fn restore(&self, user: &UserId, items: Vec<Item>) -> Vec<Item> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.entries.is_empty() {
            return items;
        }
        let mut restored: Vec<Item> = Vec::with_capacity(items.len());
        let mut replaced: Vec<String> = Vec::new();
        for item in items {
            match &item {
                Item::Call(call) if replaced.contains(&call.id) => continue,
                Item::Call(call) => {
                    if let Some(entry) = state.entries.get(&(user.clone(), call.id.clone())) {
                        // The text before the calls is part of what was kept.
                        if matches!(restored.last(), Some(Item::Assistant { .. })) {
                            restored.pop();
                        }
                        for kept in &entry.items {
                            if let Item::Call(kept) = kept {
                                replaced.push(kept.id.clone());
                            }
                        }
                        restored.extend(entry.items.iter().cloned());
                        continue;
                    }
                }
                _ => {}
            }
            restored.push(item);
        }
        restored
    }
}

impl State {
    /// Whether a user has more than one user may have.
    fn exceeds_share(&self, user: &UserId) -> bool {
        let mut bytes = 0;
        let mut count = 0;
        for ((owner, _), entry) in &self.entries {
            if owner == user {
                bytes += entry.bytes;
                count += 1;
            }
        }
        count > MAX_ENTRIES_OF_USER || bytes > MAX_BYTES_OF_USER
    }

    fn remove(&mut self, key: &Key) {
        if let Some(entry) = self.entries.remove(key) {
            self.bytes -= entry.bytes;
            self.order.retain(|other| other != key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coracle_models::{CallResult, Part};

    fn call(id: &str) -> Call {
        Call { id: id.to_owned(), name: "f".to_owned(), arguments: "{}".to_owned(), native: None }
    }

    fn result(id: &str) -> Item {
        Item::Result(CallResult { call_id: id.to_owned(), parts: vec![Part::text("r")], is_error: false })
    }

    #[test]
    fn what_the_agent_did_comes_back() {
        let all = Continuations::default();
        let user = UserId::local();
        let ran = vec![
            Item::Call(call("own")),
            result("own"),
            Item::Assistant { text: "now".to_owned(), native: None },
            Item::Call(call("a")),
            Item::Call(call("b")),
        ];
        all.keep(&user, &[call("a"), call("b")], ran.clone());
        let asked = Item::User { parts: vec![Part::text("hi")] };
        let sent = vec![
            asked.clone(),
            Item::Assistant { text: "now".to_owned(), native: None },
            Item::Call(call("a")),
            Item::Call(call("b")),
            result("a"),
            result("b"),
        ];
        let mut expected = vec![asked];
        expected.extend(ran);
        expected.extend([result("a"), result("b")]);
        assert_eq!(all.restore(&user, sent.clone()), expected);
        let other = UserId::new("other").unwrap();
        assert_eq!(all.restore(&other, sent.clone()), sent);
    }

    fn keep(all: &Continuations, user: &UserId, id: usize) {
        let call = call(&id.to_string());
        all.keep(user, std::slice::from_ref(&call), vec![Item::Call(call.clone())]);
    }

    #[test]
    fn the_oldest_of_a_user_are_forgotten_and_not_those_of_others() {
        let all = Continuations::default();
        let (ann, bob) = (UserId::new("ann").unwrap(), UserId::new("bob").unwrap());
        keep(&all, &bob, 0);
        for id in 0..=MAX_ENTRIES_OF_USER {
            keep(&all, &ann, id);
        }
        let state = all.state.lock().unwrap();
        assert_eq!((state.entries.len(), state.order.len()), (MAX_ENTRIES_OF_USER + 1, MAX_ENTRIES_OF_USER + 1));
        assert!(state.entries.contains_key(&(bob, "0".to_owned())));
        assert!(!state.entries.contains_key(&(ann.clone(), "0".to_owned())));
        assert!(state.entries.contains_key(&(ann, "1".to_owned())));
    }

    #[test]
    fn the_number_for_all_users_is_limited() {
        let all = Continuations::default();
        for id in 0..=MAX_ENTRIES {
            let user = UserId::new(format!("user{}", id / MAX_ENTRIES_OF_USER)).unwrap();
            keep(&all, &user, id);
        }
        let state = all.state.lock().unwrap();
        assert_eq!((state.entries.len(), state.order.len()), (MAX_ENTRIES, MAX_ENTRIES));
    }
}
