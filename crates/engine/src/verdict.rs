//! The outcome of an execution: one error code, from what the guest claims and what the host observed.

use crate::{complaint, hint};
use coracle_protocol::RunFailure;
use coracle_sandbox::{Cause, Exit, PythonError, SandboxError};
use coracle_types::{ErrorCode, Failure, Limits};

/// The end of a run.
#[derive(Debug)]
pub(crate) enum Ending {
    /// The guest says that it is done.
    Done { exit_code: i32, error: Option<RunFailure>, known: Known },
    /// The guest reports success, but it has exceeded a limit.
    Passed(Cause),
    /// The sandbox ended without an answer.
    Died(Exit),
    /// The wall-clock limit passed.
    TimedOut { wall_ms: u64, stderr: String },
    /// The caller cancelled.
    Cancelled,
    /// The output limit was exceeded.
    TooMuchOutput { most: u64 },
    /// The limit on calls was exceeded.
    TooManyCalls { most: u64 },
    /// The guest broke the protocol.
    Protocol(String),
    /// A sandbox could not be created.
    NoSandbox(SandboxError),
    /// Nothing ran, for this reason.
    Refused(Failure),
}

/// Observations of the host about a failure.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// Limits that the host saw being reached.
    pub(crate) causes: Vec<Cause>,
    /// The end of standard error.
    pub(crate) stderr: String,
    /// Whether the code had a network.
    pub(crate) has_network: bool,
}

/// The status of a program that was killed.
const KILLED: i32 = 137;
/// The exit status for a time-out, as in shells.
const TIMED_OUT: i32 = 124;
/// The exit status of a guest that has lost its channel to the host.
const GUEST_LOST_CHANNEL: i32 = 70;
const SIGNAL_XFSZ: i32 = 128 + 25;

/// Maximum length of a text of the guest. The guest has limits of its own, but it may lie.
const MAX_TEXT: usize = 32 << 10;

impl Ending {
    /// The wall-clock limit passed.
    pub(crate) fn timed_out(wall_ms: u64) -> Self {
        Self::TimedOut { wall_ms, stderr: String::new() }
    }

    /// The exit status, and the failure if there was one.
    pub(crate) fn judge(self, limits: &Limits) -> (i32, Option<Failure>) {
        match self {
            Self::Done { exit_code, error: None, .. } => (exit_code, None),
            Self::Done { exit_code, error: Some(error), known } => {
                (exit_code.max(1), Some(claimed(error, exit_code, &known, limits)))
            }
            Self::Passed(cause) => (KILLED, Some(from_cause(&cause, limits))),
            Self::Died(exit) => (exit.status, Some(died(&exit, limits))),
            Self::TimedOut { stderr, .. } if complaint::waits_to_fork(&stderr) => {
                let error = "the code started more processes than its limit, and waited for others to end until its time was up";
                (TIMED_OUT, Some(Failure { error: error.to_owned(), ..from_cause(&Cause::Processes, limits) }))
            }
            Self::TimedOut { wall_ms, .. } => {
                let seconds = std::time::Duration::from_millis(wall_ms).as_secs_f64();
                let hint = "do less at once, or ask for more time (timeout_seconds)";
                (
                    TIMED_OUT,
                    Some(failure(
                        ErrorCode::Timeout,
                        format!("the code ran longer than {seconds} s and was ended"),
                        hint,
                    )),
                )
            }
            Self::Refused(failure) => (1, Some(failure)),
            Self::Cancelled => (KILLED, Some(plain(ErrorCode::Cancelled, "the execution was cancelled"))),
            Self::TooMuchOutput { most } => {
                let hint = "print less: write large results to a file, or return a summary";
                (
                    KILLED,
                    Some(failure(
                        ErrorCode::Output,
                        format!("the code printed more than {most} bytes and was ended"),
                        hint,
                    )),
                )
            }
            Self::TooManyCalls { most } => {
                let hint = "make fewer calls, or raise the limit";
                (
                    KILLED,
                    Some(failure(
                        ErrorCode::Calls,
                        format!("the code made more than {most} calls and was ended"),
                        hint,
                    )),
                )
            }
            Self::Protocol(what) => {
                let hint = "something in the sandbox wrote to Coracle's own channel; do not touch descriptors that the code did not open";
                let what = capped(format!("the sandbox broke the protocol and was killed: {what}"));
                (KILLED, Some(failure(ErrorCode::GuestProtocol, what, hint)))
            }
            Self::NoSandbox(error) => (1, Some(no_sandbox(&error))),
        }
    }
}

fn no_sandbox(error: &SandboxError) -> Failure {
    let text = capped(error.to_string());
    match error {
        SandboxError::Workspace { .. } => {
            failure(ErrorCode::InvalidRequest, text, "give a folder that exists and that you may write to")
        }
        SandboxError::Python(PythonError::Replaced { .. }) => failure(
            ErrorCode::SandboxUnavailable,
            text,
            "install that Python, or create the virtual environment, in another folder, such as your home folder, and name \
             it with CORACLE_PYTHON",
        ),
        SandboxError::Python(_) => failure(
            ErrorCode::SandboxUnavailable,
            text,
            "install Python 3.10 or later, or name one with CORACLE_PYTHON; sandboxes for bash and TypeScript need it too",
        ),
        SandboxError::NotFull(_) => failure(
            ErrorCode::SandboxUnavailable,
            text,
            "see `coracle doctor`, or run without requiring full isolation",
        ),
        SandboxError::Unavailable(_) => match scarce() {
            None => failure(ErrorCode::SandboxUnavailable, text, "see `coracle doctor`"),
            Some((what, hint)) => failure(ErrorCode::SandboxUnavailable, capped(format!("{what} ({text})")), hint),
        },
    }
}

/// With fewer open files or processes than this, a sandbox often cannot be created, and the error does not say why.
const FEW_FILES: u64 = 256;
const FEW_PROCESSES: u64 = 128;

/// Returns which resource of this process is nearly used up, if any, and what to do about it.
fn scarce() -> Option<(String, &'static str)> {
    use rustix::process::{Resource, getrlimit};
    let below = |resource: Resource, few: u64| getrlimit(resource).maximum.filter(|most| *most < few);
    if let Some(most) = below(Resource::Nofile, FEW_FILES) {
        let what = format!("cannot create a sandbox: this process may open {most} files, and {FEW_FILES} are needed");
        return Some((what, "raise `ulimit -n`, or LimitNOFILE= of its systemd unit"));
    }
    let most = below(Resource::Nproc, FEW_PROCESSES)?;
    let what = format!("cannot create a sandbox: this user may have {most} processes, and {FEW_PROCESSES} are needed");
    Some((what, "raise `ulimit -u`, or LimitNPROC= and TasksMax= of its systemd unit"))
}

/// The guest's own error, unless the host knows better why it failed.
fn claimed(error: RunFailure, exit_code: i32, known: &Known, limits: &Limits) -> Failure {
    let code = match error.code.as_str() {
        "syntax" => ErrorCode::Syntax,
        "memory" => ErrorCode::Memory,
        "processes" => ErrorCode::Processes,
        "files" => ErrorCode::Files,
        "disk" => ErrorCode::Disk,
        "output" => ErrorCode::Output,
        _ => ErrorCode::Exception,
    };
    let mut failure = Failure {
        error: capped(error.message),
        error_code: code,
        traceback: (!error.traceback.is_empty()).then(|| capped(error.traceback)),
        hint: error.hint.as_deref().and_then(hint::from_guest),
    };
    // A program that the code started was stopped by a limit: that is why it failed.
    if code == ErrorCode::Exception
        && let Some(cause) = cause_of_program(&failure, exit_code, known, limits)
    {
        failure.error_code = cause.error_code;
        failure.hint = cause.hint.or(failure.hint);
    } else if code == ErrorCode::Memory {
        failure.hint = Some(more_memory(limits));
    }
    if failure.hint.is_none() && failure.error_code == ErrorCode::Exception && is_of_program(&failure) {
        failure.hint = complaint::hint(&known.stderr, known.has_network).map(str::to_owned);
    }
    failure
}

/// Whether a program that the code started has failed: bash itself, or one that Python waited for.
fn is_of_program(failure: &Failure) -> bool {
    failure.traceback.is_none() || failure.error.contains("CalledProcessError")
}

/// Returns the failure for the limit that stopped a program of the code, if one did.
fn cause_of_program(failure: &Failure, exit_code: i32, known: &Known, limits: &Limits) -> Option<Failure> {
    if let Some(seen) = known.causes.first() {
        return Some(from_cause(seen, limits));
    }
    if !is_of_program(failure) {
        return None;
    }
    if exit_code == SIGNAL_XFSZ {
        return Some(file_too_large());
    }
    match complaint::limit(&known.stderr)? {
        ErrorCode::Memory => Some(from_cause(&Cause::Memory { used: None }, limits)),
        ErrorCode::Processes => Some(from_cause(&Cause::Processes, limits)),
        ErrorCode::Files => {
            Some(self::failure(ErrorCode::Files, "too many files were open", "close files that are not in use"))
        }
        ErrorCode::Disk => Some(from_cause(&Cause::Disk("a disk limit was met".to_owned()), limits)),
        _ => None,
    }
}

fn file_too_large() -> Failure {
    failure(ErrorCode::Disk, "a file grew over its size limit", "write less, or split it into several files")
}

fn died(exit: &Exit, limits: &Limits) -> Failure {
    if let Some(cause) = exit.causes.first() {
        return from_cause(cause, limits);
    }
    match exit.status {
        SIGNAL_XFSZ => file_too_large(),
        GUEST_LOST_CHANNEL => failure(
            ErrorCode::GuestProtocol,
            "the sandbox lost its channel to Coracle and ended",
            "do not close or write to descriptors that the code did not open (os.closerange)",
        ),
        status if status > 128 => {
            let signal = status - 128;
            plain(ErrorCode::Exception, &format!("the interpreter was ended by signal {signal}"))
        }
        status => plain(ErrorCode::Exception, &format!("the interpreter ended by itself with status {status}")),
    }
}

fn more_memory(limits: &Limits) -> String {
    let limit = limits.memory_mb;
    format!("work on less at once (chunks, generators), or ask for more than {limit} MB of memory (memory_mb)")
}

fn from_cause(cause: &Cause, limits: &Limits) -> Failure {
    match cause {
        Cause::Memory { used } => {
            let limit = limits.memory_mb;
            let error = match used {
                Some(bytes) => {
                    // After rounding, the reported use must still exceed the limit.
                    let used = bytes.div_ceil(1_000_000).max(limit + 1);
                    format!("the code used {used} MB of memory and was ended: the limit is {limit} MB")
                }
                None => format!("the code used all of its {limit} MB of memory, and a process of it was killed"),
            };
            failure(ErrorCode::Memory, error, &more_memory(limits))
        }
        Cause::Processes => {
            failure(ErrorCode::Processes, "the code started more processes than its limit", "start fewer at once")
        }
        Cause::Disk(what) => {
            let hint = "delete files that are no longer needed";
            failure(ErrorCode::Disk, format!("{what}; the code was ended"), hint)
        }
        Cause::Lost(what) => failure(
            ErrorCode::Internal,
            format!("the sandbox was lost: {what}"),
            "run it again; what it had done until then is done",
        ),
        Cause::Setup(what) => {
            failure(ErrorCode::SandboxUnavailable, format!("no sandbox: {what}"), "see `coracle doctor`")
        }
    }
}

fn failure(error_code: ErrorCode, error: impl Into<String>, hint: &str) -> Failure {
    Failure { error: error.into(), error_code, traceback: None, hint: Some(hint.to_owned()) }
}

fn plain(error_code: ErrorCode, error: &str) -> Failure {
    Failure { error: error.to_owned(), error_code, traceback: None, hint: None }
}

/// The request itself was wrong.
pub(crate) fn invalid(error: impl Into<String>) -> Failure {
    Failure { error: error.into(), error_code: ErrorCode::InvalidRequest, traceback: None, hint: None }
}

fn capped(text: String) -> String {
    match text.char_indices().nth(MAX_TEXT) {
        Some((at, _)) => text.get(..at).unwrap_or_default().to_owned(),
        None => text,
    }
}
