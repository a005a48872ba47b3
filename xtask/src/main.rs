//! Entry point of `cargo xtask`. Everything is in the library, so that tests can use it.

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    xtask::run(&arguments)
}
