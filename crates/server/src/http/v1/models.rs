//! `/v1/models`: the models that can be used.

use super::error::OpenAiError;
use crate::http::App;
use crate::http::extract::Caller;
use crate::http::problem::ApiError;
use axum::Json;
use axum::extract::{Path, State};
use coracle_models::{Directory, ModelProvider, usual_context};
use futures::future::join_all;
use serde_json::{Value, json};
use std::time::Duration;

/// Maximum time to wait for a provider's list.
const LIST_TIME: Duration = Duration::from_secs(5);

pub(super) async fn list(State(app): State<App>, caller: Result<Caller, ApiError>) -> Result<Json<Value>, OpenAiError> {
    let Caller(user) = caller?;
    let own = app.user_models.of(&user).await.map_err(ApiError::from)?;
    let names = names(&app, own.directory()).await;
    let models = names.into_iter().map(|(owner, name)| model(&app, &owner, &name)).collect::<Vec<_>>();
    Ok(Json(json!({"object": "list", "data": models})))
}

pub(super) async fn show(
    State(app): State<App>,
    caller: Result<Caller, ApiError>,
    Path(name): Path<String>,
) -> Result<Json<Value>, OpenAiError> {
    let Caller(user) = caller?;
    let own = app.user_models.of(&user).await.map_err(ApiError::from)?;
    let chosen = own.directory().find(Some(&name))?;
    let listed = names(&app, own.directory()).await;
    let full = chosen.name();
    // A provider that cannot list its models may have it.
    let has_list = listed.iter().any(|(owner, name)| *owner == chosen.provider_name && *name != full);
    if has_list && !listed.iter().any(|(_, name)| *name == full) {
        return Err(ApiError::missing(format!("the provider `{}` has no such model", chosen.provider_name)).into());
    }
    Ok(Json(model(&app, &chosen.provider_name, &full)))
}

/// Providers and full names of models, the default first.
async fn names(app: &App, directory: &Directory) -> Vec<(String, String)> {
    let lists = directory.providers().iter().map(|(name, provider)| async move {
        let offered = app.agent.providers.get(name).map(|options| options.models.clone()).unwrap_or_default();
        let models = if offered.is_empty() { listed(name, &**provider).await } else { offered };
        models.into_iter().map(move |model| (name.clone(), format!("{name}/{model}"))).collect::<Vec<_>>()
    });
    let mut names: Vec<(String, String)> = join_all(lists).await.into_iter().flatten().collect();
    if let Ok(default) = directory.find(None) {
        let full = default.name();
        names.retain(|(_, name)| *name != full);
        names.insert(0, (default.provider_name, full));
    }
    names
}

/// The models that a provider lists. One that cannot list them may still have some.
async fn listed(name: &str, provider: &dyn ModelProvider) -> Vec<String> {
    match tokio::time::timeout(LIST_TIME, provider.models()).await {
        Ok(Ok(models)) => models,
        Ok(Err(error)) => {
            tracing::warn!(provider = name, %error, "cannot list the models of a provider");
            Vec::new()
        }
        Err(_) => {
            tracing::warn!(provider = name, "a provider did not list its models in time");
            Vec::new()
        }
    }
}

/// A model, with the size of its context in tokens: the one in the settings, or else the usual one of a well-known model.
fn model(app: &App, owner: &str, full: &str) -> Value {
    let set = app.agent.limits(owner).context_tokens;
    let model = full.strip_prefix(owner).and_then(|rest| rest.strip_prefix('/')).unwrap_or(full);
    let context = set.or_else(|| usual_context(owner, model));
    json!({
        "id": full, "object": "model", "created": 0, "owned_by": owner, "context_window": context,
        "context_window_estimated": set.is_none() && context.is_some(),
    })
}
