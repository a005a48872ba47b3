//! Who is let in, and who is not: a real server on a port of this machine, and clients of all kinds.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod access_tokens;
mod browsers;
mod keys;
mod lab;
mod modes;
mod oidc;
mod passwords;
mod people;
