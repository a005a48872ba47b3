//! OAuth metadata of `/mcp` as a protected resource (RFC 9728), which tells MCP clients who issues tokens for it.

use super::App;
use super::auth_state::AuthState;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::json;
use std::sync::Arc;

/// Routes without authentication: they describe how to authenticate.
pub(super) fn router() -> Router<App> {
    Router::new()
        .route("/.well-known/oauth-protected-resource", get(metadata))
        .route("/.well-known/oauth-protected-resource/mcp", get(metadata))
}

async fn metadata(State(auth): State<Arc<AuthState>>, uri: Uri, headers: HeaderMap) -> Response {
    let base = auth.base(&uri, &headers);
    let mut metadata = json!({
        "resource": format!("{base}/mcp"),
        "resource_name": "Coracle",
        "bearer_methods_supported": ["header"],
    });
    if let Some(provider) = &auth.provider {
        metadata["authorization_servers"] = json!([provider.issuer()]);
        metadata["scopes_supported"] = json!(provider.scopes());
    }
    let mut response = Json(metadata).into_response();
    // Clients in a browser request this before they have any credentials.
    response.headers_mut().insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    response
}
