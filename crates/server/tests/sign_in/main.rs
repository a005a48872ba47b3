//! Authentication against a real server on a local port, with clients of all kinds.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue should panic")]

mod access_tokens;
mod accounts;
mod approvals;
mod browsers;
mod cors;
mod groups;
mod keys;
mod lab;
mod local_browser;
mod modes;
mod oidc;
mod page;
mod parts;
mod passwords;
mod plain;
mod tools;
