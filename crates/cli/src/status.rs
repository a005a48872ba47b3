use coracle_types::{ErrorCode, Execution};
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
