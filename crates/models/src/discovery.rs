//! Finds model servers that run on this machine.
//!
//! Any program may listen on the usual ports, so an answer counts only if it is a list of models.

use crate::directory::known_url;
use crate::endpoint::{Endpoint, EndpointSettings};
use futures::future::join_all;
use serde_json::Value;
use std::time::Duration;

/// Maximum time to wait for a server. All servers are asked at once.
const TIME: Duration = Duration::from_secs(1);
/// Maximum size of a list of models.
const MAX_LIST_BYTES: usize = 1 << 20;
/// Maximum number of models of one server.
const MAX_MODELS: usize = 100;
/// Maximum length of a model's name in characters.
const MAX_NAME: usize = 128;

/// A program that serves models on this machine, and needs no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalServer {
    /// Name of the provider in the settings.
    pub provider: &'static str,
    /// Name of the program.
    pub title: &'static str,
}

/// The programs that are looked for.
pub const LOCAL_SERVERS: [LocalServer; 3] = [
    LocalServer { provider: OLLAMA, title: "Ollama" },
    LocalServer { provider: "lmstudio", title: "LM Studio" },
    LocalServer { provider: "llamacpp", title: "llama.cpp" },
];

const OLLAMA: &str = "ollama";

impl LocalServer {
    /// The usual base URL, on the loopback interface.
    pub fn usual_url(&self) -> &'static str {
        known_url(self.provider).unwrap_or_default()
    }

    /// The models of the server at this base URL that can chat and run on this machine, if it is such a server and has
    /// any. Sends one request, without credentials.
    pub async fn models(&self, url: &str) -> Vec<String> {
        let Ok(found) = tokio::time::timeout(TIME, self.list(url)).await else { return Vec::new() };
        let is_plain = |name: &&str| {
            !name.is_empty() && name.chars().count() <= MAX_NAME && !name.chars().any(|c| c.is_control() || c == ' ')
        };
        let found = found.unwrap_or_default();
        let names = if self.provider == OLLAMA { ollama_names(&found) } else { openai_names(&found) };
        names.into_iter().filter(is_plain).take(MAX_MODELS).map(str::to_owned).collect()
    }

    async fn list(&self, url: &str) -> Option<Value> {
        // Ollama's own list tells which models only forward to another machine.
        let (base, path) = match url.trim_end_matches('/').strip_suffix("/v1").filter(|_| self.provider == OLLAMA) {
            Some(root) => (root, "api/tags"),
            None => (url, "models"),
        };
        let endpoint = Endpoint::new(&EndpointSettings { url: base.to_owned(), ..EndpointSettings::default() }).ok()?;
        match endpoint.get_at_most(path, MAX_LIST_BYTES).await {
            Ok(list) => Some(list),
            Err(error) => {
                tracing::debug!(%error, provider = self.provider, "no model server");
                None
            }
        }
    }
}

/// A model server that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundServer {
    /// The program.
    pub server: LocalServer,
    /// The base URL.
    pub url: String,
    /// The names of its models, at least one.
    pub models: Vec<String>,
}

/// Asks servers at these base URLs for their models, all at once. Leaves out those without any.
pub async fn find_servers(places: Vec<(LocalServer, String)>) -> Vec<FoundServer> {
    let asked = places.into_iter().map(|(server, url)| async move {
        let models = server.models(&url).await;
        FoundServer { server, url, models }
    });
    join_all(asked).await.into_iter().filter(|found| !found.models.is_empty()).collect()
}

/// The names in a list in OpenAI's form.
fn openai_names(list: &Value) -> Vec<&str> {
    let models = list.get("data").and_then(Value::as_array).filter(|_| list["object"] == "list");
    let models = models.map(Vec::as_slice).unwrap_or_default();
    let names = models.iter().filter(|model| model["object"] == "model").filter_map(|model| model["id"].as_str());
    names.filter(|name| !is_embedder(name)).collect()
}

/// The names in Ollama's list, without models that run elsewhere.
fn ollama_names(list: &Value) -> Vec<&str> {
    let models = list.get("models").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let is_set = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
    let is_here = |model: &&Value| !is_set(&model["remote_host"]) && !is_set(&model["remote_model"]);
    let is_chat = |model: &&Value| !model["details"]["family"].as_str().is_some_and(|family| family.ends_with("bert"));
    let names = models.iter().filter(is_here).filter(is_chat).filter_map(|model| model["name"].as_str());
    names.filter(|name| !is_embedder(name)).collect()
}

/// Whether a model makes vectors of texts. LM Studio brings one along.
fn is_embedder(name: &str) -> bool {
    name.to_lowercase().contains("embed")
}
