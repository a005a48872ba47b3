use super::disk;
use rustix::process::{Signal, pidfd_send_signal};
use std::os::fd::OwnedFd;
use std::path::PathBuf;

/// The process of a sandbox and its folder. Both are removed on drop.
#[derive(Debug)]
pub(super) struct Life {
    pub(super) pidfd: OwnedFd,
    pub(super) artifacts: PathBuf,
}

impl Life {
    /// Kills the first process, which is the init of its pid namespace: the kernel ends all others with it.
    pub(super) fn kill(&self) {
        // Fails only if the process is gone already.
        let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        self.kill();
        disk::remove_soon(&self.artifacts);
    }
}
