use coracle_types::{ErrorCode, Execution};
use std::fmt;
use std::process::ExitCode;

/// The exit statuses of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// The code ran to its end.
    Success,
    /// The code failed, or a check did.
    Failed,
    /// The arguments or the request were wrong; nothing ran.
    Usage,
    /// The wall-clock limit passed.
    TimedOut,
    /// Coracle itself could not do its part: no sandbox, or a fault of its own.
    Unavailable,
    /// Cancelled from the keyboard.
    Cancelled,
    /// The memory limit was met.
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

/// A mistake of whoever typed the command or wrote the settings; ends in [`Status::Usage`].
#[derive(Debug)]
pub(crate) struct Mistake(String);

impl Mistake {
    /// What is wrong, and what mends it.
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

/// Somebody at the keyboard had enough; ends in [`Status::Cancelled`], and nothing more is said.
#[derive(Debug)]
pub(crate) struct Cancelled;

impl fmt::Display for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cancelled")
    }
}

impl std::error::Error for Cancelled {}
