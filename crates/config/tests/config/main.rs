//! The configuration, tested through the public API of the crate.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod case;
mod earlier;
mod edit;
mod import;
mod precedence;
mod problems;
mod schema;
mod secrets;
mod servers;
