use coracle_types::ServerName;
use std::time::Duration;

/// Why a request to an upstream server failed. Texts that come from servers are shortened and contain no secret of the
/// configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpstreamError {
    /// The server is not configured.
    #[error("there is no server {server}")]
    UnknownServer {
        /// The requested name.
        server: ServerName,
    },
    /// The server cannot be started or reached.
    #[error("server {server} is not available: {reason}")]
    Unavailable {
        /// The server.
        server: ServerName,
        /// The reason.
        reason: String,
        /// When the server will be tried again. Until then, calls fail at once.
        retry_in: Option<Duration>,
    },
    /// The server did not answer in time.
    #[error("server {server} did not answer {what} within {after:?}{note}")]
    Timeout {
        /// The server.
        server: ServerName,
        /// The request.
        what: String,
        /// The time limit.
        after: Duration,
        /// What the server did instead, if known.
        note: String,
    },
    /// The caller cancelled the call.
    #[error("the call to server {server} was cancelled")]
    Cancelled {
        /// The server.
        server: ServerName,
    },
    /// The server violates the protocol.
    #[error("server {server} broke the protocol: {reason}")]
    Protocol {
        /// The server.
        server: ServerName,
        /// The violation.
        reason: String,
    },
    /// The server sent more than is accepted.
    #[error("server {server} sent too much: {reason}")]
    TooLarge {
        /// The server.
        server: ServerName,
        /// What was too large.
        reason: String,
    },
    /// The server has no such tool.
    #[error("server {server} has no tool {tool:?}")]
    ToolNotFound {
        /// The server.
        server: ServerName,
        /// The tool's name on the wire, shortened.
        tool: String,
    },
    /// The server requires a sign-in, or no longer accepts the current one.
    #[error("server {server} requires a sign-in: {reason}")]
    Unauthorized {
        /// The server.
        server: ServerName,
        /// The server's response.
        reason: String,
    },
    /// The connection ended before the answer arrived. Whether the call had an effect is not known.
    #[error("server {server} closed the connection during the call: {reason}")]
    Closed {
        /// The server.
        server: ServerName,
        /// The reason, as far as it is known.
        reason: String,
    },
    /// The server refused the call with a protocol error. (A tool that fails reports that in its result instead.)
    #[error("server {server} refused the call ({number}): {message}")]
    Refused {
        /// The server.
        server: ServerName,
        /// The JSON-RPC error number.
        number: i64,
        /// The server's message.
        message: String,
        /// Additional data of the error, unchanged, for callers that forward it. Untrusted, of any shape.
        data: Option<Box<serde_json::Value>>,
    },
    /// The tool requires input that only a person could give.
    #[error("server {server} requires more input for {tool:?} than its arguments")]
    InputRequired {
        /// The server.
        server: ServerName,
        /// The tool's name on the wire, shortened.
        tool: String,
    },
    /// The server asked a question during a call, and got no answer.
    #[error("server {server} asked a question that was not answered: {reason}")]
    Unanswered {
        /// The server.
        server: ServerName,
        /// Why there was no answer.
        reason: String,
    },
    /// A sign-in failed.
    #[error("the sign-in to server {server} failed: {reason}")]
    Login {
        /// The server.
        server: ServerName,
        /// The reason.
        reason: String,
    },
    /// Coracle is shutting down.
    #[error("connections to servers are shut down")]
    ShutDown,
}

impl UpstreamError {
    /// The stable error code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::UnknownServer { .. } => "server_not_found",
            Self::Unavailable { .. } => "unavailable",
            Self::Timeout { .. } => "timeout",
            Self::Cancelled { .. } => "cancelled",
            Self::Protocol { .. } => "protocol",
            Self::TooLarge { .. } => "too_large",
            Self::ToolNotFound { .. } => "tool_not_found",
            Self::Unauthorized { .. } => "unauthorized",
            Self::Closed { .. } => "closed",
            Self::Refused { .. } => "refused",
            Self::InputRequired { .. } => "input_required",
            Self::Unanswered { .. } => "unanswered",
            Self::Login { .. } => "login",
            Self::ShutDown => "shut_down",
        }
    }

    /// Whether the same call may succeed later with nothing changed. A call whose connection ended may already have had
    /// an effect, so whether to repeat it depends on the tool.
    pub fn retryable(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::Timeout { .. } | Self::Closed { .. })
    }

    /// What a person can do about the error.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::UnknownServer { .. } => "`coracle servers list` prints the configured servers".to_owned(),
            Self::Unavailable { server, .. } => format!("`coracle servers test {server}` prints details"),
            Self::Timeout { server, .. } => {
                format!("give server {server} more time with `start_timeout` or `call_timeout` in the settings")
            }
            Self::ToolNotFound { server, .. } => {
                format!("`coracle tools list --server {server}` prints its tools")
            }
            Self::Unauthorized { server, .. } | Self::Login { server, .. } => {
                format!("sign in with `coracle servers login {server}`")
            }
            Self::TooLarge { .. } => "ask the tool for less at once: a filter, a page, a range".to_owned(),
            Self::InputRequired { .. } => "pass everything that the tool needs as arguments".to_owned(),
            Self::Closed { .. } => {
                "the next call restarts the server; first check whether this call had an effect".to_owned()
            }
            Self::Cancelled { .. }
            | Self::Protocol { .. }
            | Self::Refused { .. }
            | Self::Unanswered { .. }
            | Self::ShutDown => return None,
        })
    }
}
