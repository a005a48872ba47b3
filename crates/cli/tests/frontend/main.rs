//! Coracle as an MCP server with real clients: the official ones of both generations of the protocol, over stdio and
//! HTTP, and hostile peers.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue should panic")]

#[expect(dead_code, unreachable_pub, reason = "each test program uses a part of it")]
#[path = "../support/harness.rs"]
mod harness;
#[expect(dead_code, reason = "each test program uses a part of it")]
#[path = "../bridge/lab.rs"]
mod lab;
#[expect(dead_code, reason = "each test program uses a part of it")]
#[path = "../support/outcome.rs"]
mod outcome;
#[expect(dead_code, reason = "each test program uses a part of it")]
#[path = "../support/place.rs"]
mod place;

mod ask;
mod clients;
mod driver;
mod first_start;
mod hostile;
mod install;
mod leaving;
mod legacy_tools;
mod profiles;
mod recursion;
mod results;
mod savings;
mod skills;
mod unusable;
mod users;
mod wire;
mod workspace;
