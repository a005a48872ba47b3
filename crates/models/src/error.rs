//! What can go wrong between Coracle and a model.

use std::error::Error;
use std::time::Duration;

/// A request to a model failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// The server could not be reached, or did not answer in time.
    #[error("cannot reach {provider}: {reason}")]
    Unreachable {
        /// The provider's address.
        provider: String,
        /// Why.
        reason: String,
    },
    /// The key is missing, wrong or not sufficient.
    #[error("{provider} rejected the API key (HTTP {status})")]
    Unauthorized {
        /// The provider's address.
        provider: String,
        /// The HTTP status: 401 or 403.
        status: u16,
    },
    /// Too many requests, or the quota is used up.
    #[error("{provider} limits requests: {message}")]
    RateLimited {
        /// The provider's address.
        provider: String,
        /// What the server said.
        message: String,
        /// How long the server asks to wait.
        retry_after: Option<Duration>,
    },
    /// The conversation is too long for the model.
    #[error("the conversation is too long for the model: {message}")]
    ContextFull {
        /// What the server said.
        message: String,
    },
    /// The server does not accept the request.
    #[error("{provider} rejected the request (HTTP {status}): {message}")]
    Rejected {
        /// The provider's address.
        provider: String,
        /// The HTTP status.
        status: u16,
        /// What the server said.
        message: String,
    },
    /// The server failed.
    #[error("{provider} failed: {message}")]
    Failed {
        /// The provider's address.
        provider: String,
        /// What the server said, or its HTTP status.
        message: String,
    },
    /// The answer ended before it was complete.
    #[error("the answer of {provider} ended before it was complete: {reason}")]
    Interrupted {
        /// The provider's address.
        provider: String,
        /// What was missing.
        reason: String,
    },
    /// The answer makes no sense.
    #[error("cannot understand the answer of {provider}: {reason}")]
    Malformed {
        /// The provider's address.
        provider: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The answer is larger than allowed.
    #[error("the answer of the model is too large: more than {limit}")]
    TooLarge {
        /// The limit that was exceeded, with its unit.
        limit: String,
    },
}

impl ModelError {
    /// The error code, for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unreachable { .. } => "model_unreachable",
            Self::Unauthorized { .. } => "model_unauthorized",
            Self::RateLimited { .. } => "model_rate_limited",
            Self::ContextFull { .. } => "context_length_exceeded",
            Self::Rejected { .. } => "model_rejected_request",
            Self::Failed { .. } => "model_failed",
            Self::Interrupted { .. } => "model_interrupted",
            Self::Malformed { .. } => "model_malformed_answer",
            Self::TooLarge { .. } => "model_answer_too_large",
        }
    }

    /// How to fix the error, if the user can.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Unreachable { .. } => Some("check the provider's address, the network and the proxy variables"),
            Self::Unauthorized { .. } => Some("check the key of this provider and what it is allowed to do"),
            Self::RateLimited { .. } => Some("wait, use another model, or raise the quota with the provider"),
            Self::ContextFull { .. } => Some("begin a new conversation, or use a model with a larger context"),
            _ => None,
        }
    }
}

/// Invalid settings of a provider. The error contains none of their values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// The URL is not valid.
    #[error("the provider's `url` is not an http or https URL")]
    Address,
    /// The URL contains a credential, which would appear wherever the URL is printed.
    #[error("the provider's `url` contains a user or a password: put the key into `api_key`")]
    UserInAddress,
    /// The API key cannot be sent in a header.
    #[error("the provider's `api_key` has characters that cannot be sent in a header")]
    Key,
}

/// The error with its causes, without the address.
pub(crate) fn causes(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
