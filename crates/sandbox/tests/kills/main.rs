//! `kill -9` and dropped futures at any moment: nothing stays behind, and survivors continue.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue should panic")]

mod instances;
mod rounds;
mod server;
