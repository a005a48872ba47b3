//! Connections to servers of every kind: real ones, and some that misbehave on purpose.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod lab;
mod real;
