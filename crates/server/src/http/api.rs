//! `/api`: what people and programs may do over plain HTTP, with its OpenAPI document.

mod artifacts;
mod content;
mod executions;
mod extract;
mod problem;
#[cfg(test)]
mod tests;
mod workspace;

use super::App;
use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use problem::ApiError;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Coracle",
        description = "Run code that calls tools, in a sandbox, and work with what came of it.",
        license(name = "Apache-2.0")
    ),
    components(schemas(problem::Problem))
)]
struct Document;

fn documented() -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(Document::openapi())
        .merge(executions::routes())
        .merge(workspace::routes())
        .merge(artifacts::routes())
}

/// The OpenAPI document, as it is checked in.
pub fn openapi_document() -> String {
    let (_, document) = documented().split_for_parts();
    let mut text = document.to_pretty_json().unwrap_or_default();
    text.push('\n');
    text
}

pub(super) fn router() -> Router<App> {
    let document = || async { ([(header::CONTENT_TYPE, "application/json")], openapi_document()) };
    let (router, _) = documented().split_for_parts();
    router
        .route("/api/openapi.json", get(document))
        .route("/api", axum::routing::any(nothing))
        .route("/api/{*rest}", axum::routing::any(nothing))
        .method_not_allowed_fallback(wrong_method)
}

async fn nothing() -> ApiError {
    ApiError::missing("there is nothing here: /api/openapi.json says what there is")
}

async fn wrong_method() -> Response {
    let status = StatusCode::METHOD_NOT_ALLOWED;
    ApiError::new(status, "wrong_method", "this address does not take this method").into_response()
}
