//! The API of OpenAI under `/v1`: clients use the agent as if it were a model.

mod approvals;
mod chat;
mod chat_answer;
mod chat_request;
mod containers;
mod continuations;
mod conversations;
mod error;
mod event_stream;
mod file_references;
mod files;
mod models;
mod multipart;
mod responses;
mod responses_request;
mod stored_file;

use super::App;
use super::authentication::{RequiredScope, require};
use super::local_key;
use super::problem::ApiError;
use super::rate_limit::{self, RateLimit};
use crate::user_models::UserModels;
use axum::Router;
use axum::body::Body;
use axum::http::{StatusCode, header};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
pub(super) use continuations::Continuations;
use error::OpenAiError;
use serde_json::Value;

/// Maximum size of an error that is rewritten.
const MAX_ERROR_BYTES: usize = 64 << 10;

pub(super) fn router(required: RequiredScope, models: &UserModels, rate: &RateLimit) -> Router<App> {
    Router::new()
        .route("/v1/chat/completions", post(chat::complete))
        .merge(responses::router())
        .merge(conversations::router())
        .merge(files::router())
        .merge(containers::router())
        .route("/v1/models", get(models::list))
        .route("/v1/models/{*name}", get(models::show))
        .layer(middleware::from_fn_with_state(rate.clone(), rate_limit::limit_all))
        .layer(middleware::from_fn_with_state(models.clone(), local_key::require))
        .layer(middleware::from_fn_with_state(required, require))
        .route("/v1", axum::routing::any(nothing))
        .route("/v1/{*rest}", axum::routing::any(nothing))
        .method_not_allowed_fallback(wrong_method)
        .layer(middleware::map_response(in_openai_form))
}

async fn nothing() -> OpenAiError {
    ApiError::missing("unknown path: see the API chapter of the documentation").into()
}

async fn wrong_method() -> OpenAiError {
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "wrong_method", "method not allowed for this path").into()
}

/// Rewrites errors of middleware, which have the form of `/api`.
async fn in_openai_form(response: Response) -> Response {
    let is_json = response.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind == "application/json");
    if !(response.status().is_client_error() || response.status().is_server_error()) || !is_json {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let Ok(bytes) = axum::body::to_bytes(body, MAX_ERROR_BYTES).await else {
        return OpenAiError::from(ApiError::internal("write an error", "it is too long")).into_response();
    };
    let problem: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let (Some(message), Some(code)) = (problem["error"].as_str(), problem["code"].as_str()) else {
        return Response::from_parts(parts, Body::from(bytes));
    };
    let rewritten = OpenAiError::of_problem(parts.status, code, message);
    parts.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(parts, Body::from(rewritten.body().to_string()))
}
