//! The error format that all of `/api` uses.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use std::time::Duration;
use utoipa::{IntoResponses, ToSchema};

/// Error response
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Problem {
    /// Human-readable error message
    error: String,
    /// Stable, machine-readable error code
    code: String,
}

/// An error that is returned to the caller.
#[derive(Debug)]
pub(crate) struct ApiError {
    pub(crate) status: StatusCode,
    pub(crate) code: &'static str,
    pub(crate) error: String,
    /// Time to wait before a retry, sent as `Retry-After`.
    pub(crate) retry: Option<Duration>,
}

impl ApiError {
    pub(crate) fn new(status: StatusCode, code: &'static str, error: impl Into<String>) -> Self {
        Self { status, code, error: error.into(), retry: None }
    }

    pub(crate) fn forbidden(code: &'static str, error: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, code, error)
    }

    pub(crate) fn invalid(error: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request", error)
    }

    pub(crate) fn missing(error: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", error)
    }

    pub(crate) fn too_large(error: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", error)
    }

    pub(crate) fn unsupported(error: impl Into<String>) -> Self {
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported", error)
    }

    /// An internal error: the reason is logged and not returned to the caller.
    pub(crate) fn internal(doing: &str, error: impl std::fmt::Display) -> Self {
        tracing::error!(%error, "{doing}");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", format!("could not {doing}: see the server's log"))
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response =
            (self.status, Json(Problem { error: self.error, code: self.code.to_owned() })).into_response();
        if let Some(wait) = self.retry {
            let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds.max(1)));
        }
        response
    }
}

/// Error responses that any operation may return.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "only for the OpenAPI document")]
pub(crate) enum Refusals {
    /// Invalid request
    #[response(status = 400)]
    Invalid(Problem),
    /// Authentication required or failed
    #[response(status = 401)]
    SignIn(Problem),
    /// Not allowed for this user, API key or request origin
    #[response(status = 403)]
    Forbidden(Problem),
    /// Resource not found, or owned by another user
    #[response(status = 404)]
    Missing(Problem),
    /// Request body too large, or a size limit exceeded
    #[response(status = 413)]
    TooLarge(Problem),
    /// Unsupported content type of the request body
    #[response(status = 415)]
    Unsupported(Problem),
    /// Too many requests (`server.requests_per_minute`); see `Retry-After`
    #[response(status = 429)]
    TooMany(Problem),
}
