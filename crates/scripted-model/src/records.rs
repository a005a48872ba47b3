//! What the server remembers of requests, for tests.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::http::HeaderMap;
use serde_json::Value;
use tokio::sync::watch;

use crate::conversation::Wire;

/// Maximum size of all recorded bodies together. The oldest records are dropped first, but never the last one.
pub const MAX_RECORDED_BYTES: usize = 64 * 1024 * 1024;

/// Maximum number of recorded requests.
const MAX_RECORDS: usize = 1024;

/// A request.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// The number of the request, counted from 1.
    pub number: u64,
    /// The wire format.
    pub wire: Wire,
    /// The headers, with names in lower case. Values that are not text are left out.
    pub headers: BTreeMap<String, String>,
    /// The body, or `null` if it is not JSON.
    pub body: Value,
    /// What was played, unless the request was rejected.
    pub played: Option<Played>,
}

/// What was played for a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Played {
    /// The name of the script, or `rules`.
    pub script: String,
    /// The turn, counted from 0.
    pub turn: usize,
}

/// The requests of a server. Clones are the same records.
#[derive(Clone, Debug)]
pub struct Records {
    kept: Arc<Mutex<Kept>>,
    arrived: watch::Sender<u64>,
    abandoned: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Kept {
    requests: VecDeque<(Recorded, usize)>,
    bytes: usize,
}

impl Default for Records {
    fn default() -> Self {
        Self { kept: Arc::default(), arrived: watch::Sender::new(0), abandoned: watch::Sender::new(0) }
    }
}

impl Records {
    /// The number of requests so far, with those that were rejected.
    pub fn count(&self) -> u64 {
        *self.arrived.borrow()
    }

    /// Waits until this number of requests has arrived.
    pub async fn arrived(&self, number: u64) {
        // The channel is not closed, because its sender is borrowed.
        let _ = self.arrived.subscribe().wait_for(|count| *count >= number).await;
    }

    /// Waits until clients have disconnected from this number of requests before the answer was complete.
    pub async fn abandoned(&self, number: u64) {
        let _ = self.abandoned.subscribe().wait_for(|count| *count >= number).await;
    }

    /// The number of requests from which clients have disconnected before the answer was complete.
    pub fn abandoned_count(&self) -> u64 {
        *self.abandoned.borrow()
    }

    /// The last requests, oldest first.
    pub fn all(&self) -> Vec<Recorded> {
        self.lock().requests.iter().map(|(recorded, _)| recorded.clone()).collect()
    }

    /// The last request.
    pub fn last(&self) -> Option<Recorded> {
        self.lock().requests.back().map(|(recorded, _)| recorded.clone())
    }

    pub(crate) fn add(&self, wire: Wire, headers: &HeaderMap, body: &Value, size: usize) -> u64 {
        let headers =
            headers.iter().filter_map(|(name, value)| Some((name.to_string(), value.to_str().ok()?.to_owned())));
        let headers = headers.collect();
        let mut kept = self.lock();
        let number = *self.arrived.borrow() + 1;
        kept.requests.push_back((Recorded { number, wire, headers, body: body.clone(), played: None }, size));
        kept.bytes += size;
        while kept.requests.len() > 1 && (kept.requests.len() > MAX_RECORDS || kept.bytes > MAX_RECORDED_BYTES) {
            let dropped = kept.requests.pop_front().map_or(0, |(_, size)| size);
            kept.bytes -= dropped;
        }
        self.arrived.send_replace(number);
        number
    }

    pub(crate) fn set_played(&self, number: u64, played: Played) {
        if let Some((recorded, _)) = self.lock().requests.iter_mut().rfind(|(recorded, _)| recorded.number == number) {
            recorded.played = Some(played);
        }
    }

    pub(crate) fn add_abandoned(&self) {
        self.abandoned.send_modify(|count| *count += 1);
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
