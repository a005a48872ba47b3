//! Support that the tests of several crates share. It is only ever a dev-dependency.
//!
//! Start with [`harness`], which runs the real program as root and as an ordinary user; [`each_user`] makes one test of
//! each. [`outcome`] and [`place`] build on it, and [`lab`] has an engine in the test process. [`backend_contract`],
//! [`call_log_contract`] and [`mutation`] are for the crates below the program. [`terminal`] types at a terminal. What
//! cannot run on a machine calls [`skip::skip`]. Support for a single test program belongs to that program.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot continue should panic")]

pub mod backend_contract;
pub mod call_log_contract;
pub mod engine;
pub mod filtered;
pub mod guest;
pub mod harness;
pub mod installed;
pub mod kills;
pub mod lab;
pub mod mutation;
pub mod ordinary_user;
pub mod outcome;
pub mod place;
pub mod servers;
pub mod skip;
pub mod terminal;
pub mod traces;
pub mod wait;
