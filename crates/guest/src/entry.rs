//! The program `coracle` inside a sandbox.

use crate::typescript::{TYPESCRIPT_ARGUMENT, typescript_main};
use std::ffi::OsStr;
use std::path::Path;
use std::process::ExitCode;

/// The folder of programs below `/coracle`, which comes first on the search path: its `python` and `python3` are the
/// interpreter of the sandboxes.
pub const PROGRAM_FOLDER: &str = "bin";

/// The name of the program in that folder.
pub const PROGRAM_NAME: &str = "coracle";

/// The path of the program below `/coracle`.
pub const PROGRAM: &str = "bin/coracle";

/// The path of the link for `tool` below `/coracle`.
pub const TOOL: &str = "bin/tool";

/// Runs the function that this process was started for, if it is one for sandboxes.
pub fn guest_main() -> Option<ExitCode> {
    let mut arguments = std::env::args_os();
    let name = arguments.next()?;
    if Path::new(&name).file_name() == Some(OsStr::new("tool")) {
        return Some(crate::tool::tool_main(arguments));
    }
    if arguments.next()? == TYPESCRIPT_ARGUMENT {
        return Some(typescript_main());
    }
    None
}
