use coracle_types::{ErrorCode, Execution};
use std::fmt;
use std::process::ExitCode;

/// Exit statuses of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// The command or the code succeeded.
    Success,
    /// The code or a check failed.
    Failed,
    /// The arguments or the request are invalid; nothing ran.
    Usage,
    /// The time limit was exceeded.
    TimedOut,
    /// Coracle itself failed, for example because there is no sandbox.
    Unavailable,
    /// Cancelled with a signal.
    Cancelled,
    /// The memory limit was exceeded.
    Memory,
}

impl Status {
    pub(crate) fn of(execution: &Execution) -> Self {
        let Some(failure) = &execution.failure else { return Self::Success };
        match failure.error_code {
            ErrorCode::Timeout => Self::TimedOut,
            ErrorCode::Memory => Self::Memory,
            ErrorCode::Cancelled => Self::Cancelled,
            ErrorCode::InvalidRequest => Self::Usage,
            ErrorCode::SandboxUnavailable | ErrorCode::Internal => Self::Unavailable,
            ErrorCode::Exception
            | ErrorCode::Syntax
            | ErrorCode::Processes
            | ErrorCode::Files
            | ErrorCode::Disk
            | ErrorCode::Output
            | ErrorCode::Calls
            | ErrorCode::Denied
            | ErrorCode::GuestProtocol => Self::Failed,
        }
    }
}

impl Status {
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::TimedOut => 124,
            Self::Unavailable => 125,
            Self::Cancelled => 130,
            Self::Memory => 137,
        }
    }
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> Self {
        Self::from(status.code())
    }
}

/// Usage error in the arguments or the settings; exits with [`Status::Usage`].
#[derive(Debug)]
pub(crate) struct Mistake(String);

impl Mistake {
    /// Creates an error with a message and a hint.
    pub(crate) fn new(message: impl fmt::Display, hint: Option<impl fmt::Display>) -> Self {
        Self(match hint {
            Some(hint) => format!("{message}\nhint: {hint}"),
            None => message.to_string(),
        })
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Mistake {}

/// The user cancelled the command; exits with [`Status::Cancelled`] without a message.
#[derive(Debug)]
pub(crate) struct Cancelled;

impl fmt::Display for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cancelled")
    }
}

impl std::error::Error for Cancelled {}
