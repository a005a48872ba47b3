//! TypeScript inside a sandbox: QuickJS, with types stripped by oxc, as a child process of the agent.
//!
//! `compile.rs` turns a program into a script, and `session.rs` runs it and its event loop. `natives.rs` and the
//! scripts in `typescript/` of this crate are the runtime, `modules.rs` loads modules, and `wire.rs` talks to the
//! agent, over standard input.
//!
//! Invariant: no JavaScript is evaluated in a process that is not confined, so never in the server.

mod absent;
mod compile;
mod confined;
mod failure;
mod fetch;
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

/// The argument that starts the program as the TypeScript runner.
pub const TYPESCRIPT_ARGUMENT: &str = "__typescript";

/// The stack for a run, including the recursion of the compiler. It is address space, and not memory, until it is used.
const STACK_BYTES: usize = 64 << 20;

/// The exit status of a process that is not in a sandbox (EX_NOPERM).
const NOT_CONFINED: u8 = 77;

/// The exit status of a process that cannot continue (EX_SOFTWARE).
const BROKEN: u8 = 70;

/// Serves the agent over standard input until it disconnects. Refuses to run outside a sandbox.
pub fn typescript_main() -> ExitCode {
    if let Err(reason) = confined::check() {
        eprintln!("error: TypeScript runs only in a sandbox, and this process is not in one: {reason}");
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
