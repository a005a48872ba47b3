//! The process of a launcher.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, pidfd_open, pidfd_send_signal, waitid};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::Child;
use std::time::Duration;

/// A child of this process that only this type waits for.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    pub(crate) pidfd: OwnedFd,
}

impl Process {
    pub(crate) fn of(child: &Child) -> io::Result<Self> {
        let pid = child.id();
        let id = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidInput)?;
        Ok(Self { pid, pidfd: pidfd_open(id, PidfdFlags::empty())? })
    }

    /// Waits until the process has ended, and kills it if that takes longer than `patience`. Blocks.
    pub(crate) fn wait(&self, patience: Duration) {
        let patience = Timespec { tv_sec: patience.as_secs().cast_signed(), tv_nsec: 0 };
        let ended = loop {
            match poll(&mut [PollFd::new(&self.pidfd, PollFlags::IN)], Some(&patience)) {
                Err(rustix::io::Errno::INTR) => {}
                other => break other,
            }
        };
        if !matches!(ended, Ok(1..)) {
            tracing::warn!(pid = self.pid, "the launcher does not exit: killing it");
            let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
        }
        // Fails only if something else has waited for it.
        let _ = waitid(WaitId::PidFd(self.pidfd.as_fd()), WaitIdOptions::EXITED);
    }
}
