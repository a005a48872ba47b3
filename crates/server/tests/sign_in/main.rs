//! Authentication against a real server on a local port, with clients of all kinds.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue should panic")]

mod access_tokens;
mod accounts;
mod approvals;
mod browsers;
mod keys;
mod lab;
mod modes;
mod oidc;
mod passwords;
mod plain;
mod tools;
