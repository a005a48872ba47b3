//! Ends the servers of a program that was killed and could not end them itself.
//!
//! The warden is a small process that holds the reading end of a pipe. It is told about every child. When the pipe
//! ends, the program is gone, and the warden ends the remaining children with their process groups. The kernel's
//! mechanism (`PR_SET_PDEATHSIG`) depends on the thread that started a child rather than the program, and does not
//! cover grandchildren: `npx` and `uvx` start the real server as one.

use super::process::{GRACE, TERM_GRACE};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use std::collections::HashMap;
use std::io::{self, BufRead as _, PipeWriter};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::process::Command;

/// The argument that starts the program as the warden.
pub const WARDEN_ARGUMENT: &str = "__warden";

/// The program's end of the pipe. The warden is started with the first child.
#[derive(Debug)]
pub(crate) struct Warden {
    program: Option<PathBuf>,
    pipe: Mutex<Started>,
}

#[derive(Debug)]
enum Started {
    NotYet,
    Yes(PipeWriter),
    /// There is no program, or it cannot be started: servers then end when they notice the end of their input.
    Cannot,
}

impl Warden {
    pub(crate) fn new(program: Option<PathBuf>) -> Self {
        let pipe = if program.is_some() { Started::NotYet } else { Started::Cannot };
        Self { program, pipe: Mutex::new(pipe) }
    }

    /// Starts the warden before a child is started, so that no child exists without it.
    pub(super) fn prepare(&self) {
        let mut pipe = self.pipe();
        if let (Started::NotYet, Some(program)) = (&*pipe, &self.program) {
            *pipe = start(program).map_or_else(
                |error| {
                    tracing::warn!(%error, "cannot start the warden, which ends servers if Coracle is killed");
                    Started::Cannot
                },
                Started::Yes,
            );
        }
    }

    /// Tells the warden about a child, which is the leader of its group.
    pub(super) fn watch(&self, child: Pid) {
        self.tell(Word::Watch, child);
    }

    pub(super) fn forget(&self, child: Pid) {
        self.tell(Word::Forget, child);
    }

    fn tell(&self, word: Word, child: Pid) {
        if let Started::Yes(pipe) = &*self.pipe() {
            let line = word.line(child);
            // The write does not block, and such a short line is written completely or not at all.
            if let Err(error) = rustix::io::write(pipe, line.as_bytes()) {
                tracing::debug!(%error, child = child.as_raw_nonzero(), "cannot tell the warden about a child");
            }
        }
    }

    fn pipe(&self) -> MutexGuard<'_, Started> {
        self.pipe.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn start(program: &Path) -> io::Result<PipeWriter> {
    let (reader, writer) = io::pipe()?;
    rustix::io::ioctl_fionbio(&writer, true)?;
    // In a separate group, because signals of a terminal are not for the warden. It holds no pipe that others wait on.
    let child = Command::new(program)
        .arg(WARDEN_ARGUMENT)
        .env_clear()
        .current_dir("/")
        .stdin(reader)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()?;
    // The warden exits when this process does. The runtime reaps it if it exits before.
    drop(child);
    Ok(writer)
}

/// A message to the warden.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    Watch,
    Forget,
}

impl Word {
    fn line(self, child: Pid) -> String {
        let mark = match self {
            Self::Watch => '+',
            Self::Forget => '-',
        };
        format!("{mark}{}\n", child.as_raw_nonzero())
    }

    fn read(line: &str) -> Option<(Self, Pid)> {
        let (word, number) = match line.split_at_checked(1)? {
            ("+", number) => (Self::Watch, number),
            ("-", number) => (Self::Forget, number),
            _ => return None,
        };
        // 1 would address every process.
        let child = number.parse().ok().filter(|number| *number > 1).and_then(Pid::from_raw)?;
        Some((word, child))
    }
}

/// The warden itself: reads standard input until it ends, then ends the remaining children.
pub fn warden_main() -> ExitCode {
    let mut children: HashMap<Pid, OwnedFd> = HashMap::new();
    for line in io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        match Word::read(&line) {
            Some((Word::Watch, child)) => {
                // The child may be gone already.
                if let Ok(handle) = pidfd_open(child, PidfdFlags::empty()) {
                    children.insert(child, handle);
                }
            }
            Some((Word::Forget, child)) => {
                children.remove(&child);
            }
            None => {}
        }
    }
    // Their input has ended, which is enough for most of them.
    await_end(&mut children, GRACE);
    for child in children.keys() {
        signal(*child, Signal::TERM);
    }
    await_end(&mut children, TERM_GRACE);
    for child in children.keys() {
        signal(*child, Signal::KILL);
    }
    ExitCode::SUCCESS
}

/// Waits for all children. Kills the rest of a group as soon as its leader has ended.
fn await_end(children: &mut HashMap<Pid, OwnedFd>, within: Duration) {
    let deadline = Instant::now() + within;
    while !children.is_empty() {
        let left = deadline.saturating_duration_since(Instant::now());
        let mut handles: Vec<PollFd<'_>> =
            children.values().map(|handle| PollFd::from_borrowed_fd(handle.as_fd(), PollFlags::IN)).collect();
        let time = Timespec::try_from(left).ok();
        if left.is_zero() || !matches!(poll(&mut handles, time.as_ref()), Ok(1..) | Err(Errno::INTR)) {
            return;
        }
        let ended: Vec<bool> = handles.iter().map(|handle| !handle.revents().is_empty()).collect();
        let ended: Vec<Pid> = children.keys().zip(ended).filter(|(_, ended)| *ended).map(|(child, _)| *child).collect();
        for child in ended {
            signal(child, Signal::KILL);
            children.remove(&child);
        }
    }
}

fn signal(group: Pid, signal: Signal) {
    // The group may be empty.
    let _ = kill_process_group(group, signal);
}

#[cfg(test)]
mod tests {
    use super::{Pid, Word};

    #[test]
    fn messages_are_parsed_as_they_were_written_and_others_are_rejected() {
        let child = Pid::from_raw(4321).unwrap();
        for word in [Word::Watch, Word::Forget] {
            assert_eq!(Word::read(word.line(child).trim_end()), Some((word, child)));
        }
        for line in ["", "+", "+0", "+1", "+-5", "4321", "*4321", "+4321 ", "é"] {
            assert_eq!(Word::read(line), None, "{line:?}");
        }
    }
}
