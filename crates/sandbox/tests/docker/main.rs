//! The Docker backend on a real daemon that the tests start and stop.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot continue should panic")]

mod containers;
mod contract;
mod kills;
mod lab;
mod refusals;
