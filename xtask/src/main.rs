//! The entry point of `cargo xtask`; everything is in the library, where tests can reach it.

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    xtask::run(&arguments)
}
