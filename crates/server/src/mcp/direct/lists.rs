//! Items that the gateway forwards, and their servers.

use super::super::definitions;
use crate::mcp::Frontend;
use coracle_types::ServerName;
use coracle_upstream::{ServerState, ServerStatus, UpstreamError};
use futures::future::join_all;
use rmcp::ErrorData;
use rmcp::model::{ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, Tool};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

/// Member of a schema that also sends an argument as an HTTP header.
const HEADER: &str = "x-mcp-header";

/// Named item of a server.
pub(super) struct Named {
    /// Name for clients.
    pub(super) name: String,
    pub(super) server: ServerName,
    /// Name on the server.
    pub(super) wire: String,
    definition: Value,
}

/// Removes characters that are invisible or change how others are displayed.
fn visible(text: &str) -> String {
    text.chars().filter(|c| matches!(c, '\n' | '\t') || !coracle_types::is_hidden(*c)).collect()
}

/// Cleans the texts of a definition that people read.
fn clean_words(definition: &mut Value) {
    for path in ["/title", "/description", "/annotations/title"] {
        if let Some(Value::String(text)) = definition.pointer_mut(path)
            && text.chars().any(coracle_types::is_hidden)
        {
            *text = visible(text);
        }
    }
}

/// Keeps names except for hidden characters. A name that two servers share is prefixed with the server.
fn named(of_servers: Vec<(ServerName, Vec<Value>)>) -> Vec<Named> {
    let all: Vec<(ServerName, String, String, Value)> = of_servers
        .into_iter()
        .flat_map(|(server, items)| {
            items.into_iter().filter_map(move |item| {
                let wire = item.get("name")?.as_str()?.to_owned();
                let name = visible(&wire);
                (!name.is_empty()).then(|| (server.clone(), name, wire, item))
            })
        })
        .collect();
    let mut counts: HashMap<String, usize> = HashMap::new();
    for (_, name, ..) in &all {
        *counts.entry(name.clone()).or_default() += 1;
    }
    let mut taken = HashSet::new();
    all.into_iter()
        .filter_map(|(server, own, wire, mut definition)| {
            let name = match counts.get(&own) {
                Some(1) => own,
                _ => format!("{server}_{own}"),
            };
            // If a server uses the prefixed name of another, the first one is kept.
            if !taken.insert(name.clone()) {
                tracing::warn!(%server, name, "two servers offer this name: the later one is ignored");
                return None;
            }
            definition["name"] = Value::from(name.as_str());
            clean_words(&mut definition);
            Some(Named { name, server, wire, definition })
        })
        .collect()
}

/// The tools some of whose arguments are to be headers of HTTP as well.
fn headed(tools: &[Named]) -> HashMap<String, Tool> {
    let headed = tools.iter().filter(|tool| mentions(&tool.definition["inputSchema"], HEADER));
    headed.filter_map(|tool| Some((tool.name.clone(), understood(tool.definition.clone(), &tool.server)?))).collect()
}

/// Whether a value has such a member at any depth.
fn mentions(value: &Value, member: &str) -> bool {
    match value {
        Value::Object(members) => members.iter().any(|(name, value)| name == member || mentions(value, member)),
        Value::Array(items) => items.iter().any(|item| mentions(item, member)),
        _ => false,
    }
}

impl Frontend {
    /// Asks all servers in parallel. Servers that fail or start slowly are skipped and logged; clients are notified
    /// when a slow one is ready.
    async fn of_all<T, F>(&self, what: &str, ask: impl Fn(ServerName) -> F) -> Vec<(ServerName, T)>
    where
        F: Future<Output = Result<T, UpstreamError>>,
    {
        let asked = self.servers().into_iter().map(|server| {
            let asked = ask(server.clone());
            let patience = self.toolbox().map(|toolbox| toolbox.patience(&self.user(), &server)).unwrap_or_default();
            async move {
                let answer = self.in_time(&server, patience, asked).await;
                (server, answer)
            }
        });
        let mut answered = Vec::new();
        for (server, answer) in join_all(asked).await {
            match answer {
                Some(Ok(answer)) => answered.push((server, answer)),
                Some(Err(error)) => tracing::warn!(%server, %error, "cannot list its {what}"),
                None => tracing::warn!(%server, "the server is still starting: its {what} are not listed yet"),
            }
        }
        answered
    }

    /// Waits for an answer, but no longer than `patience` for a server that is starting.
    async fn in_time<T>(&self, server: &ServerName, patience: Duration, answer: impl Future<Output = T>) -> Option<T> {
        tokio::pin!(answer);
        if let Ok(answer) = tokio::time::timeout(patience, &mut answer).await {
            return Some(answer);
        }
        let toolbox = Arc::clone(self.toolbox()?);
        let is_starting = |status: &ServerStatus| status.name == *server && status.state == ServerState::Starting;
        if !toolbox.upstream().status(&self.user()).iter().any(is_starting) {
            return Some(answer.await);
        }
        let (user, server) = (self.user(), server.clone());
        tokio::spawn(async move {
            if let (Ok(_), Some(upstream)) = (toolbox.refresh(&user, &server).await, toolbox.upstream().passes_on()) {
                upstream.announce(&user, &server);
            }
        });
        None
    }

    pub(super) async fn named_tools(&self) -> Vec<Named> {
        let Some(toolbox) = self.toolbox() else { return Vec::new() };
        let user = self.user();
        let lists = self
            .of_all("tools", |server| {
                let user = &user;
                async move { toolbox.refresh(user, &server).await.map(|list| list.definitions().collect()) }
            })
            .await;
        toolbox.report_rules();
        let wanted = self.options.tools.as_deref();
        let is_wanted = |tool: &Named| wanted.is_none_or(|wanted| wanted.contains(&tool.name));
        let tools: Vec<Named> = named(lists).into_iter().filter(is_wanted).collect();
        self.headed.replace(headed(&tools));
        tools
    }

    pub(super) async fn named_prompts(&self) -> Vec<Named> {
        let Ok(upstream) = self.upstream() else { return Vec::new() };
        let user = self.user();
        let ask = |server: ServerName| {
            let user = &user;
            async move { upstream.prompts(user, &server).await }
        };
        named(self.of_all("prompts", ask).await)
    }

    pub(crate) async fn passed_on_tools(&self) -> Vec<Tool> {
        let own: Vec<&str> = definitions::names();
        let shown = self.tools();
        let tools = self.named_tools().await;
        let others = tools
            .into_iter()
            .filter(|tool| !(own.contains(&tool.name.as_str()) && shown.contains(&tool.name.as_str())));
        others.filter_map(|tool| understood(tool.definition, &tool.server)).collect()
    }

    pub(crate) async fn passed_on_prompts(&self) -> Result<ListPromptsResult, ErrorData> {
        let prompts = self.named_prompts().await;
        let prompts = prompts.into_iter().filter_map(|prompt| understood(prompt.definition, &prompt.server));
        Ok(ListPromptsResult::with_all_items(prompts.collect()))
    }

    pub(crate) async fn passed_on_resources(&self) -> Result<ListResourcesResult, ErrorData> {
        let (upstream, user) = (self.upstream()?, self.user());
        let ask = |server: ServerName| {
            let user = &user;
            async move { upstream.resources(user, &server).await }
        };
        let resources = flat(self.of_all("resources", ask).await);
        Ok(ListResourcesResult::with_all_items(resources))
    }

    pub(crate) async fn passed_on_templates(&self) -> Result<ListResourceTemplatesResult, ErrorData> {
        let (upstream, user) = (self.upstream()?, self.user());
        let ask = |server: ServerName| {
            let user = &user;
            async move { upstream.resource_templates(user, &server).await }
        };
        let templates = flat(self.of_all("templates of resources", ask).await);
        Ok(ListResourceTemplatesResult::with_all_items(templates))
    }

    /// Servers that may have this resource: those that list it, or else all with resources.
    pub(super) async fn holders(&self, uri: &str) -> Vec<ServerName> {
        let Ok(upstream) = self.upstream() else { return Vec::new() };
        let user = self.user();
        let offering = self
            .of_all("resources", |server| {
                let user = &user;
                async move { upstream.info(user, &server).await }
            })
            .await;
        let offering: Vec<ServerName> =
            offering.into_iter().filter(|(_, info)| info.offers.resources).map(|(server, _)| server).collect();
        if offering.len() < 2 {
            return offering;
        }
        let mut listing = Vec::new();
        for server in &offering {
            let lists = upstream.resources(&user, server).await.unwrap_or_default();
            if lists.iter().any(|resource| resource.get("uri").and_then(Value::as_str) == Some(uri)) {
                listing.push(server.clone());
            }
        }
        if listing.is_empty() { offering } else { listing }
    }
}

fn flat<T: DeserializeOwned>(of_servers: Vec<(ServerName, Vec<Value>)>) -> Vec<T> {
    let items =
        of_servers.into_iter().flat_map(|(server, items)| items.into_iter().map(move |item| (server.clone(), item)));
    items.filter_map(|(server, item)| understood(item, &server)).collect()
}

fn understood<T: DeserializeOwned>(item: Value, server: &ServerName) -> Option<T> {
    serde_json::from_value(item)
        .inspect_err(|error| tracing::warn!(%server, %error, "a malformed item is ignored"))
        .ok()
}

#[cfg(test)]
mod tests {
    use super::named;
    use coracle_types::ServerName;
    use serde_json::json;

    #[test]
    fn names_stay_unless_two_servers_share_them() {
        let server = |name: &str| ServerName::new(name).unwrap();
        let tool = |name: &str| json!({ "name": name, "x": 1 });
        let all = named(vec![
            (server("a"), vec![tool("read"), tool("only_a"), json!({ "nameless": 1 })]),
            (server("b"), vec![tool("read"), tool("a_read")]),
        ]);
        let names: Vec<(&str, &str, &str)> =
            all.iter().map(|tool| (tool.name.as_str(), tool.server.as_str(), tool.wire.as_str())).collect();
        // A tool of b with the prefixed name of a's tool does not replace it.
        assert_eq!(names, [("a_read", "a", "read"), ("only_a", "a", "only_a"), ("b_read", "b", "read")]);
        assert_eq!(all[0].definition, json!({ "name": "a_read", "x": 1 }));
    }
}
