//! Tests the engine against scripted guests of every kind, on a backend in memory.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod conversations;
mod fake;
mod lies;
mod replies;
mod search;
mod tools;
