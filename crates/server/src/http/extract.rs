//! Extractors for `/api`, whose rejections are a [`Problem`].

use super::problem::ApiError;
use crate::http::{App, BODY_TIME, MAX_BODY};
use crate::identity::Identity;
use axum::RequestExt as _;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::header;
use axum::http::request::Parts;
use coracle_types::UserId;
use serde::de::DeserializeOwned;

impl<S: Sync> FromRequestParts<S> for Identity {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        parts.extensions.get().cloned().ok_or_else(ApiError::not_signed_in)
    }
}

/// Authenticated user of a request.
pub(crate) struct Caller(pub(crate) UserId);

impl FromRequestParts<App> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _app: &App) -> Result<Self, ApiError> {
        // The authentication middleware sets the identity; without it the request is rejected.
        let identity = parts.extensions.get::<Identity>().ok_or_else(ApiError::not_signed_in)?;
        Ok(Self(identity.user.clone()))
    }
}

/// JSON object in the body of a request.
pub(crate) struct Body<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<App> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _app: &App) -> Result<Self, ApiError> {
        let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if !kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json")) {
            return Err(ApiError::unsupported("the body must be JSON: send Content-Type: application/json"));
        }
        let bytes = whole(request).await?;
        // Serde would also accept an array of the fields in order.
        if !bytes.trim_ascii_start().starts_with(b"{") {
            return Err(ApiError::invalid("the body must be a JSON object"));
        }
        serde_json::from_slice(&bytes).map(Self).map_err(|error| ApiError::invalid(format!("invalid body: {error}")))
    }
}

/// Reads a body within its size and time limit.
pub(crate) async fn whole(request: Request) -> Result<bytes::Bytes, ApiError> {
    let body = request.into_limited_body();
    match tokio::time::timeout(BODY_TIME, axum::body::to_bytes(body, MAX_BODY)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(_)) => Err(ApiError::too_large(format!("the body cannot be read, or is longer than {MAX_BODY} bytes"))),
        Err(_) => {
            let error = "the body of the request did not arrive within 60 seconds";
            Err(ApiError::new(axum::http::StatusCode::REQUEST_TIMEOUT, "slow_request", error))
        }
    }
}

/// Query parameters of a request.
pub(crate) struct Asked<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequestParts<App> for Asked<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        match Query::<T>::from_request_parts(parts, app).await {
            Ok(Query(asked)) => Ok(Self(asked)),
            Err(error) => Err(ApiError::invalid(error.body_text())),
        }
    }
}

/// Maximum number of items in a list.
const MAX_LISTED: usize = 100;

/// Number of items to list: the requested one, or half of the maximum.
pub(crate) fn listed(limit: Option<usize>) -> Result<usize, ApiError> {
    match limit.unwrap_or(MAX_LISTED / 2) {
        limit @ 1..=MAX_LISTED => Ok(limit),
        _ => Err(ApiError::invalid(format!("limit must be from 1 to {MAX_LISTED}"))),
    }
}

/// Path parameters of a request.
pub(crate) struct At<T>(pub(crate) T);

impl<T: DeserializeOwned + Send> FromRequestParts<App> for At<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        match Path::<T>::from_request_parts(parts, app).await {
            Ok(Path(named)) => Ok(Self(named)),
            // A malformed name cannot exist.
            Err(error) => Err(ApiError::missing(error.body_text())),
        }
    }
}
