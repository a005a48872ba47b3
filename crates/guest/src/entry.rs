//! Where a sandbox has the program `coracle`, and what it is there.

use crate::typescript::{TYPESCRIPT_ARGUMENT, typescript_main};
use std::ffi::OsStr;
use std::path::Path;
use std::process::ExitCode;

/// Below `/coracle`, the folder of programs, the first of the search path: `python` and `python3` there are the interpreter that
/// sandboxes run.
pub const PROGRAM_FOLDER: &str = "bin";

/// The program in that folder.
pub const PROGRAM_NAME: &str = "coracle";

/// Below `/coracle`, the program.
pub const PROGRAM: &str = "bin/coracle";

/// Below `/coracle`, the link by which bash calls tools.
pub const TOOL: &str = "bin/tool";

/// Does what this process was started for, if that is something for inside a sandbox.
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
