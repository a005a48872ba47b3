//! Model servers on this machine, for users who have configured none.

use super::owner;
use crate::output::plain;
use coracle_config::Loaded;
use coracle_models::{FoundServer, LOCAL_SERVERS, LocalServer, find_servers};
use coracle_types::Secret;
use std::fmt::Write as _;
use url::{Host, Url};

/// Number of models of one server that are named in a message.
const SHOWN_MODELS: usize = 5;
/// Maximum length of a name in a message, in characters.
const MAX_NAME: usize = 128;

/// The model servers that were found.
#[derive(Debug, Default)]
pub(crate) struct Local {
    found: Vec<FoundServer>,
}

impl Local {
    /// Looks for model servers on this machine and adds them to the providers. Does nothing if the settings have a
    /// model or a provider of another kind, or forbid it.
    pub(crate) async fn find(loaded: &mut Loaded) -> Self {
        let has_model = loaded.default_model().is_some() && !loaded.providers.is_empty();
        let has_other = !loaded.providers.keys().all(|name| is_local(name));
        if has_model || has_other || !loaded.settings.agent.find_local_servers {
            return Self::default();
        }
        let place = |server: LocalServer| {
            let configured = loaded.providers.get(server.provider).and_then(|provider| provider.url.as_ref());
            let url = configured.map_or_else(|| server.usual_url().to_owned(), |url| url.expose().to_owned());
            let port = loopback_port(&url)?;
            if configured.is_none() && owner::is_anothers(port) {
                tracing::info!(port, "a model server of another user is not used");
                return None;
            }
            Some((server, url))
        };
        let found = find_servers(LOCAL_SERVERS.into_iter().filter_map(place).collect()).await;
        for server in &found {
            let entry = loaded.providers.entry(server.server.provider.to_owned()).or_default();
            entry.url.get_or_insert_with(|| Secret::new(server.url.as_str()));
        }
        Self { found }
    }

    /// The only model of the only server, if there is exactly one.
    pub(crate) fn only_model(&self) -> Option<String> {
        match self.found.as_slice() {
            [server] if server.models.len() == 1 => Some(full_name(server, &server.models[0])),
            _ => None,
        }
    }

    /// The name of some model.
    pub(crate) fn example(&self) -> Option<String> {
        self.found.first().and_then(|server| Some(full_name(server, server.models.first()?)))
    }

    /// One line about each server: where it is, and which models it has.
    pub(crate) fn descriptions(&self) -> Vec<String> {
        let described = |server: &FoundServer| {
            let names: Vec<String> =
                server.models.iter().take(SHOWN_MODELS).map(|name| full_name(server, name)).collect();
            let mut text = format!("{} at {} has {}", server.server.title, place(&server.url), names.join(", "));
            if server.models.len() > SHOWN_MODELS {
                // Writing to a string cannot fail.
                let _ = write!(text, " and {} more", server.models.len() - SHOWN_MODELS);
            }
            text
        };
        self.found.iter().map(described).collect()
    }
}

/// Adds the provider of a model that names a local one, such as `ollama/qwen3`, at its usual address.
pub(crate) fn add_named(loaded: &mut Loaded, model: Option<&str>) {
    let provider = model.and_then(|model| model.trim().split_once('/')).map(|(provider, _)| provider);
    if let Some(provider) = provider.filter(|provider| is_local(provider)) {
        loaded.providers.entry(provider.to_owned()).or_default();
    }
}

fn is_local(provider: &str) -> bool {
    LOCAL_SERVERS.iter().any(|server| server.provider == provider)
}

fn full_name(server: &FoundServer, model: &str) -> String {
    plain(&format!("{}/{model}", server.server.provider), MAX_NAME)
}

/// Host and port of a base URL.
fn place(url: &str) -> String {
    let url = Url::parse(url).ok();
    let place = url.and_then(|url| Some(format!("{}:{}", url.host_str()?, url.port_or_known_default()?)));
    plain(&place.unwrap_or_default(), MAX_NAME)
}

/// The port of a URL on the loopback interface.
fn loopback_port(url: &str) -> Option<u16> {
    let url = Url::parse(url).ok()?;
    let is_loopback = match url.host()? {
        Host::Domain(name) => name == "localhost",
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(address) => address.is_loopback(),
    };
    url.port_or_known_default().filter(|_| is_loopback)
}
