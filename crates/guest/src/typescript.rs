//! TypeScript inside a sandbox: QuickJS, with types stripped by oxc, as a child process of the agent.
//!
//! `compile.rs` makes a script of a program, `session.rs` runs it and turns the event loop, `natives.rs` and the scripts
//! in `typescript/` of this crate are what code finds there, `modules.rs` is what it may import, `wire.rs` is the way
//! to the agent, over standard input.
//!
//! Invariant: no JavaScript is evaluated in a process that is not confined, so never in the server.

mod compile;
mod confined;
mod failure;
mod modules;
mod names;
mod natives;
mod positions;
mod session;
mod shared;
mod sources;
mod timers;
mod wire;

use std::process::ExitCode;
use std::thread::JoinHandle;

/// The argument by which the program knows that it is to run TypeScript.
pub const TYPESCRIPT_ARGUMENT: &str = "__typescript";

/// For the whole of a run, the compiler's recursion included. Address space, not memory, until it is used.
const STACK_BYTES: usize = 64 << 20;

/// The exit status of a process that was started in the wrong place (EX_NOPERM).
const NOT_CONFINED: u8 = 77;

/// The exit status of a process that cannot go on (EX_SOFTWARE).
const BROKEN: u8 = 70;

/// Serves the agent over standard input until it goes away. Refuses outside a sandbox.
pub fn typescript_main() -> ExitCode {
    if let Err(reason) = confined::check() {
        eprintln!("error: TypeScript runs in a sandbox only, and this process is in none: {reason}");
        eprintln!("hint: use `coracle exec --lang typescript`");
        return ExitCode::from(NOT_CONFINED);
    }
    let served = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(session::serve).map(JoinHandle::join);
    match served {
        Ok(Ok(Ok(()))) => ExitCode::SUCCESS,
        Ok(Ok(Err(error))) => {
            eprintln!("error: the TypeScript runner: {error}");
            ExitCode::from(BROKEN)
        }
        Ok(Err(_)) | Err(_) => ExitCode::from(BROKEN),
    }
}
