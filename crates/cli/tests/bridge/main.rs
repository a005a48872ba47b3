//! Code that uses third-party MCP servers through the real program: results, errors, faults, secrets, questions and
//! limits. The servers are real, from npm and PyPI, with scripts of our own where a server must misbehave.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue should panic")]

#[expect(dead_code, unreachable_pub, reason = "each test program uses a part of it")]
#[path = "../support/harness.rs"]
mod harness;
#[expect(dead_code, reason = "each test program uses a part of it")]
#[path = "../support/outcome.rs"]
mod outcome;

mod ask;
mod canaries;
mod caps;
mod environment;
mod failures;
mod faults;
mod lab;
mod many_servers;
mod memory;
mod orphans;
mod programs;
mod refusals;
mod search;
mod shared_servers;
mod starting;
mod terminal;
mod typescript;
mod unusable;
mod users;
