//! Tests the engine against scripted guests of every kind, on a backend in memory.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod conversations;
mod events;
mod fake;
mod guardrails;
mod lab;
mod lies;
mod logs;
mod plans;
mod privacy;
mod replies;
mod resuming;
mod search;
mod tools;
