//! Callers who may change the settings of the server.

use super::App;
use super::auth_state::has_key;
use super::local_browser::FromLocalBrowser;
use super::problem::ApiError;
use crate::configuration::{Configuration, ConfigurationError};
use crate::identity::{How, Identity};
use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use coracle_store::KeyScope;
use serde::Serialize;
use std::sync::Arc;

/// An admin or, on a server without users, whoever started it. On a shared machine, others can reach such a server too, so
/// the request must prove it.
#[derive(Clone, Debug)]
pub(crate) struct Operator(pub(crate) Identity);

impl FromRequestParts<App> for Operator {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let caller = parts.extensions.get::<Identity>().cloned().ok_or_else(ApiError::not_signed_in)?;
        if !caller.may(KeyScope::Admin) {
            let message = "changing the settings requires the role admin, and an API key needs the scope admin";
            return Err(ApiError::forbidden("admins_only", message));
        }
        let Proven(caller) = Proven::from_request_parts(parts, app).await?;
        Ok(Self(caller))
    }
}

/// A caller who is signed in or, on a server without users, has proven to be the person who started it.
#[derive(Clone, Debug)]
pub(crate) struct Proven(pub(crate) Identity);

impl FromRequestParts<App> for Proven {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let caller = parts.extensions.get::<Identity>().cloned().ok_or_else(ApiError::not_signed_in)?;
        let is_proven = || {
            parts.extensions.get::<FromLocalBrowser>().is_some()
                || has_key(app.agent.local_key.as_ref(), &parts.headers)
        };
        if matches!(caller.how, How::Local) && !is_proven() {
            let message = "only the person who started the server can change its settings: open the sign-in link that \
                           `coracle up` prints";
            return Err(ApiError::new(StatusCode::UNAUTHORIZED, "not_proven", message));
        }
        Ok(Self(caller))
    }
}

impl App {
    /// The settings, if they can be changed.
    pub(crate) fn configuration(&self) -> Result<&Arc<dyn Configuration>, ApiError> {
        let message = "this server was started without a settings file that can be changed";
        self.configuration.as_ref().ok_or_else(|| ApiError::new(StatusCode::CONFLICT, "not_writable", message))
    }
}

/// Kinds of servers that a caller may add.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AddableServers {
    Nothing,
    Urls,
    UrlsAndCommands,
}

impl AddableServers {
    pub(crate) fn by(app: &App, operator: Result<&Operator, &ApiError>) -> Self {
        match (operator, app.configuration()) {
            (Ok(Operator(caller)), Ok(_)) if may_add_commands(app, caller) => Self::UrlsAndCommands,
            (Ok(_), Ok(_)) => Self::Urls,
            _ => Self::Nothing,
        }
    }
}

/// Whether an operator may add servers that start a command. It runs outside the sandbox, as the user who started Coracle.
/// Where that is the only user, nothing is gained by it; elsewhere the settings must allow it.
pub(crate) fn may_add_commands(app: &App, caller: &Identity) -> bool {
    matches!(caller.how, How::Local) || app.configuration().is_ok_and(|configuration| configuration.allows_commands())
}

/// Rejects programs, which must not change what a person has decided.
pub(crate) fn needs_a_person(caller: &Identity) -> Result<(), ApiError> {
    if caller.may(KeyScope::Approve) {
        return Ok(());
    }
    let message = "decisions require a person: a browser session, or an API key with the scope approve";
    Err(ApiError::forbidden("insufficient_scope", message))
}

impl From<ConfigurationError> for ApiError {
    fn from(error: ConfigurationError) -> Self {
        let status = match &error {
            ConfigurationError::Exists { .. } | ConfigurationError::NotWritable { .. } => StatusCode::CONFLICT,
            ConfigurationError::NotFound { .. } => StatusCode::NOT_FOUND,
            ConfigurationError::Invalid { .. } => StatusCode::BAD_REQUEST,
        };
        Self::new(status, error.code(), error.to_string())
    }
}

/// Changes the settings on a thread that may block.
pub(crate) async fn change(
    app: &App,
    change: impl FnOnce(&dyn Configuration) -> Result<(), ConfigurationError> + Send + 'static,
) -> Result<(), ApiError> {
    let configuration = Arc::clone(app.configuration()?);
    let changed = tokio::task::spawn_blocking(move || change(&*configuration)).await;
    changed.map_err(|error| ApiError::internal("change the settings", error))?.map_err(ApiError::from)
}
