//! The record of one allowed attempt.

use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::decide::{Attempt, Decide, Outcome};

/// One allowed attempt. Whatever happens to it, its end is reported once: when it is dropped.
pub(crate) struct Ticket {
    decide: Arc<dyn Decide>,
    pub(crate) attempt: Attempt,
    /// 0 without a response.
    status: AtomicU16,
    pub(crate) up: AtomicU64,
    pub(crate) down: AtomicU64,
    /// Why it failed, or `None` if it did not. Unset until it ends: what is dropped before has been cancelled.
    end: OnceLock<Option<String>>,
}

impl Ticket {
    pub(crate) fn new(decide: Arc<dyn Decide>, attempt: Attempt) -> Self {
        Self {
            decide,
            attempt,
            status: AtomicU16::new(0),
            up: AtomicU64::new(0),
            down: AtomicU64::new(0),
            end: OnceLock::new(),
        }
    }

    pub(crate) fn answered(&self, status: http::StatusCode) {
        self.status.store(status.as_u16(), Ordering::Relaxed);
    }

    pub(crate) fn succeeded(&self) {
        self.end.get_or_init(|| None);
    }

    /// Only the first reason counts.
    pub(crate) fn failed(&self, reason: &str) {
        self.end.get_or_init(|| Some(reason.to_owned()));
    }

    /// Bytes so far, in both directions.
    pub(crate) fn bytes(&self) -> u64 {
        self.up.load(Ordering::Relaxed).wrapping_add(self.down.load(Ordering::Relaxed))
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let status = Some(self.status.load(Ordering::Relaxed)).filter(|status| *status != 0);
        let error = self.end.get().cloned().unwrap_or_else(|| Some("cancelled".to_owned()));
        let (bytes_up, bytes_down) = (self.up.load(Ordering::Relaxed), self.down.load(Ordering::Relaxed));
        self.decide.finished(&self.attempt, &Outcome { status, bytes_up, bytes_down, error });
    }
}
