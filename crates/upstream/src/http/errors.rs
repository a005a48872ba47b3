use super::BodyError;
use crate::connection::chain;

/// Why an HTTP request failed. Messages contain no URL, because it may hold credentials.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HttpError {
    #[error("{0}")]
    Request(String),
    #[error("the header {0:?} cannot be sent: its name is reserved, or it is not valid")]
    Header(String),
    #[error("{0}")]
    Body(String),
    #[error("HTTP {0}")]
    Status(u16),
    #[error("{0}")]
    Endpoint(String),
}

impl From<reqwest::Error> for HttpError {
    fn from(error: reqwest::Error) -> Self {
        Self::Request(chain(&error.without_url()))
    }
}

impl From<BodyError> for HttpError {
    fn from(error: BodyError) -> Self {
        Self::Body(error.to_string())
    }
}
