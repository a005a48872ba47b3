//! Everything that runs inside a sandbox: the Python packages `coracle_guest` (the agent) and `coracle` (imported by
//! code), the small library for the confinement, the TypeScript runner, and the command `tool` of bash.
//!
//! Start at `python/coracle_guest/zygote.py` (the warmed-up process that sandboxes are forked from) and `agent.py` (the
//! main loop of a sandbox after the seal). `entry.rs` is the entry point of this program inside a sandbox, and
//! `relay.py` lets it and others share the agent's channel. Invariants: the Python code uses only the standard library.
//! No JavaScript is evaluated outside a sandbox. The host trusts none of this once untrusted code has run beside it.

mod closest;
mod entry;
mod media;
mod tool;
mod typescript;

pub use entry::{PROGRAM, PROGRAM_FOLDER, PROGRAM_NAME, TOOL, guest_main};
pub use typescript::{TYPESCRIPT_ARGUMENT, typescript_main};

include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// The type declarations of the TypeScript module `coracle`, for checking generated modules.
pub const TYPESCRIPT_DECLARATIONS: &str = include_str!("../typescript/coracle.d.ts");

/// The TypeScript module `coracle` outside a sandbox, in plain JavaScript: a call fails and says where it would work.
pub const TYPESCRIPT_OUTSIDE: &str = include_str!("../typescript/outside.js");

/// The library that turns a fork of the zygote into a sandbox, compiled from `native/confine.rs`.
pub const CONFINE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/confine.so"));
