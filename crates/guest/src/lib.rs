//! What runs inside a sandbox and nothing else: the Python packages `coracle_guest` (the agent) and `coracle` (what code
//! imports), the small library that confines, the runner of TypeScript, and the command `tool` of bash.
//!
//! Start reading at `python/coracle_guest/zygote.py` (the warmed process that sandboxes are forked from) and
//! `agent.py` (what a sandbox does once it is sealed). `entry.rs` is where this program begins when it is started inside
//! a sandbox; `relay.py` is how it and others share the agent's channel. Invariant: of Python the standard library only;
//! no JavaScript is evaluated outside a sandbox; and nothing in here is trusted by the host once foreign code has run
//! beside it.

mod entry;
mod media;
mod tool;
mod typescript;

pub use entry::{PROGRAM, PROGRAM_FOLDER, PROGRAM_NAME, TOOL, guest_main};
pub use typescript::{TYPESCRIPT_ARGUMENT, typescript_main};

include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// The types of the module `coracle` of TypeScript, for whoever checks generated modules.
pub const TYPESCRIPT_DECLARATIONS: &str = include_str!("../typescript/coracle.d.ts");

/// The module `coracle` of TypeScript outside a sandbox, in plain JavaScript: a call says where it would work.
pub const TYPESCRIPT_OUTSIDE: &str = include_str!("../typescript/outside.js");

/// The library that makes a sandbox out of a fork of the zygote, compiled from `native/confine.rs`.
pub const CONFINE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/confine.so"));
