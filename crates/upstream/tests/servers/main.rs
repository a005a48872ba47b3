//! Connections to servers of every kind: real ones, and some that misbehave on purpose.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod faults;
mod gateway;
mod http;
mod lab;
mod lending;
mod life;
mod oauth;
mod real;
mod secrets;
mod web;
