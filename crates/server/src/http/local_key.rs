//! The key of a server without users.
//!
//! Such a server trusts every connection from this machine, but on a shared machine that can be anybody's. So the agent,
//! what people have said to it, and what only people may do also require a key, which only the user who started the server
//! can read.

use super::auth_state::has_key;
use super::local_browser::FromLocalBrowser;
use super::problem::ApiError;
use crate::identity::{How, Identity};
use crate::user_models::UserModels;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use coracle_types::UserId;

/// Middleware that rejects requests of the local user without the key. Must run after authentication.
pub(super) async fn require(State(models): State<UserModels>, request: Request, next: Next) -> Response {
    let is_local = request.extensions().get::<Identity>().is_none_or(|caller| matches!(caller.how, How::Local));
    let has_key = has_key(models.options.local_key.as_ref(), request.headers())
        || request.extensions().get::<FromLocalBrowser>().is_some();
    // Without a model there is nothing to protect, and the answer says what is missing.
    if is_local && !has_key && has_model(&models).await {
        let message = "the key of this server is required: send the content of the file `api_key` in the data folder of \
                       Coracle as `Authorization: Bearer …`";
        return ApiError::new(StatusCode::UNAUTHORIZED, "invalid_api_key", message).into_response();
    }
    next.run(request).await
}

/// Whether the local user has a model. If that cannot be found out, it counts as yes.
async fn has_model(models: &UserModels) -> bool {
    let own = models.of(&UserId::local()).await;
    own.map_or(true, |own| !own.directory().providers().is_empty())
}
