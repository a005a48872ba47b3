//! Waiting for the lock of a log, which others hold for a moment.

use crate::AuditError;
use std::time::{Duration, Instant};

/// Maximum time to wait for another process that appends.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
/// Pause between two attempts to take the lock. Another process holds it for microseconds.
pub(crate) const PAUSE: Duration = Duration::from_millis(1);

/// Tries again while another process has the lock.
pub(crate) fn retried<T>(begun: Instant, mut act: impl FnMut() -> Result<T, AuditError>) -> Result<T, AuditError> {
    loop {
        match act() {
            Err(AuditError::Locked { .. }) if begun.elapsed() < PATIENCE => std::thread::sleep(PAUSE),
            done => return done,
        }
    }
}
