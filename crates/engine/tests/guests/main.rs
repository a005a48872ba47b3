//! The engine against guests of every kind, on a backend in memory: what each guest says is scripted.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod conversations;
mod fake;
mod lies;
mod replies;
mod search;
mod tools;
