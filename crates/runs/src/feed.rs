//! The events of a run that is under way, for any number of listeners.

use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// Maximum number of events that a feed keeps for listeners that come late or are slow.
const MAX_EVENTS: usize = 4_096;
/// Maximum size of these events, in bytes.
const MAX_BYTES: usize = 1 << 20;

/// The number of sequence numbers of one attempt, as a power of two. It is more than the limits of a run allow.
const SEQUENCES_PER_ATTEMPT: u32 = 24;

/// An event of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedEvent {
    /// The sequence number.
    pub sequence: u64,
    /// The type, which is also in the data.
    pub kind: &'static str,
    /// Whether the event is not part of the Responses API.
    pub is_extension: bool,
    /// The event as JSON.
    pub data: Arc<str>,
}

/// The events of one run.
#[derive(Debug)]
pub struct Feed {
    ring: Mutex<Ring>,
    changed: watch::Sender<()>,
}

#[derive(Debug)]
struct Ring {
    events: VecDeque<FeedEvent>,
    bytes: usize,
    next: u64,
    is_over: bool,
    /// Finished items with the sequence number of the event that finished them.
    items: Vec<(u64, Arc<str>)>,
}

/// The next thing that a listener gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// An event.
    Event(FeedEvent),
    /// Events were missed. These are the finished items since the listener's last event, each as the data of the event
    /// that finished it, with its sequence number.
    Missed(Vec<(u64, Arc<str>)>),
}

/// The type of events that finish an item.
pub(crate) const ITEM_DONE: &str = "response.output_item.done";

impl Feed {
    /// The feed of an attempt of a run, whose earlier attempts have finished these items.
    ///
    /// Sequence numbers of attempts never overlap, so that a listener can go on after a crash.
    pub(crate) fn new(attempt: u32, earlier: Vec<Value>) -> Self {
        let base = u64::from(attempt.saturating_sub(1)) << SEQUENCES_PER_ATTEMPT;
        let count = earlier.len() as u64;
        let items = earlier.into_iter().enumerate().map(|(index, item)| {
            let sequence = base.saturating_sub(count) + index as u64;
            let data = json!({"type": ITEM_DONE, "sequence_number": sequence, "output_index": index, "item": item});
            (sequence, Arc::from(data.to_string()))
        });
        let ring = Ring { events: VecDeque::new(), bytes: 0, next: base, is_over: false, items: items.collect() };
        Self { ring: Mutex::new(ring), changed: watch::Sender::new(()) }
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes an event, which gets its type and its sequence number.
    pub(crate) fn publish(&self, kind: &'static str, is_extension: bool, mut data: Value) {
        let mut ring = self.ring();
        let sequence = ring.next;
        ring.next += 1;
        data["type"] = kind.into();
        data["sequence_number"] = sequence.into();
        let data: Arc<str> = data.to_string().into();
        if kind == ITEM_DONE {
            ring.items.push((sequence, Arc::clone(&data)));
        }
        ring.bytes += data.len();
        ring.events.push_back(FeedEvent { sequence, kind, is_extension, data });
        while ring.events.len() > MAX_EVENTS || (ring.bytes > MAX_BYTES && ring.events.len() > 1) {
            if let Some(oldest) = ring.events.pop_front() {
                ring.bytes -= oldest.data.len();
            }
        }
        drop(ring);
        self.changed.send_replace(());
    }

    /// Ends the feed. Listeners get the remaining events.
    pub(crate) fn end(&self) {
        self.ring().is_over = true;
        self.changed.send_replace(());
    }

    /// The sequence number of the next event.
    pub(crate) fn next_sequence(&self) -> u64 {
        self.ring().next
    }

    /// Listens from the event after `after`, or from the first one.
    pub fn listen(self: &Arc<Self>, after: Option<u64>) -> Listener {
        let next = after.map_or(0, |after| after.saturating_add(1));
        Listener { changed: self.changed.subscribe(), feed: Arc::clone(self), next }
    }
}

/// What a listener finds.
enum Look {
    /// The next thing.
    Heard(Heard),
    /// Nothing yet.
    Nothing,
    /// The end.
    Over,
}

/// A listener of a feed.
#[derive(Debug)]
pub struct Listener {
    feed: Arc<Feed>,
    changed: watch::Receiver<()>,
    next: u64,
}

impl Listener {
    /// The next event; `None` at the end of the run. Can be cancelled without losing an event.
    pub async fn next(&mut self) -> Option<Heard> {
        loop {
            // Marked as seen before the look, so that no later change is missed.
            self.changed.borrow_and_update();
            match self.look() {
                Look::Heard(heard) => return Some(heard),
                Look::Over => return None,
                Look::Nothing => {}
            }
            if self.changed.changed().await.is_err() {
                return None;
            }
        }
    }

    fn look(&mut self) -> Look {
        let ring = self.feed.ring();
        let nothing = if ring.is_over { Look::Over } else { Look::Nothing };
        let Some(first) = ring.events.front() else { return nothing };
        if self.next < first.sequence {
            let from = self.next;
            let missed = ring.items.iter().filter(|(sequence, _)| (from..first.sequence).contains(sequence));
            let missed: Vec<_> = missed.cloned().collect();
            self.next = first.sequence;
            if !missed.is_empty() {
                return Look::Heard(Heard::Missed(missed));
            }
        }
        let place = usize::try_from(self.next - first.sequence).unwrap_or(usize::MAX);
        match ring.events.get(place) {
            Some(event) => {
                self.next += 1;
                Look::Heard(Heard::Event(event.clone()))
            }
            None => nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn sequences(listener: &mut Listener) -> Vec<u64> {
        let mut heard = Vec::new();
        while let Some(next) = listener.next().await {
            match next {
                Heard::Event(event) => heard.push(event.sequence),
                Heard::Missed(items) => heard.extend(items.iter().map(|(sequence, _)| *sequence)),
            }
        }
        heard
    }

    #[tokio::test]
    async fn listeners_get_all_events_from_where_they_want() {
        let feed = Arc::new(Feed::new(1, Vec::new()));
        let mut early = feed.listen(None);
        for number in 0..5 {
            feed.publish("response.test", false, json!({"number": number}));
        }
        let mut late = feed.listen(Some(2));
        let mut past = feed.listen(Some(100));
        feed.end();
        assert_eq!(sequences(&mut early).await, [0, 1, 2, 3, 4]);
        assert_eq!(sequences(&mut late).await, [3, 4]);
        assert_eq!(sequences(&mut past).await, [] as [u64; 0]);
    }

    #[tokio::test]
    async fn a_listener_that_missed_events_gets_whole_items() {
        let feed = Arc::new(Feed::new(1, Vec::new()));
        feed.publish("response.test", false, json!({}));
        feed.publish(ITEM_DONE, false, json!({"item": 1}));
        for _ in 0..MAX_EVENTS {
            feed.publish("response.delta", false, json!({}));
        }
        let mut all = feed.listen(None);
        let mut some = feed.listen(Some(0));
        let mut later = feed.listen(Some(1));
        feed.end();
        let expected: Vec<u64> = (1..=MAX_EVENTS as u64 + 1).collect();
        assert_eq!(sequences(&mut all).await, expected);
        assert_eq!(sequences(&mut some).await, expected);
        assert_eq!(sequences(&mut later).await, expected[1..]);
    }

    #[tokio::test]
    async fn after_a_crash_a_listener_gets_the_items_that_it_may_have_missed() {
        let feed = Arc::new(Feed::new(2, vec![json!({"id": "a"}), json!({"id": "b"})]));
        let mut resumed = feed.listen(Some(17));
        feed.publish("response.test", false, json!({}));
        feed.end();
        let base = 1 << SEQUENCES_PER_ATTEMPT;
        assert_eq!(sequences(&mut resumed).await, [base - 2, base - 1, base]);
    }

    #[tokio::test]
    async fn events_are_bounded_in_bytes() {
        let feed = Feed::new(1, Vec::new());
        for _ in 0..10 {
            feed.publish("response.test", false, json!({"text": "x".repeat(MAX_BYTES / 2)}));
        }
        assert!(feed.ring().events.len() <= 2, "{}", feed.ring().events.len());
    }
}
