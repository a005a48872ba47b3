//! Errors in the form that clients of OpenAI's API expect.

use crate::http::ApiError;
use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use coracle_models::{ChoiceError, ModelError};
use serde_json::{Value, json};
use std::fmt;
use std::time::Duration;

/// An error of `/v1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OpenAiError {
    status: StatusCode,
    kind: &'static str,
    code: Option<String>,
    parameter: Option<String>,
    message: String,
    retry: Option<Duration>,
}

impl OpenAiError {
    fn new(status: StatusCode, kind: &'static str, code: Option<&str>, message: impl Into<String>) -> Self {
        Self { status, kind, code: code.map(str::to_owned), parameter: None, message: message.into(), retry: None }
    }

    /// The request is invalid.
    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request_error", None, message)
    }

    /// A parameter of the request is invalid.
    pub(super) fn parameter(name: &str, message: impl fmt::Display) -> Self {
        Self { parameter: Some(name.to_owned()), ..Self::invalid(format!("`{name}`: {message}")) }
    }

    /// The error is in this message of the request.
    pub(super) fn in_message(self, place: usize) -> Self {
        let message = format!("messages[{place}]: {}", self.message);
        Self { parameter: Some(format!("messages[{place}]")), message, ..self }
    }

    /// An error in the form of `/api`.
    pub(super) fn of_problem(status: StatusCode, code: &str, message: &str) -> Self {
        let kind = match status {
            StatusCode::UNAUTHORIZED => "authentication_error",
            StatusCode::FORBIDDEN => "permission_error",
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
            status if status.is_server_error() => "api_error",
            _ => "invalid_request_error",
        };
        Self::new(status, kind, Some(code), message)
    }

    /// The error as clients read it.
    pub(super) fn body(&self) -> Value {
        json!({"error": {"message": self.message, "type": self.kind, "param": self.parameter, "code": self.code}})
    }
}

impl fmt::Display for OpenAiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<ModelError> for OpenAiError {
    fn from(error: ModelError) -> Self {
        let code = Some(error.code());
        let message = error.to_string();
        match error {
            ModelError::ContextFull { .. } => {
                Self::new(StatusCode::BAD_REQUEST, "invalid_request_error", code, message)
            }
            ModelError::RateLimited { retry_after, .. } => {
                let limited = Self::new(StatusCode::TOO_MANY_REQUESTS, "rate_limit_error", code, message);
                Self { retry: retry_after, ..limited }
            }
            ModelError::Rejected { .. } => Self::new(StatusCode::BAD_REQUEST, "invalid_request_error", code, message),
            ModelError::Unreachable { .. } => Self::new(StatusCode::SERVICE_UNAVAILABLE, "api_error", code, message),
            ModelError::Unauthorized { .. }
            | ModelError::Failed { .. }
            | ModelError::Interrupted { .. }
            | ModelError::Malformed { .. }
            | ModelError::TooLarge { .. } => Self::new(StatusCode::BAD_GATEWAY, "api_error", code, message),
        }
    }
}

impl From<ChoiceError> for OpenAiError {
    fn from(error: ChoiceError) -> Self {
        let message = format!("{error}: {}", error.hint());
        let status = match error {
            ChoiceError::NoProvider { .. } => StatusCode::NOT_FOUND,
            ChoiceError::NoModel | ChoiceError::NoKey { .. } => StatusCode::BAD_REQUEST,
        };
        Self {
            parameter: Some("model".to_owned()),
            ..Self::new(status, "invalid_request_error", Some(error.code()), message)
        }
    }
}

impl From<ApiError> for OpenAiError {
    fn from(error: ApiError) -> Self {
        Self { retry: error.retry, ..Self::of_problem(error.status, error.code, &error.error) }
    }
}

impl IntoResponse for OpenAiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.body())).into_response();
        if let Some(wait) = self.retry {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(wait.as_secs().max(1)));
        }
        response
    }
}
