//! Waiting for conditions.

use std::time::{Duration, Instant};

/// Time limit for conditions that must become true.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// Waits for a condition to become true.
pub fn eventually(what: &str, mut is_true: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_true() {
        assert!(begun.elapsed() < PATIENCE, "never came true: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
