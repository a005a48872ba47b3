use crate::entry::Event;
use crate::outbox::Outbox;
use crate::{AuditError, AuditLog, Digest, Entry};
use async_trait::async_trait;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A log in memory, for tests.
#[derive(Debug, Default)]
pub struct MemoryLog {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    entries: Vec<Entry>,
    outbox: Outbox,
    is_unavailable: bool,
}

impl MemoryLog {
    /// An empty log.
    pub fn new() -> Self {
        Self::default()
    }

    /// All entries, in order.
    pub fn entries(&self) -> Vec<Entry> {
        self.state().entries.clone()
    }

    /// The events, in order.
    pub fn events(&self) -> Vec<Event> {
        self.state().entries.iter().map(|entry| entry.event.clone()).collect()
    }

    /// Makes the log fail like one on a full disk, or work again.
    pub fn set_unavailable(&self, is_unavailable: bool) {
        self.state().is_unavailable = is_unavailable;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn write(&mut self) {
        let waiting = self.outbox.entries();
        self.entries.extend(waiting.into_iter().map(|(_, entry)| entry));
        self.outbox.written();
    }
}

#[async_trait]
impl AuditLog for MemoryLog {
    async fn append(&self, mut entry: Entry) -> Result<(), AuditError> {
        entry.event.bound();
        let mut state = self.state();
        if state.is_unavailable {
            let error = std::io::ErrorKind::StorageFull.into();
            return Err(AuditError::File { folder: "memory".into(), doing: "written", error });
        }
        state.write();
        state.entries.push(entry);
        Ok(())
    }

    fn append_later(&self, mut entry: Entry) {
        entry.event.bound();
        let mut state = self.state();
        state.outbox.push(entry);
        if !state.is_unavailable {
            state.write();
        }
    }

    async fn digest(&self, content: &[u8]) -> Result<Digest, AuditError> {
        // Recognizable, and different for different contents; nothing is kept secret in memory.
        let hash = content
            .iter()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
        Ok(format!("{hash:032x}"))
    }
}
