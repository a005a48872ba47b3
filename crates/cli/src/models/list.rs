use super::{Local, add_named, agent_options};
use crate::output::{json, plain};
use crate::settings::load;
use crate::status::Status;
use crate::wiring::cancellable;
use clap::Args;
use coracle_config::Loaded;
use coracle_models::{ChoiceError, ModelProvider};
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// Maximum time to wait for the list of a provider.
const TIME: Duration = Duration::from_secs(15);
/// Maximum length of a name or a reason, in characters.
const MAX_TEXT: usize = 300;

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ModelsArguments {
    /// Print JSON instead of one name per line.
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "\
Examples:
  coracle models           list the names that --model, agent.default_model and requests to /v1 can use
  coracle models --json    the same with the providers, and the default model

Without a configured provider, Ollama, LM Studio and llama.cpp are looked for on this machine.";

/// The models of one provider.
struct Listed {
    provider: String,
    models: Result<Vec<String>, String>,
}

pub(crate) fn run(arguments: &ModelsArguments, config: Option<&Path>) -> anyhow::Result<Status> {
    let mut loaded = load(config, Vec::new())?;
    let default = loaded.default_model();
    add_named(&mut loaded, default.as_deref());
    let (listed, local) = cancellable(async {
        let local = Local::find(&mut loaded).await;
        Ok((list(&loaded).await?, local))
    })?;
    for line in local.descriptions() {
        eprintln!("coracle: {line} (found on this machine)");
    }
    for Listed { provider, models } in &listed {
        if let Err(reason) = models {
            eprintln!("warning: cannot list the models of {provider}: {}", plain(reason, MAX_TEXT));
        }
    }
    if listed.is_empty() {
        eprintln!("error: no model can be used\nhint: {}", hint());
        return Ok(Status::Failed);
    }
    let models = listed.iter().filter_map(|listed| Some((&listed.provider, listed.models.as_ref().ok()?)));
    let names = models.flat_map(|(provider, models)| models.iter().map(move |model| (provider, model)));
    let text = if arguments.json {
        let models: Vec<Value> = names
            .map(|(provider, model)| json!({ "name": format!("{provider}/{model}"), "provider": provider }))
            .collect();
        json(&json!({ "default": default, "models": models }))?
    } else {
        names.map(|(provider, model)| plain(&format!("{provider}/{model}"), MAX_TEXT) + "\n").collect()
    };
    std::io::stdout().write_all(text.as_bytes())?;
    let is_failed = listed.iter().all(|listed| listed.models.is_err());
    Ok(if is_failed { Status::Failed } else { Status::Success })
}

/// How to get a model.
fn hint() -> String {
    let hint = ChoiceError::NoModel.hint();
    format!("{hint}; or start Ollama, LM Studio or llama.cpp on this machine")
}

/// The models of all providers, which are asked at once unless the settings name their models.
async fn list(loaded: &Loaded) -> anyhow::Result<Vec<Listed>> {
    let agent = agent_options(loaded)?;
    let mut asked = JoinSet::new();
    for (name, provider) in agent.models.providers() {
        let offered = agent.providers.get(name).map(|options| options.models.clone()).unwrap_or_default();
        let (provider, client) = (name.clone(), Arc::clone(provider));
        asked.spawn(async move {
            let models = if offered.is_empty() { ask(&*client).await } else { Ok(offered) };
            Listed { provider, models }
        });
    }
    let mut listed = asked.join_all().await;
    listed.sort_by(|a, b| a.provider.cmp(&b.provider));
    Ok(listed)
}

async fn ask(client: &dyn ModelProvider) -> Result<Vec<String>, String> {
    match tokio::time::timeout(TIME, client.models()).await {
        Ok(models) => models.map_err(|error| error.to_string()),
        Err(_) => Err(format!("no answer within {} seconds", TIME.as_secs())),
    }
}
