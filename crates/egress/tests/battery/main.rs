//! Everything that the proxy must refuse, each with the same act succeeding where it is allowed. Only loopback is used.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod addresses;
mod bounds;
mod credentials;
mod decisions;
mod guest;
mod lab;
mod names;
mod server;
mod smuggling;
mod tunnels;
