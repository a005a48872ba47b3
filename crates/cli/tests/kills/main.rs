//! `kill -9` and dropped futures at any moment: nothing stays behind, and survivors continue.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue should panic")]

#[expect(dead_code, unreachable_pub, reason = "each test program uses a part of it")]
#[path = "../support/harness.rs"]
mod harness;
mod instances;
mod rounds;
mod server;
mod traces;
