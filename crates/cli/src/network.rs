//! The network of code, as the settings have it.

use crate::status::Mistake;
use coracle_config::{Loaded, NetworkCredential, Settings};
use coracle_egress::{Limits, Proxy};
use coracle_engine::{BoundCredential, NETWORK_SERVER, Network, NetworkConfig, NetworkError};
use coracle_policy::{Groups, Labels};
use coracle_types::{ServerLabel, UserId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The rule for every public host, if network access is allowed without rules.
const EVERYTHING: &str = "*";

/// Port of a credential without one.
const HTTPS: u16 = 443;

/// The rules of the settings for the code of every user. `None` if code has no network.
fn allowed(settings: &Settings) -> Option<Vec<String>> {
    match &settings.network.allow {
        Some(rules) => Some(rules.clone()),
        None => settings.execution.allow_network_access.then(|| vec![EVERYTHING.to_owned()]),
    }
}

/// Whether the code of anybody may reach anything.
pub(crate) fn is_on(settings: &Settings) -> bool {
    let users = &settings.network.users;
    allowed(settings).is_some_and(|rules| !rules.is_empty() || users.values().any(|rules| !rules.is_empty()))
}

/// Labels of the server `network`, if code has a network.
pub(crate) fn labels(settings: &Settings) -> Option<Labels> {
    let usual = || vec![ServerLabel::Untrusted, ServerLabel::Exfil];
    let labels = settings.network.labels.clone().unwrap_or_else(usual);
    is_on(settings).then(|| Labels::Configured(labels.into_iter().collect()))
}

/// The network of the settings, if code has one. A mistake in them is an error with its place.
pub(crate) fn network(loaded: &Loaded) -> anyhow::Result<Option<Arc<Network>>> {
    let settings = &loaded.settings;
    let Some(allow) = allowed(settings) else { return Ok(None) };
    if settings.mcp_servers.iter().any(|(name, _)| name == NETWORK_SERVER) {
        let message = placed(loaded, "mcpServers.network", "`mcpServers.network`: requests of code have this name");
        return Err(Mistake::new(message, Some("rename the server, or turn network access off")).into());
    }
    let policy = &settings.policy;
    let config = NetworkConfig {
        allow,
        users: settings.network.users.clone(),
        groups: Groups::new(&policy.groups)
            .map_err(|error| Mistake::new(format!("policy.groups: {error}"), None::<&str>))?,
        private_addresses: settings.network.private_addresses.clone(),
        credentials: loaded.network_credentials.iter().map(|one| credential(loaded, one)).collect::<Result<_, _>>()?,
    };
    let proxy = Proxy::new(Limits::default())?;
    let network = Network::new(proxy, config).map_err(|error| mistake(loaded, &error))?;
    Ok(Some(Arc::new(network)))
}

fn credential(loaded: &Loaded, set: &NetworkCredential) -> anyhow::Result<BoundCredential> {
    let NetworkCredential { host, port, methods, header, value, user, shared: _ } = set;
    let user = user.as_ref().map(|user| {
        let wrong = format!("network.credentials: {user:?} is not a user name");
        UserId::new(user.to_lowercase())
            .map_err(|_| Mistake::new(placed(loaded, "network.credentials", &wrong), None::<&str>))
    });
    Ok(BoundCredential {
        host: host.clone(),
        port: port.map_or(HTTPS, |port| u16::try_from(port).unwrap_or(HTTPS)),
        methods: methods.clone(),
        header: header.clone(),
        value: value.clone(),
        user: user.transpose()?,
    })
}

fn mistake(loaded: &Loaded, error: &NetworkError) -> anyhow::Error {
    // The rules of one user are in the map of all.
    let key = if error.key().starts_with("network.users") { "network.users" } else { error.key() };
    Mistake::new(placed(loaded, key, &error.to_string()), Some(error.hint())).into()
}

/// A message with the place of a setting, if it has one.
fn placed(loaded: &Loaded, key: &str, message: &str) -> String {
    match loaded.origins.get(key) {
        Some(origin) => format!("{origin}: {message}"),
        None => message.to_owned(),
    }
}

/// Says that code reaches every public host because no rules are set.
pub(crate) fn announce(settings: &Settings) {
    if settings.network.allow.is_none() && settings.execution.allow_network_access {
        tracing::warn!("code can reach every public host: execution.allow_network_access is set without network.allow");
    }
}

/// The rules in one line, for `coracle doctor`. `None` if code has no network.
pub(crate) fn summary(settings: &Settings) -> Option<String> {
    let rules = allowed(settings).filter(|_| is_on(settings))?;
    let mut parts = vec![format!("everybody: {}", listed(&rules))];
    let of_user = |(name, rules): (&String, &Vec<String>)| format!("{name}: {}", listed(rules));
    parts.extend(by_name(&settings.network.users).map(of_user));
    let private = &settings.network.private_addresses;
    if !private.is_empty() {
        parts.push(format!("may be private: {}", listed(private)));
    }
    let credentials = settings.network.credentials.len();
    if credentials > 0 {
        parts.push(format!("credentials: {credentials}"));
    }
    Some(parts.join("; "))
}

fn by_name(users: &BTreeMap<String, Vec<String>>) -> impl Iterator<Item = (&String, &Vec<String>)> {
    users.iter().filter(|(_, rules)| !rules.is_empty())
}

fn listed(rules: &[String]) -> String {
    if rules.is_empty() { "nothing".to_owned() } else { rules.join(", ") }
}
