//! The HTTP API under `/api`, with its OpenAPI document.

mod accounts;
mod approvals;
mod artifacts;
pub(super) mod content;
mod conversations;
mod decisions;
mod executions;
mod plans;
mod policy;
mod providers;
mod queue;
mod savings;
mod server_changes;
mod server_sign_ins;
mod servers;
mod sessions;
mod skills;
mod sources;
#[cfg(test)]
mod tests;
mod tool_calls;
mod tool_selection;
mod tools;
mod user_data;
mod workspace;

use super::App;
use super::authentication::{RequiredScope, require};
use super::local_key;
use super::problem::{ApiError, Problem};
use super::rate_limit::{self, RateLimit};
use crate::user_models::UserModels;
use axum::Router;
use axum::http::{StatusCode, header};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use std::sync::LazyLock;
use utoipa::OpenApi;
use utoipa::openapi::security::{
    ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme,
};
use utoipa_axum::router::OpenApiRouter;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Coracle",
        description = "Run code that calls tools in a sandbox, and manage its results, sessions, skills, files, conversations, tools and approvals.",
        license(name = "Apache-2.0")
    ),
    components(schemas(Problem))
)]
struct Document;

/// Routes that require authentication.
fn authenticated_routes() -> OpenApiRouter<App> {
    shared_routes().merge(personal_routes())
}

/// Routes that everybody on this machine may use if the server has no users.
fn shared_routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .merge(executions::routes())
        .merge(sessions::routes())
        .merge(skills::routes())
        .merge(workspace::routes())
        .merge(artifacts::routes())
        .merge(servers::routes())
        .merge(server_changes::routes())
        .merge(tools::routes())
        .merge(tool_selection::routes())
        .merge(accounts::routes())
}

/// Routes with what a person has said, and with what only a person may do. On a server with a model and without users, they
/// require its key.
fn personal_routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .merge(approvals::routes())
        .merge(conversations::routes())
        .merge(queue::routes())
        .merge(savings::routes())
        .merge(decisions::routes())
        .merge(sources::routes())
        .merge(plans::routes())
        .merge(policy::routes())
        .merge(providers::routes())
        .merge(server_sign_ins::routes())
        .merge(user_data::routes())
}

/// Returns the OpenAPI document that is checked in as `docs/openapi.json`.
pub fn openapi_document() -> String {
    let all =
        OpenApiRouter::with_openapi(Document::openapi()).merge(authenticated_routes()).merge(accounts::open_routes());
    let (_, mut document) = all.split_for_parts();
    let bearer =
        HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some("API key or OpenID Connect access token"));
    let cookie = ApiKey::Cookie(ApiKeyValue::new("coracle_session"));
    let components = document.components.get_or_insert_default();
    components.add_security_scheme("bearer", SecurityScheme::Http(bearer.build()));
    components.add_security_scheme("cookie", SecurityScheme::ApiKey(cookie));
    // Either scheme is accepted. Operations that need no authentication override this.
    let either = ["bearer", "cookie"].map(|name| SecurityRequirement::new(name, [""; 0]));
    document.security = Some(either.into());
    let mut text = document.to_pretty_json().unwrap_or_default();
    text.push('\n');
    text
}

pub(super) fn router(required: RequiredScope, models: &UserModels, rate: &RateLimit) -> Router<App> {
    // Built once: the document is public and may be requested any number of times.
    static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| openapi_document().into());
    let document = || async { ([(header::CONTENT_TYPE, "application/json")], DOCUMENT.clone()) };
    let (shared, _) = shared_routes().split_for_parts();
    let (personal, _) = personal_routes().split_for_parts();
    let (open, _) = accounts::open_routes().split_for_parts();
    shared
        .merge(personal.layer(middleware::from_fn_with_state(models.clone(), local_key::require)))
        .layer(middleware::from_fn_with_state(rate.clone(), rate_limit::limit_writes))
        .layer(middleware::from_fn_with_state(required, require))
        .merge(open)
        .route("/api/openapi.json", get(document))
        .route("/api", axum::routing::any(nothing))
        .route("/api/{*rest}", axum::routing::any(nothing))
        .method_not_allowed_fallback(wrong_method)
}

async fn nothing() -> ApiError {
    ApiError::missing("unknown path: see /api/openapi.json")
}

async fn wrong_method() -> Response {
    let status = StatusCode::METHOD_NOT_ALLOWED;
    ApiError::new(status, "wrong_method", "method not allowed for this path").into_response()
}
