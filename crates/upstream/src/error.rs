use coracle_types::ServerName;
use std::error::Error;
use std::time::Duration;

/// Why an upstream server did not do what it was asked to. Texts that come from servers are shortened and hold no
/// secret of the configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpstreamError {
    /// The configuration names no such server.
    #[error("there is no server {server}")]
    UnknownServer {
        /// The name that was asked for.
        server: ServerName,
    },
    /// It cannot be started or reached.
    #[error("server {server} is not available: {reason}")]
    Unavailable {
        /// Which server.
        server: ServerName,
        /// Why.
        reason: String,
        /// When it will be tried again; until then calls fail at once.
        retry_in: Option<Duration>,
    },
    /// It gave no answer in time.
    #[error("server {server} gave no answer to {what} within {after:?}{note}")]
    Timeout {
        /// Which server.
        server: ServerName,
        /// What it was asked.
        what: String,
        /// How long it had.
        after: Duration,
        /// What it did instead, if that is known.
        note: String,
    },
    /// The caller no longer wanted the answer.
    #[error("the call to server {server} was cancelled")]
    Cancelled {
        /// Which server.
        server: ServerName,
    },
    /// It does not speak the protocol as it should.
    #[error("server {server} broke the protocol: {reason}")]
    Protocol {
        /// Which server.
        server: ServerName,
        /// How.
        reason: String,
    },
    /// It sent more than is accepted.
    #[error("server {server} sent too much: {reason}")]
    TooLarge {
        /// Which server.
        server: ServerName,
        /// What was too large.
        reason: String,
    },
    /// It offers no such tool.
    #[error("server {server} has no tool {tool:?}")]
    ToolNotFound {
        /// Which server.
        server: ServerName,
        /// The tool's name on the wire, shortened.
        tool: String,
    },
    /// It wants a sign-in first, or no longer accepts the one it had.
    #[error("server {server} wants a sign-in: {reason}")]
    Unauthorized {
        /// Which server.
        server: ServerName,
        /// What it said.
        reason: String,
    },
    /// The connection ended while the answer was awaited. Whether the call had its effect is not known.
    #[error("server {server} ended the connection in the middle of it: {reason}")]
    Closed {
        /// Which server.
        server: ServerName,
        /// Why, as far as that is known.
        reason: String,
    },
    /// It refused the call by a protocol error; a tool that fails says so in its result instead.
    #[error("server {server} refused the call ({number}): {message}")]
    Refused {
        /// Which server.
        server: ServerName,
        /// The error's number in JSON-RPC.
        number: i64,
        /// What it said.
        message: String,
        /// More of it, as it came, for who passes the error on. Hostile, and may be of any shape.
        data: Option<Box<serde_json::Value>>,
    },
    /// The tool asks for something that only a person could answer.
    #[error("server {server} wants more input for {tool:?} than its arguments")]
    InputRequired {
        /// Which server.
        server: ServerName,
        /// The tool's name on the wire, shortened.
        tool: String,
    },
    /// It asked something during a call, and got no answer.
    #[error("server {server} asked something that was not answered: {reason}")]
    Unanswered {
        /// Which server.
        server: ServerName,
        /// Why there was no answer.
        reason: String,
    },
    /// A sign-in did not succeed.
    #[error("the sign-in to server {server} failed: {reason}")]
    Login {
        /// Which server.
        server: ServerName,
        /// Why.
        reason: String,
    },
    /// Coracle is ending.
    #[error("connections to servers are shut down")]
    ShutDown,
}

impl UpstreamError {
    /// A stable name for the kind of error.
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

    /// Whether the same call may succeed later with nothing changed. A call whose connection ended may already have
    /// had its effect, so whether to repeat that one depends on the tool.
    pub fn retryable(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::Timeout { .. } | Self::Closed { .. })
    }

    /// What a person can do about it.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::UnknownServer { .. } => "`coracle servers list` shows the servers there are".to_owned(),
            Self::Unavailable { server, .. } => format!("`coracle servers test {server}` tries it and shows more"),
            Self::Timeout { server, .. } => {
                format!("give server {server} more time with `start_timeout` or `call_timeout` in the settings")
            }
            Self::ToolNotFound { server, .. } => {
                format!("`coracle tools list --server {server}` shows the tools there are")
            }
            Self::Unauthorized { server, .. } | Self::Login { server, .. } => {
                format!("sign in with `coracle servers login {server}`")
            }
            Self::TooLarge { .. } => "ask the tool for less at once: a filter, a page, a range".to_owned(),
            Self::InputRequired { .. } => "give everything that the tool needs in its arguments".to_owned(),
            Self::Closed { .. } => {
                "the next call starts it anew; look first whether this one had its effect".to_owned()
            }
            Self::Cancelled { .. }
            | Self::Protocol { .. }
            | Self::Refused { .. }
            | Self::Unanswered { .. }
            | Self::ShutDown => return None,
        })
    }
}

/// An error with its causes.
pub(crate) fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}
