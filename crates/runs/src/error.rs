use coracle_store::StoreError;
use coracle_types::RunId;

/// Why a run could not be started or found.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The request cannot be fulfilled as it is.
    #[error("{message}")]
    Invalid {
        /// The parameter of the request.
        parameter: &'static str,
        /// What is wrong with it.
        message: String,
    },
    /// Something that the request names does not exist.
    #[error("{what} not found")]
    Missing {
        /// What is missing.
        what: String,
    },
    /// A run is under way in the conversation.
    #[error("a run is under way in the conversation: wait until it has ended, or stop it")]
    Busy,
    /// No run is under way in the conversation, at least not in this process.
    #[error("no run is under way in the conversation")]
    NotRunning,
    /// Too many messages wait for the next step of the run.
    #[error("too many messages are waiting for the run's next step")]
    TooManyMessages,
    /// The user has too many runs under way.
    #[error("too many runs are under way: the maximum is {most}")]
    TooMany {
        /// The maximum number.
        most: usize,
    },
    /// Another run has continued a parked run.
    #[error("response `{run}` was already continued by another request: its questions are answered")]
    Continued {
        /// The parked run.
        run: RunId,
    },
    /// The data folder cannot be read or written.
    #[error(transparent)]
    Store(StoreError),
}

impl From<StoreError> for RunError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::NoConversation { id } => Self::Missing { what: format!("conversation `{id}`") },
            StoreError::NoRun { id } => Self::Missing { what: format!("response `{id}`") },
            StoreError::Busy { .. } => Self::Busy,
            StoreError::TooLarge { what, bytes, max } => {
                let message = format!("the {what} is {bytes} bytes long: the maximum is {max}");
                Self::Invalid { parameter: "input", message }
            }
            other => Self::Store(other),
        }
    }
}

impl RunError {
    /// The parameter of a request is wrong.
    pub fn invalid(parameter: &'static str, message: impl Into<String>) -> Self {
        Self::Invalid { parameter, message: message.into() }
    }
}
