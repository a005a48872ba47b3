//! The Landlock ruleset of a sandbox: which parts of its file tree may be read, executed and written; and no signals or
//! abstract sockets beyond it.
//!
//! The calls are written into the plan instead of being made here, because the child must make them.

use super::plan::{AT_FDCWD, Arg, Plan};
use crate::{Network, PROXY};
use Arg::{Bytes, Result as Earlier, Value};
use rustix::io::Errno;

const EXECUTE: u64 = 1 << 0;
const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_DIR: u64 = 1 << 3;
const REMOVE_DIR: u64 = 1 << 4;
const REMOVE_FILE: u64 = 1 << 5;
const MAKE_DIR: u64 = 1 << 7;
const MAKE_REG: u64 = 1 << 8;
const MAKE_SOCK: u64 = 1 << 9;
const MAKE_FIFO: u64 = 1 << 10;
const MAKE_SYM: u64 = 1 << 12;
const REFER: u64 = 1 << 13;
const TRUNCATE: u64 = 1 << 14;
const IOCTL_DEV: u64 = 1 << 15;

const READ: u64 = EXECUTE | READ_FILE | READ_DIR;
const WRITE: u64 = READ
    | WRITE_FILE
    | REMOVE_DIR
    | REMOVE_FILE
    | MAKE_DIR
    | MAKE_REG
    | MAKE_SOCK
    | MAKE_FIFO
    | MAKE_SYM
    | REFER
    | TRUNCATE;
const DEVICE: u64 = READ_FILE | WRITE_FILE | TRUNCATE | IOCTL_DEV;

/// Folders may be listed everywhere. `/proc` may not be read, because it reveals host paths and other processes.
const RULES: &[(&str, u64)] = &[
    ("/", READ_DIR),
    ("/usr", READ),
    ("/etc", READ),
    ("/coracle", READ),
    ("/artifacts", WRITE),
    ("/tmp", WRITE),
    ("/dev", DEVICE),
];

const CONNECT_TCP: u64 = 0b10;
const BIND_AND_CONNECT_TCP: u64 = 0b11;
const SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS: u64 = 0b11;
const RULE_PATH_BENEATH: u64 = 1;
const RULE_NET_PORT: u64 = 2;

/// The version of the ABI, or why it is not available.
pub(super) fn find() -> Result<u32, String> {
    super::kernel::landlock_abi().map_err(|errno| match errno {
        Errno::NOSYS => "the kernel was built without it, or a filter around Coracle hides it".to_owned(),
        Errno::OPNOTSUPP => "it is disabled on the kernel's command line".to_owned(),
        other => format!("the kernel answers: {other}"),
    })
}

/// The descriptor number of the ruleset between `begin` and `complete`, which nothing else in a child uses.
const RULESET: u64 = 7;

/// Additional folders.
#[derive(Clone, Copy, Debug)]
pub(super) struct Folders<'a> {
    pub(super) readable: &'a [String],
    pub(super) writable: &'a [String],
}

/// Adds the calls that create the ruleset, with everything that is known before there is a workspace.
pub(super) fn begin(plan: &mut Plan, abi: u32, folders: Folders<'_>, network: Network) {
    let handled = if abi >= 4 { BIND_AND_CONNECT_TCP } else { 0 };
    let scope = if abi >= 6 { SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS } else { 0 };
    let size: u64 = match abi {
        0..=3 => 8,
        4 | 5 => 16,
        _ => 24,
    };
    let attribute = plan.bytes(&[known_rights(abi).to_ne_bytes(), handled.to_ne_bytes(), scope.to_ne_bytes()].concat());
    let args = [Bytes(attribute), Value(size), Value(0)];
    let ruleset = plan.call_keep("landlock ruleset", libc::SYS_landlock_create_ruleset, &args);
    let args = [Earlier(ruleset), Value(RULESET), Value(libc::O_CLOEXEC as u64)];
    plan.call("put the ruleset aside", libc::SYS_dup3, &args);
    plan.call("close the ruleset", libc::SYS_close, &[Earlier(ruleset)]);
    let extra = folders.readable.iter().map(|path| (path.as_str(), READ));
    let writable = folders.writable.iter().map(|path| (path.as_str(), WRITE));
    for (path, allowed) in RULES.iter().copied().chain(extra).chain(writable) {
        add_rule(plan, abi, path, allowed);
    }
    if network == Network::Proxy && handled != 0 {
        let port = plan.bytes(&[CONNECT_TCP.to_ne_bytes(), u64::from(PROXY.port()).to_ne_bytes()].concat());
        let args = [Value(RULESET), Value(RULE_NET_PORT), Bytes(port), Value(0)];
        plan.call("landlock rule for the proxy", libc::SYS_landlock_add_rule, &args);
    }
}

/// Adds the calls that add the workspace and restrict the process.
pub(super) fn complete(plan: &mut Plan, abi: u32) {
    add_rule(plan, abi, "/workspace", WRITE);
    plan.call("landlock", libc::SYS_landlock_restrict_self, &[Value(RULESET), Value(0)]);
    plan.call("close the ruleset", libc::SYS_close, &[Value(RULESET)]);
}

fn add_rule(plan: &mut Plan, abi: u32, path: &str, allowed: u64) {
    let beneath = plan.bytes(&[&(allowed & known_rights(abi)).to_ne_bytes()[..], &[0; 4]].concat());
    let name = plan.text(path);
    let flags = Value((libc::O_PATH | libc::O_CLOEXEC) as u64);
    let folder = plan.call_keep(format!("open {path}"), libc::SYS_openat, &[AT_FDCWD, Bytes(name), flags]);
    plan.poke(beneath.plus(8));
    let args = [Value(RULESET), Value(RULE_PATH_BENEATH), Bytes(beneath), Value(0)];
    plan.call(format!("landlock rule for {path}"), libc::SYS_landlock_add_rule, &args);
    plan.call(format!("close {path}"), libc::SYS_close, &[Earlier(folder)]);
}

fn known_rights(abi: u32) -> u64 {
    let newest = match abi {
        0 | 1 => 12,
        2 => 13,
        3 | 4 => 14,
        _ => 15,
    };
    (1 << (newest + 1)) - 1
}
