//! Checks that this process is in a sandbox, before any JavaScript is evaluated.

use rustix::thread::SecureComputingMode;
use std::path::Path;

/// A folder that only exists in the tree of a sandbox.
const GUEST_FOLDER: &str = "/coracle/coracle_guest";

/// Why this process is not confined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotConfined {
    /// The process could start a program with more privileges.
    #[error("it may gain privileges")]
    Privileges,
    /// Every system call is allowed.
    #[error("no seccomp filter is in force")]
    Seccomp,
    /// The host's files are visible.
    #[error("it sees the host's files")]
    Files,
}

/// Whether privileges, system calls and files are restricted as in a sandbox.
pub(super) fn check() -> Result<(), NotConfined> {
    if !rustix::thread::no_new_privs().unwrap_or(false) {
        return Err(NotConfined::Privileges);
    }
    if !matches!(rustix::thread::secure_computing_mode(), Ok(SecureComputingMode::Filter)) {
        return Err(NotConfined::Seccomp);
    }
    if !Path::new(GUEST_FOLDER).is_dir() {
        return Err(NotConfined::Files);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    /// The opposite, that it is confined in a sandbox, is covered by every test that runs TypeScript.
    #[test]
    fn a_test_program_is_not_confined() {
        assert!(super::check().is_err());
    }
}
