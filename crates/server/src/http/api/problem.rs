//! Whatever goes wrong in `/api` has one shape.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use std::time::Duration;
use utoipa::{IntoResponses, ToSchema};

/// What went wrong.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Problem {
    /// For people.
    error: String,
    /// For programs.
    code: String,
}

/// A refusal.
#[derive(Debug)]
pub(crate) struct ApiError {
    pub(crate) status: StatusCode,
    pub(crate) code: &'static str,
    pub(crate) error: String,
    /// So long to wait before another try.
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

    /// Our fault: the log has the reason, the caller an apology.
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

/// The refusals that any request may meet.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "for the document alone")]
pub(crate) enum Refusals {
    /// Something about the request is wrong.
    #[response(status = 400)]
    Invalid(Problem),
    /// Nobody has signed in.
    #[response(status = 401)]
    SignIn(Problem),
    /// Whoever has signed in may not do this.
    #[response(status = 403)]
    Forbidden(Problem),
    /// There is no such thing, or it is somebody else's.
    #[response(status = 404)]
    Missing(Problem),
    /// The body is too large.
    #[response(status = 413)]
    TooLarge(Problem),
    /// The body is of another kind.
    #[response(status = 415)]
    Unsupported(Problem),
}
