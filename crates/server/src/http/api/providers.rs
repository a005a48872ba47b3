//! `/api/providers`: model providers, and users' own keys for them.

use crate::http::App;
use crate::http::extract::{At, Body};
use crate::http::operator::Proven;
use crate::http::problem::{ApiError, Refusals};
use crate::identity::{How, Identity};
use crate::personal_keys::{KeysError, MAX_KEY_BYTES};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use coracle_types::Secret;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Maximum time for a provider to answer when a key is tried.
const TRIAL_TIME: Duration = Duration::from_secs(10);

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(put_key, delete_key)).routes(routes!(try_key))
}

impl From<KeysError> for ApiError {
    fn from(error: KeysError) -> Self {
        match error {
            KeysError::Store(error) => error.into(),
            KeysError::Invalid(error) => Self::invalid(error.error.to_string()),
            KeysError::Damaged(error) => Self::internal("read the keys of providers", error),
        }
    }
}

/// Model provider
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Provider)]
struct ProviderView {
    /// Provider name, which precedes the names of its models
    name: String,
    /// Whether the current user can use models of the provider
    usable: bool,
    /// Whether the current user has a key of their own for the provider
    personal_key: bool,
}

/// List of model providers
#[derive(Debug, Serialize, ToSchema)]
struct Providers {
    /// Whether the current user can set keys of their own
    personal_keys: bool,
    /// Providers by name: those that are configured and, if users can set keys of their own, those that a key is enough
    /// for
    providers: Vec<ProviderView>,
}

/// List the model providers
#[utoipa::path(
    get, path = "/api/providers", operation_id = "list_providers", tag = "providers",
    responses((status = 200, body = Providers, description = "Providers by name"), Refusals)
)]
async fn list(State(app): State<App>, caller: Identity) -> Result<Json<Providers>, ApiError> {
    let personal_keys = may_have_keys(&app, &caller);
    let own = app.user_models.of(&caller.user).await?;
    let usable = own.directory().providers();
    let mut names = if personal_keys { app.models().keyed() } else { BTreeSet::new() };
    names.extend(usable.keys().map(String::as_str));
    let providers = names.into_iter().map(|name| ProviderView {
        name: name.to_owned(),
        usable: usable.contains_key(name),
        personal_key: own.has_key(name),
    });
    Ok(Json(Providers { personal_keys, providers: providers.collect() }))
}

/// Whether the caller may have keys. The local user of a server without users is the operator.
fn may_have_keys(app: &App, caller: &Identity) -> bool {
    app.agent.allows_personal_keys || matches!(caller.how, How::Local)
}

/// Rejects keys that the caller cannot have.
fn check(app: &App, caller: &Identity, provider: &str, key: &Secret) -> Result<(), ApiError> {
    if !may_have_keys(app, caller) {
        let message = "users cannot set keys of their own: the operator can allow it with agent.personal_keys";
        return Err(ApiError::forbidden("personal_keys_disabled", message));
    }
    if !app.models().keyed().contains(provider) {
        return Err(ApiError::missing("there is no such provider: see /api/providers"));
    }
    if key.expose().trim().is_empty() || key.expose().len() > MAX_KEY_BYTES {
        return Err(ApiError::invalid(format!("key must have from 1 to {MAX_KEY_BYTES} bytes")));
    }
    Ok(())
}

/// Key of a model provider
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct GivenKey {
    /// API key, at most 4096 bytes. It is stored encrypted and never returned.
    #[schema(value_type = String, min_length = 1, max_length = 4096)]
    key: Secret,
}

/// Set your own key for a model provider
///
/// The key is used instead of the operator's, if the setting `agent.personal_keys` allows it. On a server without users, the
/// person who started it can always set keys, from the browser that has opened the sign-in link or with the key of the
/// server.
#[utoipa::path(
    put, path = "/api/providers/{name}/key", operation_id = "put_provider_key", tag = "providers",
    params(("name" = String, Path, description = "Provider name")),
    request_body = GivenKey,
    responses((status = 204, description = "Key stored"), Refusals)
)]
async fn put_key(
    State(app): State<App>,
    Proven(caller): Proven,
    At(name): At<String>,
    Body(GivenKey { key }): Body<GivenKey>,
) -> Result<StatusCode, ApiError> {
    check(&app, &caller, &name, &key)?;
    app.user_models.personal_keys.change(&app.agent, &app.auth.people, &caller.user, &name, Some(key)).await?;
    tracing::info!(user = %caller.user, provider = name, "a personal key was set");
    Ok(StatusCode::NO_CONTENT)
}

/// Result of trying a key
#[derive(Debug, Serialize, ToSchema)]
struct KeyTrial {
    /// Whether the provider answered a request that had the key
    accepted: bool,
    /// Number of models that the provider lists with the key. Some providers cannot list their models.
    models: usize,
    /// Reason why the request failed
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// Try a key for a model provider
///
/// Asks the provider for its models with the key, which is not stored. A key that can be set can be tried.
#[utoipa::path(
    post, path = "/api/providers/{name}/key/trial", operation_id = "try_provider_key", tag = "providers",
    params(("name" = String, Path, description = "Provider name")),
    request_body = GivenKey,
    responses((status = 200, body = KeyTrial, description = "Result of the trial"), Refusals)
)]
async fn try_key(
    State(app): State<App>,
    Proven(caller): Proven,
    At(name): At<String>,
    Body(GivenKey { key }): Body<GivenKey>,
) -> Result<Json<KeyTrial>, ApiError> {
    check(&app, &caller, &name, &key)?;
    let failed = |reason: String| Json(KeyTrial { accepted: false, models: 0, reason: Some(reason) });
    let keys = BTreeMap::from([(name.clone(), key)]);
    let directory = app.models().with_keys(&keys).map_err(KeysError::from)?;
    // A provider whose address is missing from the settings.
    let Some(provider) = directory.providers().get(&name) else {
        return Ok(failed(format!("`{name}` needs more settings than a key: see agent.providers")));
    };
    Ok(match tokio::time::timeout(TRIAL_TIME, provider.models()).await {
        Ok(Ok(models)) => Json(KeyTrial { accepted: true, models: models.len(), reason: None }),
        Ok(Err(error)) => failed(error.to_string()),
        Err(_) => failed(format!("`{name}` did not answer within {} seconds", TRIAL_TIME.as_secs())),
    })
}

/// Delete your own key for a model provider
#[utoipa::path(
    delete, path = "/api/providers/{name}/key", operation_id = "delete_provider_key", tag = "providers",
    params(("name" = String, Path, description = "Provider name")),
    responses((status = 204, description = "Key deleted"), Refusals)
)]
async fn delete_key(
    State(app): State<App>,
    Proven(caller): Proven,
    At(name): At<String>,
) -> Result<StatusCode, ApiError> {
    if !app.user_models.personal_keys.change(&app.agent, &app.auth.people, &caller.user, &name, None).await? {
        return Err(ApiError::missing("you have no key for this provider"));
    }
    tracing::info!(user = %caller.user, provider = name, "a personal key was deleted");
    Ok(StatusCode::NO_CONTENT)
}
