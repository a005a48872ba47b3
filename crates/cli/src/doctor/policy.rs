//! Checks the policy rules for effect, as far as that is known without starting a server.

use super::report::{Check, Outcome};
use crate::output::plain;
use crate::policies::policy;
use crate::settings::load_for_servers;
use crate::wiring::{Purpose, rules_without_server, store, toolbox};
use coracle_engine::without_effect;
use coracle_types::UserId;
use serde_json::Map;
use std::path::Path;

/// Maximum length of a message in characters.
const MAX_MESSAGE: usize = 1_000;

pub(super) async fn examine(config: Option<&Path>) -> Vec<Check> {
    match without_effect_in(config).await {
        Ok(None) => Vec::new(),
        Ok(Some((rules, found))) if found.is_empty() => {
            let detail = if rules == 1 { "1 rule".to_owned() } else { format!("{rules} rules") };
            vec![Check::new("rules", Outcome::Ok, detail)]
        }
        Ok(Some((_, found))) => {
            let check = |text: &String| Check::new("rules", Outcome::Weak, plain(text, MAX_MESSAGE));
            found.iter().map(check).collect()
        }
        Err(error) => {
            let detail = plain(&format!("cannot check the policy rules: {error:#}"), MAX_MESSAGE);
            vec![Check::new("rules", Outcome::Weak, detail)]
        }
    }
}

/// Returns the number of rules and a message for each one without effect; `None` if there are no rules.
async fn without_effect_in(config: Option<&Path>) -> anyhow::Result<Option<(usize, Vec<String>)>> {
    let loaded = load_for_servers(config, Vec::new())?;
    let policy = policy(&loaded)?;
    let rules = policy.rules();
    if rules.is_empty() {
        return Ok(None);
    }
    let mut found = rules_without_server(&loaded, rules);
    if !loaded.servers.is_empty() {
        let toolbox = toolbox(&loaded, store().await?, Map::new(), Purpose::Own)?;
        found.extend(toolbox.rules_without_effect(&UserId::local()).await.iter().map(without_effect));
    }
    Ok(Some((loaded.settings.policy.tools.len(), found)))
}
