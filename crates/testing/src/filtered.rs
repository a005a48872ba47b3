//! Runs a program as on a kernel that lacks a system call.

use std::fs;

/// Executes its arguments with a seccomp filter: this system call returns this error.
const FILTERED: &str = "
import ctypes, os, struct, sys
number, errno = int(sys.argv[1]), int(sys.argv[2])
lines = [(0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, 0x50000 | errno), (0x06, 0, 0, 0x7FFF0000)]
code = ctypes.create_string_buffer(b''.join(struct.pack('HBBI', *line) for line in lines))
program = ctypes.create_string_buffer(struct.pack('HxxxxxxQ', len(lines), ctypes.addressof(code)))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program, 0, 0) == 0, ctypes.get_errno()
os.execv(sys.argv[3], sys.argv[3:])
";

/// Number of `landlock_create_ruleset`, the same on all architectures.
pub const LANDLOCK_CREATE_RULESET: &str = "444";
/// Error of a kernel without the call.
pub const ENOSYS: &str = "38";
/// Error of a kernel with Landlock that is disabled.
pub const EOPNOTSUPP: &str = "95";
/// Unused number: the same filter without an effect.
pub const NO_CALL: &str = "9999";

/// Command line prefix for a program in which this system call returns this error.
pub fn prefix<'a>(call: &'a str, errno: &'a str) -> [&'a str; 6] {
    let python = if fs::exists("/usr/bin/python3").unwrap() { "/usr/bin/python3" } else { "/usr/local/bin/python3" };
    [python, "-I", "-c", FILTERED, call, errno]
}
