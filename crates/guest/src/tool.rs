//! The command `tool` of bash.
use std::ffi::OsString;
use std::process::ExitCode;

pub(crate) fn tool_main(_arguments: impl Iterator<Item = OsString>) -> ExitCode {
    ExitCode::SUCCESS
}
