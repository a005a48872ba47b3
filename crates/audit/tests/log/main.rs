//! The log in files: what `verify` finds, what survives, and several processes.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod given;
mod processes;
mod recovery;
mod retention;
mod tampering;
