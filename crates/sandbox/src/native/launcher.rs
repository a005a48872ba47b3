//! The launcher: a single-threaded process that creates sandboxes, so that the multi-threaded server never forks.
//!
//! It is the same program, started with a hidden argument. It enters a user namespace (unless it is root), takes
//! detached mounts of everything that sandboxes may see, starts the zygote in separate namespaces, and then serves the
//! server over one socket: prepare, bind, count. When the socket ends, everything that it has created ends with it.
//!
//! Trust boundary: the launcher has the most privileges. It reads messages of the server and, on the guest's side, only
//! those of the zygote, which runs no untrusted code.

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

pub(crate) use zygote::ENVIRONMENT as ENVIRONMENT_OF_CODE;

use super::messages::{self, Say, Start};
use super::process::Process;
use kernel::Forked;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::fs::OpenOptions;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;

/// Why a sandbox cannot be created: the step that failed, and its cause.
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

/// The main function of a program that was started as the launcher.
pub fn launcher_main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("coracle launcher: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The filters for the system calls of code, in the order of installation, for a process that confines itself. Memory is
/// measured by adding up processes.
pub(crate) fn filters_of_code() -> std::io::Result<Vec<Vec<u8>>> {
    let [base, refused] = seccomp::of_zygote(seccomp::MemoryCount::Processes).map_err(std::io::Error::other)?;
    let seal = seccomp::of_seal().map_err(std::io::Error::other)?;
    // The last one refuses the call that installs another.
    Ok([seal, base, refused].iter().map(|program| seccomp::to_bytes(program)).collect())
}

/// Resets SIGCHLD, so that this process can wait for its children even if its parent ignores the signal, which is
/// inherited. Call it at the beginning of a program.
pub fn reset_sigchld() {
    kernel::reset_sigchld();
}

/// A launcher that was forked before there were threads, for the sandbox of one command.
#[derive(Debug)]
pub struct ForkedLauncher {
    pub(super) socket: OwnedFd,
    pub(super) process: Process,
}

/// Forks a launcher, which is faster than starting the program again. The process must be single-threaded.
pub fn fork_launcher() -> std::io::Result<ForkedLauncher> {
    if std::fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(std::io::Error::other("a process with threads cannot fork a launcher"));
    }
    let (socket, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    match kernel::fork_into(0)? {
        Forked::Parent(pid, pidfd) => {
            // Set here too, so that the launcher is in its group before a Ctrl-C can reach it.
            if let Some(pid) = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw) {
                rustix::process::setpgid(Some(pid), None)?;
            }
            Ok(ForkedLauncher { socket, process: Process { pid, pidfd } })
        }
        Forked::Child => {
            drop(socket);
            // A panic must not unwind into the frames of the parent, which this process has a copy of.
            let outcome = std::panic::catch_unwind(move || part().and_then(|()| serve_alone(&theirs)));
            kernel::exit_now(i32::from(!matches!(outcome, Ok(Ok(())))))
        }
    }
}

/// Separates this process from its parent: from the terminal's signals, and from its input and output.
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
    // The server passes its socket as standard input. Nothing else must read from it.
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
    // The server first reads its settings. Everything that does not depend on them is created meanwhile.
    let ahead = alone::Ahead::new();
    serve_as(server, |start| alone::Alone::new(start, server.as_fd(), ahead?).serve())
}

fn serve_as(server: &OwnedFd, serve: impl FnOnce(Start) -> Result<(), LaunchError>) -> Result<(), LaunchError> {
    let received = messages::receive_start::<Start>(server.as_fd())
        .map_err(|error| LaunchError::io("read the first message", &error))?;
    let Some((start, lock)) = received else { return Ok(()) };
    let run_dir = start.run_dir.clone();
    if let Err(error) = serve(start) {
        // If the server is gone, there is no one to tell.
        let _ = messages::send(server.as_fd(), &Say::StartFailed { reason: error.to_string() }, &[]);
    }
    super::instance::Instance::remove(&run_dir);
    drop(lock);
    Ok(())
}
