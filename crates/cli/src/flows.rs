//! Labels of servers and rules about the flow of data, as the settings have them.

use crate::status::Mistake;
use coracle_catalog::server_names;
use coracle_config::{Loaded, Trifecta};
use coracle_engine::NETWORK_SERVER;
use coracle_policy::{FlowLine, Flows, KnownServers, Labels, Naming, ServerLabels, Spellings};
use coracle_privacy::{Kind, token_label};
use coracle_types::{Decision, ServerName};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// The label of tokens for words and phrases of the settings.
pub(crate) const WORD_LABEL: &str = "WORD";

/// The labels of a server, configured or guessed.
pub(crate) fn labels_of(loaded: &Loaded, name: &str) -> Labels {
    let configured = loaded.settings.mcp_servers.get(name).and_then(|entry| entry.labels.as_deref());
    let spec = loaded.servers.iter().find(|spec| spec.name.as_str() == name);
    Labels::of(configured, spec, loaded.settings.policy.guess_labels)
}

/// The labels of all servers that are used.
pub(crate) fn labels(loaded: &Loaded) -> ServerLabels {
    let used = loaded.settings.mcp_servers.iter().filter(|(_, entry)| !entry.disabled);
    let labels = used.filter_map(|(name, _)| Some((ServerName::new(name.as_str()).ok()?, labels_of(loaded, name))));
    let network = ServerName::new(NETWORK_SERVER).ok().zip(crate::network::labels(&loaded.settings));
    ServerLabels::new(labels.chain(network).collect(), loaded.settings.policy.guess_labels)
}

/// The spellings of the names of all servers, also of those that are switched off, by name on the wire.
pub(crate) fn spellings(loaded: &Loaded) -> HashMap<String, Arc<Spellings>> {
    let network = crate::network::is_on(&loaded.settings).then_some(NETWORK_SERVER);
    let names = server_names(loaded.settings.mcp_servers.keys().map(String::as_str).chain(network));
    let names = names.iter().map(|name| Naming { wire: name.wire, plain: &name.plain, identifier: &name.identifier });
    Spellings::of_all(names)
}

/// The rules about the flow of data. An error in one of them is an error, with its place.
pub(crate) fn flows(loaded: &Loaded) -> anyhow::Result<Flows> {
    let policy = &loaded.settings.policy;
    let line = |(number, text): (usize, &String)| {
        let origin = loaded.origins.get(&format!("policy.flows[{number}]")).cloned().unwrap_or_default();
        FlowLine { text: text.clone(), origin: origin.to_string() }
    };
    let trifecta = match policy.trifecta {
        Trifecta::Ask => Some(Decision::Ask),
        Trifecta::Deny => Some(Decision::Deny),
        Trifecta::Off => None,
    };
    let known = KnownServers { labels: labels(loaded), names: spellings(loaded) };
    let lines = policy.flows.iter().enumerate().map(line).collect();
    Flows::new(lines, trifecta, known, &kinds(loaded)).map_err(|error| {
        let hint = error.hint();
        anyhow::Error::from(Mistake::new(format!("policy.flows: {error}"), hint))
    })
}

/// Messages about rules for servers that are not configured. Disabled servers count as configured.
pub(crate) fn flows_without_server(flows: &Flows) -> Vec<String> {
    let told = |(line, name): (FlowLine, String)| {
        let FlowLine { text, origin } = line;
        format!("{origin}: the flow rule {text:?} has no effect: no server {name} is configured")
    };
    flows.without_server().into_iter().map(told).collect()
}

/// The kinds of personal data that rules may name: those that are known, and the operator's own.
fn kinds(loaded: &Loaded) -> BTreeSet<String> {
    let known = Kind::table().iter().map(|info| info.label.to_owned());
    let own = loaded.settings.privacy.patterns.keys().map(|label| token_label(label));
    known.chain(own).chain([WORD_LABEL.to_owned()]).collect()
}
