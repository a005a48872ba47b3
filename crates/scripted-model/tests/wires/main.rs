//! The server over HTTP, on every wire.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue should panic")]

mod client;
mod faults;
mod histories;
mod requests;
mod rule_mode;
mod streams;
mod turns;
