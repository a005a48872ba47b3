//! What runs inside a sandbox and nothing else: the Python packages `coracle_guest` (the agent) and `coracle` (what code
//! imports), and the small library that confines.
//!
//! Start reading at `python/coracle_guest/zygote.py` (the warmed process that sandboxes are forked from) and
//! `agent.py` (what a sandbox does once it is sealed). Invariant: standard library only, and nothing in here is trusted
//! by the host once foreign code has run beside it.

include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// The types of the module `coracle` of TypeScript, for whoever checks generated modules.
pub const TYPESCRIPT_DECLARATIONS: &str = include_str!("../typescript/coracle.d.ts");

/// The library that makes a sandbox out of a fork of the zygote, compiled from `native/confine.rs`.
pub const CONFINE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/confine.so"));
