//! What runs inside a sandbox and nothing else: the Python package `coracle_guest`, the small library that confines, the
//! runner of TypeScript, and the command `tool` of bash.
//!
//! Start reading at `python/coracle_guest/zygote.py` (the warmed process that sandboxes are forked from) and
//! `agent.py` (what a sandbox does once it is sealed). `entry.rs` is where this program begins when it is started inside
//! a sandbox; `door.py` is how it and others share the agent's channel. Invariant: of Python the standard library only;
//! no JavaScript is evaluated outside a sandbox; and nothing in here is trusted by the host once foreign code has run
//! beside it.

mod entry;
mod media;
mod tool;
mod typescript;

pub use entry::{PROGRAM, PROGRAM_FOLDER, PROGRAM_NAME, TOOL, guest_main};
pub use typescript::{TYPESCRIPT_ARGUMENT, typescript_main};

include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// The name of the package.
pub const PACKAGE: &str = "coracle_guest";

/// The library that makes a sandbox out of a fork of the zygote, compiled from `native/confine.rs`.
pub const CONFINE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/confine.so"));
