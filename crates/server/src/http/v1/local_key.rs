//! The key of `/v1` on a server without users.
//!
//! Such a server trusts every connection from this machine, but on a shared machine that can be anybody's, and requests
//! to a model cost money. So the agent also requires a key, which only the user who started the server can read.

use crate::agent::AgentOptions;
use crate::http::problem::ApiError;
use crate::identity::{How, Identity};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use sha2::{Digest as _, Sha256};
use std::sync::Arc;

/// Middleware that rejects requests of the local user without the key. Must run after authentication.
pub(super) async fn require(State(agent): State<Arc<AgentOptions>>, request: Request, next: Next) -> Response {
    let is_local = request.extensions().get::<Identity>().is_none_or(|caller| matches!(caller.how, How::Local));
    // Without a model there is nothing to protect, and the answer says what is missing.
    if is_local && !agent.models.providers().is_empty() && !has_key(&agent, request.headers()) {
        let message = "the key of this server is required: send the content of the file `api_key` in the data folder of \
                       Coracle as `Authorization: Bearer …`";
        return ApiError::new(StatusCode::UNAUTHORIZED, "invalid_api_key", message).into_response();
    }
    next.run(request).await
}

fn has_key(agent: &AgentOptions, headers: &HeaderMap) -> bool {
    let sent = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let sent = sent.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    match (sent, &agent.local_key) {
        // Digests, so that the time of the comparison tells nothing about the key.
        (Some((_, sent)), Some(key)) => Sha256::digest(sent.trim()) == Sha256::digest(key.expose()),
        _ => false,
    }
}
