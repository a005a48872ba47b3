//! The configuration, tested through the public API of the crate.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod case;
mod documents;
mod earlier;
mod edit;
mod import;
mod precedence;
mod problems;
mod providers;
mod schema;
mod secrets;
mod server_sandbox;
mod servers;
// By path, because the crate `testing` depends on many others.
#[expect(dead_code, unreachable_pub, reason = "only `skip` is used here")]
#[path = "../../../testing/src/skip.rs"]
mod skip;
