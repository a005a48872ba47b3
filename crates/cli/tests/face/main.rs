//! Coracle as an MCP server, to real clients: the official ones of both generations of the protocol, over standard input
//! and output and over HTTP, and peers that mean no good.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

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
mod desk;
mod earlier;
mod first;
mod hostile;
mod install;
mod itself;
mod leaving;
mod pays;
mod people;
mod profiles;
mod returned;
mod skills;
mod unusable;
mod wire;
mod workspace;
