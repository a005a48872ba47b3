//! The launcher: one process of one thread that makes sandboxes, so that the many-threaded server never forks.
//!
//! The same program started again with a hidden argument. It enters a user namespace (unless it is root), takes detached
//! mounts of what sandboxes may see, starts the zygote in namespaces of its own, and then serves the server over one
//! socket: prepare, bind, count. When the socket ends, everything it has made ends with it.
//!
//! Trust boundary: holds the most rights of all. It reads what the server says and, of the guest's side, only what the
//! zygote says, which runs no foreign code.

mod allow_list;
mod alone;
mod confinement;
mod folders;
mod id_map;
mod kernel;
mod landlock;
mod plan;
mod privilege;
mod root;
mod seccomp;
mod serve;
mod zygote;

use super::messages::{self, Say, Start};
use super::process::Process;
use kernel::Forked;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::fs::OpenOptions;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;

/// Why no sandbox can be made.
#[derive(Debug, thiserror::Error)]
#[error("{step}: {cause}")]
pub(super) struct LaunchError {
    step: String,
    cause: String,
}

impl LaunchError {
    fn step(step: impl Into<String>, errno: Errno) -> Self {
        Self { step: step.into(), cause: errno.to_string() }
    }

    fn io(step: impl Into<String>, error: &std::io::Error) -> Self {
        Self { step: step.into(), cause: error.to_string() }
    }

    fn other(step: impl Into<String>, cause: impl Into<String>) -> Self {
        Self { step: step.into(), cause: cause.into() }
    }
}

/// What a program that contains a launcher must call when it was started as one.
pub fn launcher_main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("coracle launcher: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Lets this process wait for programs that it starts, even if whoever started it ignores SIGCHLD, which is inherited. For
/// the beginning of a program.
pub fn hear_of_children() {
    kernel::hear_of_children();
}

/// A launcher that was forked before there were threads, for the sandbox of one command.
#[derive(Debug)]
pub struct ForkedLauncher {
    pub(super) socket: OwnedFd,
    pub(super) process: Process,
}

/// Forks a launcher: sooner than starting the program again. The process must have one thread.
pub fn fork_launcher() -> std::io::Result<ForkedLauncher> {
    if std::fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(std::io::Error::other("a process with threads cannot fork a launcher"));
    }
    let (socket, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    match kernel::fork_into(0)? {
        Forked::Parent(pid, pidfd) => {
            // Here too, before anybody here could outlive a Ctrl-C that the launcher does not.
            if let Some(pid) = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw) {
                rustix::process::setpgid(Some(pid), None)?;
            }
            Ok(ForkedLauncher { socket, process: Process { pid, pidfd } })
        }
        Forked::Child => {
            drop(socket);
            // A panic must not go on in the frames of what this process is a copy of.
            let outcome = std::panic::catch_unwind(move || part().and_then(|()| serve_alone(&theirs)));
            kernel::exit_now(i32::from(!matches!(outcome, Ok(Ok(())))))
        }
    }
}

/// Leaves what belongs to the process that it is a copy of: its terminal's signals, its input and output.
fn part() -> Result<(), LaunchError> {
    let step = |errno| LaunchError::step("part from the server", errno);
    rustix::process::setpgid(None, None).map_err(step)?;
    let null = OpenOptions::new().read(true).write(true).open("/dev/null");
    let null = null.map_err(|error| LaunchError::io("open /dev/null", &error))?;
    rustix::stdio::dup2_stdin(&null).map_err(step)?;
    rustix::stdio::dup2_stdout(&null).map_err(step)?;
    privilege::leave_surroundings();
    std::env::set_current_dir("/").map_err(|error| LaunchError::io("enter /", &error))
}

fn run() -> Result<(), LaunchError> {
    // The server gives its socket as standard input; nothing else must read from it.
    let server: OwnedFd = rustix::io::fcntl_dupfd_cloexec(std::io::stdin(), 3)
        .map_err(|errno| LaunchError::step("take the server's socket", errno))?;
    let null = std::fs::File::open("/dev/null").map_err(|error| LaunchError::io("open /dev/null", &error))?;
    rustix::stdio::dup2_stdin(&null).map_err(|errno| LaunchError::step("close standard input", errno))?;
    privilege::leave_surroundings();
    serve(&server)
}

fn serve(server: &OwnedFd) -> Result<(), LaunchError> {
    serve_as(server, |start| serve::Launcher::new(start, server.as_fd()).and_then(serve::Launcher::serve))
}

fn serve_alone(server: &OwnedFd) -> Result<(), LaunchError> {
    // The server has its settings to read first: what they do not change is made meanwhile.
    let ahead = alone::Ahead::new();
    serve_as(server, |start| alone::Alone::new(start, server.as_fd(), ahead?).serve())
}

fn serve_as(server: &OwnedFd, serve: impl FnOnce(Start) -> Result<(), LaunchError>) -> Result<(), LaunchError> {
    let received = messages::receive_start::<Start>(server.as_fd())
        .map_err(|error| LaunchError::io("read the first message", &error))?;
    let Some((start, lock)) = received else { return Ok(()) };
    let run_dir = start.run_dir.clone();
    if let Err(error) = serve(start) {
        // If the server is gone there is nobody to tell.
        let _ = messages::send(server.as_fd(), &Say::StartFailed { reason: error.to_string() }, &[]);
    }
    super::instance::Instance::remove(&run_dir);
    drop(lock);
    Ok(())
}
