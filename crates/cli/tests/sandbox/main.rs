//! Sandboxes: what code cannot reach, what it cannot use up, and what it can do in each language.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot continue should panic")]

mod backend;
mod bound_ahead;
mod canaries;
mod escape;
mod exhaustion;
mod exhaustion_limits;
mod exhaustion_output;
mod masked_proc;
mod quota;
mod science;
mod tools_from_code;
mod typescript;
mod typescript_escape;
mod typescript_exhaustion;
mod typescript_limits;
mod without_landlock;
