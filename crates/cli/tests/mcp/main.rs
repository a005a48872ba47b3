//! MCP on both sides: servers whose tools code calls, and clients that Coracle serves.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue should panic")]

mod audit;
mod bridge;
mod flows;
mod frontend;
mod lab;
mod network;
mod plans;
