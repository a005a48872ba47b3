//! Sign-ins that wait for the provider.

use coracle_store::TokenDigest;
use oauth2::PkceCodeVerifier;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time limit for signing in at the provider.
pub(crate) const PATIENCE: Duration = Duration::from_mins(10);
/// Maximum number of sign-ins that wait for the provider. If there are more, the address with most of them loses its
/// oldest.
const MAX_PENDING: usize = 1_000;

/// Sign-ins that wait for the provider, by state.
#[derive(Default)]
pub(crate) struct Pending(Mutex<HashMap<String, Waiting>>);

pub(crate) struct Waiting {
    /// Address that started the sign-in.
    pub(crate) from: IpAddr,
    pub(crate) browser: TokenDigest,
    pub(crate) nonce: String,
    pub(crate) verifier: PkceCodeVerifier,
    pub(crate) next: String,
    pub(crate) since: Instant,
}

impl Pending {
    pub(crate) fn add(&self, state: String, waiting: Waiting) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, waiting| waiting.since.elapsed() < PATIENCE);
        if all.len() >= MAX_PENDING {
            let mut counts: HashMap<IpAddr, usize> = HashMap::new();
            for waiting in all.values() {
                *counts.entry(waiting.from).or_default() += 1;
            }
            let most = counts.values().copied().max();
            let theirs = all.iter().filter(|(_, waiting)| counts.get(&waiting.from).copied() == most);
            let oldest = theirs.min_by_key(|(_, waiting)| waiting.since).map(|(state, _)| state.clone());
            oldest.and_then(|state| all.remove(&state));
        }
        all.insert(state, waiting);
    }

    /// Returns a sign-in, once, and only to the browser that started it.
    pub(crate) fn take(&self, state: &str, browser: &TokenDigest) -> Option<Waiting> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.get(state)?.browser != *browser {
            return None;
        }
        all.remove(state).filter(|waiting| waiting.since.elapsed() < PATIENCE)
    }
}
