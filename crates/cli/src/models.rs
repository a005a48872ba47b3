//! Models of the settings, and `coracle models`.

mod list;
mod local;
mod owner;

use crate::status::Mistake;
use coracle_agent::{CodeFences, RunLimits};
use coracle_config::{self as config, Loaded};
use coracle_models::{Api, Directory, ProviderSettings};
use coracle_server::{AgentOptions, ProviderOptions};
pub(crate) use list::{ModelsArguments, run};
pub(crate) use local::{Local, add_named};
use std::sync::Arc;
use std::time::Duration;

/// The agent of the settings. Does not send anything yet.
pub(crate) fn agent_options(loaded: &Loaded) -> anyhow::Result<AgentOptions> {
    let agent = &loaded.settings.agent;
    let settings = loaded.providers.iter().map(|(name, provider)| (name.clone(), settings(provider))).collect();
    let models = Directory::new(&settings, loaded.default_model()).map_err(|error| {
        Mistake::new(error, Some("see `coracle config show --origin` for where the setting comes from"))
    })?;
    let options = |provider: &config::Provider| ProviderOptions {
        fences: match provider.code_fences {
            config::CodeFences::Auto => CodeFences::Auto,
            config::CodeFences::Always => CodeFences::Always,
            config::CodeFences::Never => CodeFences::Never,
        },
        context_tokens: provider.context_tokens,
        models: provider.models.clone(),
    };
    Ok(AgentOptions {
        models: Arc::new(models),
        local_key: None,
        limits: RunLimits {
            steps: u32::try_from(agent.max_steps).unwrap_or(u32::MAX),
            calls: u32::try_from(agent.max_calls).unwrap_or(u32::MAX),
            tokens: agent.max_run_tokens,
            context_tokens: None,
        },
        daily_tokens: agent.daily_tokens,
        allows_personal_keys: agent.personal_keys,
        kept_for: agent.keep_conversations_days.map(|days| Duration::from_hours(24 * days)),
        allows_image_urls: agent.allow_image_urls,
        instructions: agent.instructions.clone().unwrap_or_default(),
        providers: loaded.providers.iter().map(|(name, provider)| (name.clone(), options(provider))).collect(),
    })
}

fn settings(provider: &config::Provider) -> ProviderSettings {
    ProviderSettings {
        url: provider.url.as_ref().map(|url| url.expose().to_owned()),
        api_key: provider.api_key.clone(),
        api: provider.api.map(|api| match api {
            config::Api::Chat => Api::Chat,
            config::Api::Responses => Api::Responses,
            config::Api::Messages => Api::Messages,
        }),
        api_version: provider.api_version.clone(),
    }
}
