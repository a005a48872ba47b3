//! The engine against guests of every kind, on a backend in memory: what each guest says is scripted.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../../../sandbox/tests/support/contract.rs"]
mod contract;
mod conversations;
mod fake;
mod lies;
#[path = "../../../protocol/tests/support/mutation.rs"]
mod mutation;
mod replies;
mod search;
mod tools;
