//! What runs inside a sandbox and nothing else: the files of the Python package `coracle_guest`.
//!
//! Start reading at `python/coracle_guest/zygote.py` (the warmed process that sandboxes are forked from) and
//! `agent.py` (what a sandbox does once it is sealed). Invariant: standard library only, and nothing in here is trusted
//! by the host once foreign code has run beside it.

include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// The name of the package.
pub const PACKAGE: &str = "coracle_guest";
