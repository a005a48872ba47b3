//! Which model a command uses.

use crate::models::{self, Local};
use crate::output::plain;
use crate::status::Mistake;
use coracle_config::Loaded;
use coracle_models::{ChoiceError, ChosenModel};
use coracle_server::AgentOptions;

/// Maximum length of a model's name in a message, in characters.
const MAX_MODEL: usize = 128;

/// A model, with the options of the agent.
pub(crate) struct Choice {
    pub(crate) options: AgentOptions,
    pub(crate) chosen: ChosenModel,
}

/// Chooses the model: the one that is named or configured, or else the only one on this machine.
pub(crate) async fn choose(loaded: &mut Loaded, named: Option<&str>) -> anyhow::Result<Choice> {
    let model = named.map(str::to_owned).or_else(|| loaded.default_model());
    models::add_named(loaded, model.as_deref());
    let options = models::agent_options(loaded)?;
    let error = match options.models.find(named) {
        Ok(chosen) => return Ok(Choice { options, chosen }),
        Err(error @ ChoiceError::NoKey { .. }) => return Err(Mistake::new(&error, Some(error.hint())).into()),
        Err(error) => error,
    };
    let local = Local::find(loaded).await;
    let options = models::agent_options(loaded)?;
    let only = local.only_model().filter(|_| model.is_none());
    match options.models.find(only.as_deref().or(named)) {
        Ok(chosen) => {
            for line in local.descriptions() {
                eprintln!("coracle: {line} (found on this machine); using {}", plain(&chosen.name(), MAX_MODEL));
            }
            Ok(Choice { options, chosen })
        }
        Err(_) => Err(no_model(&error, &local).into()),
    }
}

/// The error without a usable model, with what could be used.
fn no_model(error: &ChoiceError, local: &Local) -> Mistake {
    let hint = if let Some(example) = local.example() {
        format!("{}: choose one, such as --model {example}", local.descriptions().join("; "))
    } else {
        format!("{}; or start Ollama, LM Studio or llama.cpp on this machine", error.hint())
    };
    Mistake::new(error, Some(hint))
}
