//! Is this process in a sandbox? Asked before any JavaScript is evaluated.

use rustix::thread::SecureComputingMode;
use std::path::Path;

/// What only the tree of a sandbox has.
const GUEST_FOLDER: &str = "/coracle/coracle_guest";

/// Why this process is not confined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotConfined {
    /// A program could be started that has more rights.
    #[error("it may gain privileges")]
    Privileges,
    /// Every system call is allowed.
    #[error("no seccomp filter is in force")]
    Seccomp,
    /// The host's files are there.
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
    /// The other half, that it is confined in a sandbox, is what every test that runs TypeScript shows.
    #[test]
    fn a_test_program_is_not_confined() {
        assert!(super::check().is_err());
    }
}
