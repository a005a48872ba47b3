//! Checks the policy rules for effect, as far as that is known without starting a server.

use super::report::{Check, Outcome};
use crate::flows::{flows, flows_without_server};
use crate::output::{counted, plain};
use crate::policies::policy;
use crate::settings::load_for_servers;
use crate::wiring::{Purpose, rules_without_server, store, toolbox};
use coracle_engine::without_effect;
use coracle_types::{ServerLabel, UserId};
use serde_json::Map;
use std::path::Path;

/// Maximum length of a message in characters.
const MAX_MESSAGE: usize = 1_000;

pub(super) async fn examine(config: Option<&Path>) -> Vec<Check> {
    let mut checks = rules_of_tools(config).await;
    checks.extend(flow_rules(config));
    checks.extend(network(config));
    checks
}

/// The rules for the network of code.
fn network(config: Option<&Path>) -> Option<Check> {
    let loaded = load_for_servers(config, Vec::new()).ok()?;
    let (outcome, detail) = match crate::network::network(&loaded) {
        Ok(_) => (Outcome::Ok, crate::network::summary(&loaded.settings)?),
        Err(error) => (Outcome::Weak, format!("{error:#}").replace("\nhint: ", "; ")),
    };
    Some(Check::new("network", outcome, plain(&detail, MAX_MESSAGE)))
}

/// The flow rules, and the labels that they depend on. Mistakes in the settings are reported with the other rules.
fn flow_rules(config: Option<&Path>) -> Vec<Check> {
    let Ok(loaded) = load_for_servers(config, Vec::new()) else { return Vec::new() };
    let flows = match flows(&loaded) {
        Ok(flows) => flows,
        Err(error) => {
            let detail = plain(&format!("{error:#}").replace("\nhint: ", "; "), MAX_MESSAGE);
            return vec![Check::new("flow rules", Outcome::Weak, detail)];
        }
    };
    if !flows.is_active() {
        return Vec::new();
    }
    let weak = |text: String| Check::new("flow rules", Outcome::Weak, plain(&text, MAX_MESSAGE));
    let mut checks: Vec<Check> = flows_without_server(&flows).into_iter().map(weak).collect();
    let labelled = flows.labels().servers().filter(|(_, labels)| !labels.set().is_empty()).map(|(server, labels)| {
        let guessed = if labels.is_configured() { "" } else { ", guessed" };
        let labels: Vec<&str> = labels.set().into_iter().map(ServerLabel::as_str).collect();
        format!("{server} ({}{guessed})", labels.join(", "))
    });
    let rules = counted(flows.len(), "rule");
    let labelled: Vec<String> = labelled.collect();
    let labels = if labelled.is_empty() { "none".to_owned() } else { labelled.join(", ") };
    let detail = format!("{rules}; labels of servers: {labels}");
    checks.push(Check::new("flow rules", Outcome::Ok, plain(&detail, MAX_MESSAGE)));
    checks
}

async fn rules_of_tools(config: Option<&Path>) -> Vec<Check> {
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
