//! Confinement of sandboxes, through the [`Backend`](coracle_sandbox::Backend) and the guest protocol alone. The tests of
//! the program `coracle` cover what users see of it.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot continue should panic")]

mod backend;
mod egress;
mod escape;
mod exhaustion;
mod lab;
mod masked_proc;
mod program;
mod typescript_escape;
mod without_landlock;
