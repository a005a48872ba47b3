//! Sandboxes: what code cannot reach, what it cannot use up, and what it can do in each language.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue should panic")]

mod bound_ahead;
mod canaries;
mod channel;
mod exhaustion;
mod exhaustion_limits;
mod exhaustion_output;
mod inherited;
mod links;
mod quota;
mod science;
mod tools_from_code;
mod typescript;
mod typescript_exhaustion;
mod typescript_limits;
mod without_landlock;
