//! Entries that could not be written yet.

use crate::entry::{Entry, Event};
use std::collections::VecDeque;
use std::time::SystemTime;

/// Maximum number of entries that wait. Of more, the oldest are dropped, and their number is recorded.
const MAX_WAITING: usize = 10_000;

#[derive(Debug, Default)]
pub(crate) struct Outbox {
    entries: VecDeque<(SystemTime, Entry)>,
    dropped: u64,
}

impl Outbox {
    pub(crate) fn push(&mut self, entry: Entry) {
        if self.entries.len() >= MAX_WAITING {
            self.entries.pop_front();
            self.dropped += 1;
        }
        self.entries.push_back((SystemTime::now(), entry));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Everything that has to be written.
    pub(crate) fn entries(&self) -> Vec<(SystemTime, Entry)> {
        let dropped = (self.dropped > 0)
            .then(|| (SystemTime::now(), Entry::of_operator(Event::LogDropped { records: self.dropped })));
        dropped.into_iter().chain(self.entries.iter().cloned()).collect()
    }

    /// Removes everything, because it has been written.
    pub(crate) fn written(&mut self) {
        self.entries.clear();
        self.dropped = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_WAITING, Outbox};
    use crate::entry::{Entry, Event};

    #[test]
    fn entries_beyond_the_limit_are_counted() {
        let mut outbox = Outbox::default();
        for records in 0..MAX_WAITING as u64 + 3 {
            outbox.push(Entry::of_operator(Event::LogDropped { records }));
        }
        let entries = outbox.entries();
        assert_eq!(entries.len(), MAX_WAITING + 1);
        assert_eq!(entries[0].1.event, Event::LogDropped { records: 3 });
        assert_eq!(entries[1].1.event, Event::LogDropped { records: 3 }, "the oldest that is left has number 3");
        outbox.written();
        assert!(outbox.is_empty() && outbox.entries().is_empty());
    }
}
