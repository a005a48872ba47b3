//! What outlives an execution: sessions and their log, artifacts, and skills.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot continue should panic")]

mod artifacts;
mod log;
mod skills;
mod state;
