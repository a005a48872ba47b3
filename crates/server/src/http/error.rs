//! Conversions of authentication, account and store errors to HTTP responses.

use super::ApiError;
use axum::http::StatusCode;
use coracle_accounts::{AccountError, SignInError};
use coracle_runs::RunError;
use coracle_store::StoreError;
use std::time::Duration;

impl ApiError {
    pub(crate) fn not_signed_in() -> Self {
        let error = "sign in first: with an API key (Authorization: Bearer crk_…), or in a browser at /sign-in";
        Self::new(StatusCode::UNAUTHORIZED, "not_signed_in", error)
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        match &error {
            StoreError::TooLarge { .. } | StoreError::InvalidName { .. } => Self::invalid(error.to_string()),
            _ if error.is_passing() => {
                tracing::error!(%error, code = error.code(), "the store cannot be used");
                let text = format!("the server cannot use its store ({}): see the server's log", error.code());
                let refused = Self::new(StatusCode::SERVICE_UNAVAILABLE, error.code(), text);
                Self { retry: Some(Duration::from_secs(1)), ..refused }
            }
            _ => Self::internal("use the store", error),
        }
    }
}

impl From<RunError> for ApiError {
    fn from(error: RunError) -> Self {
        let message = error.to_string();
        match error {
            RunError::Invalid { .. } => Self::invalid(message),
            RunError::Missing { .. } => Self::missing(message),
            RunError::Busy => Self::new(StatusCode::CONFLICT, "conversation_locked", message),
            RunError::Continued { .. } => Self::new(StatusCode::CONFLICT, "already_answered", message),
            RunError::NotRunning => Self::new(StatusCode::CONFLICT, "no_run", message),
            RunError::TooMany { .. } => Self::new(StatusCode::TOO_MANY_REQUESTS, "too_many_runs", message),
            RunError::TooManyMessages => Self::new(StatusCode::TOO_MANY_REQUESTS, "too_many_messages", message),
            RunError::Store(error) => error.into(),
        }
    }
}

impl From<AccountError> for ApiError {
    fn from(error: AccountError) -> Self {
        let (text, code) = (error.to_string(), error.code());
        match error {
            AccountError::Name(_)
            | AccountError::Reserved(_)
            | AccountError::ShortPassword
            | AccountError::LongPassword
            | AccountError::Key(_) => Self::new(StatusCode::BAD_REQUEST, code, text),
            AccountError::Taken(_) | AccountError::Disabled(_) => Self::new(StatusCode::CONFLICT, code, text),
            AccountError::Unknown(_) => Self::new(StatusCode::NOT_FOUND, code, text),
            AccountError::Store(error) => error.into(),
            AccountError::Audit(error) => {
                tracing::error!(%error, "a change was refused, because it cannot be recorded");
                // The message names folders of the server.
                let text = "the server cannot write its audit log: see the server's log";
                Self::new(StatusCode::SERVICE_UNAVAILABLE, code, text)
            }
            AccountError::Machine(reason) => Self::internal("manage an account", reason),
        }
    }
}

impl From<SignInError> for ApiError {
    fn from(error: SignInError) -> Self {
        let text = error.to_string();
        match error {
            SignInError::Wrong => Self::new(StatusCode::UNAUTHORIZED, "sign_in_failed", text),
            SignInError::TooMany(wait) => {
                Self { retry: Some(wait), ..Self::new(StatusCode::TOO_MANY_REQUESTS, "too_many_attempts", text) }
            }
            SignInError::Busy => {
                let busy = Self::new(StatusCode::SERVICE_UNAVAILABLE, "busy", text);
                Self { retry: Some(Duration::from_secs(1)), ..busy }
            }
            SignInError::Account(error) => error.into(),
        }
    }
}
