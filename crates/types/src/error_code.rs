use serde::{Deserialize, Serialize};
use std::fmt;

/// Why an execution did not succeed. MCP, HTTP, the CLI and the log all use these codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// The code raised an exception, or the program exited with a non-zero status.
    Exception,
    /// The code could not be parsed.
    Syntax,
    /// The wall-clock limit was reached.
    Timeout,
    /// The memory limit was reached.
    Memory,
    /// The limit on processes and threads was reached.
    Processes,
    /// The limit on open files was reached.
    Files,
    /// A file, `/tmp`, the artifacts or the workspace reached its size limit.
    Disk,
    /// The code printed more than the output limit.
    Output,
    /// The code made more tool calls than allowed.
    Calls,
    /// The caller cancelled the execution.
    Cancelled,
    /// The policy denied a call.
    Denied,
    /// The request was invalid; nothing ran.
    InvalidRequest,
    /// The guest broke the protocol and was killed.
    GuestProtocol,
    /// No sandbox could be created.
    SandboxUnavailable,
    /// An internal error of Coracle.
    Internal,
}

impl ErrorCode {
    /// All codes, for exhaustive tables and tests.
    pub const ALL: [Self; 15] = [
        Self::Exception,
        Self::Syntax,
        Self::Timeout,
        Self::Memory,
        Self::Processes,
        Self::Files,
        Self::Disk,
        Self::Output,
        Self::Calls,
        Self::Cancelled,
        Self::Denied,
        Self::InvalidRequest,
        Self::GuestProtocol,
        Self::SandboxUnavailable,
        Self::Internal,
    ];

    /// The stable name, which is the same on every wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exception => "exception",
            Self::Syntax => "syntax",
            Self::Timeout => "timeout",
            Self::Memory => "memory",
            Self::Processes => "processes",
            Self::Files => "files",
            Self::Disk => "disk",
            Self::Output => "output",
            Self::Calls => "calls",
            Self::Cancelled => "cancelled",
            Self::Denied => "denied",
            Self::InvalidRequest => "invalid_request",
            Self::GuestProtocol => "guest_protocol",
            Self::SandboxUnavailable => "sandbox_unavailable",
            Self::Internal => "internal",
        }
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::ErrorCode;

    #[test]
    fn the_name_is_the_serialised_form() {
        for code in ErrorCode::ALL {
            assert_eq!(serde_json::to_value(code).unwrap(), code.as_str());
        }
    }
}
