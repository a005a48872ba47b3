//! Which tools there are, for whoever is about to write code.

use super::{arguments, refusal, structured};
use crate::face::Face;
use coracle_catalog::{Catalog, Entry, Level};
use coracle_engine::Inventory;
use coracle_upstream::ServerState;
use rmcp::model::{CallToolRequestParams, CallToolResult};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::fmt::Write as _;

/// No search gives more.
const MAX_LIMIT: usize = 100;
const DEFAULT_LIMIT: usize = 10;
/// Of the reason why a server is not there so much is told.
const MAX_REASON: usize = 300;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Search {
    #[serde(default)]
    query: String,
    #[serde(default)]
    category: Option<String>,
    #[serde(default)]
    detail_level: Option<String>,
    #[serde(default)]
    limit: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Definition {
    tool_name: String,
    #[serde(default)]
    category: Option<String>,
    #[serde(default)]
    detail_level: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfServer {
    server_name: String,
    #[serde(default)]
    detail_level: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfCategory {
    #[serde(default)]
    category: Option<String>,
}

fn level(name: Option<&String>, default: Level) -> Result<Level, String> {
    name.map_or(Ok(default), |name| name.parse::<Level>().map_err(|error| error.to_string()))
}

pub(crate) async fn search_tools(face: &Face, request: &CallToolRequestParams) -> Result<CallToolResult, String> {
    let Search { query, category, detail_level, limit } = arguments(request)?;
    let level = level(detail_level.as_ref(), Level::Summary)?;
    let inventory = inventory(face).await?;
    let limit = limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT);
    let hits = inventory.catalog.search(&query, category.as_deref(), limit);
    let tools: Vec<Value> = hits.iter().map(|hit| told(&inventory.catalog, hit.entry, level)).collect();
    let mut text = String::new();
    for hit in &hits {
        let entry = hit.entry;
        let shown = inventory.catalog.show(&entry.server, &entry.name, level).unwrap_or_default();
        let _ = writeln!(text, "{}", shown.trim_end());
    }
    if hits.is_empty() {
        let among = category.as_ref().map(|category| format!(" of {category}")).unwrap_or_default();
        let _ = writeln!(text, "none of the {} tools{among} fits; an empty query lists them", inventory.catalog.len());
    }
    text.push_str(&missing(&inventory));
    let all = json!({
        "query": query, "category": category, "detail_level": level.as_str(), "count": tools.len(), "tools": tools,
    });
    Ok(structured(&text, all))
}

pub(crate) async fn get_tool_definition(
    face: &Face,
    request: &CallToolRequestParams,
) -> Result<CallToolResult, String> {
    let Definition { tool_name, category, detail_level } = arguments(request)?;
    let level = level(detail_level.as_ref(), Level::Python)?;
    let inventory = inventory(face).await?;
    let catalog = &inventory.catalog;
    let wanted = tool_name.strip_prefix("servers.").unwrap_or(&tool_name);
    let (server, tool) = match (wanted.split_once(['.', '/']), &category) {
        (Some((server, tool)), _) => (server.to_owned(), tool.to_owned()),
        (None, Some(server)) => (server.clone(), wanted.to_owned()),
        (None, None) => {
            let mut of_all = catalog.entries().filter(|(entry, _)| entry.name == wanted || entry.function == wanted);
            match (of_all.next(), of_all.next()) {
                (Some((entry, _)), None) => (entry.server.clone(), entry.name.clone()),
                (Some((one, _)), Some((other, _))) => {
                    return Err(format!(
                        "more than one server has a tool {wanted}: say {}.{} or {}.{}",
                        one.package, one.function, other.package, other.function
                    ));
                }
                (None, _) => (String::new(), wanted.to_owned()),
            }
        }
    };
    let Some((entry, _)) = catalog.find(&server, &tool) else {
        let similar = catalog.similar(&server, &tool);
        let near = if similar.is_empty() {
            "find it with search_tools".to_owned()
        } else {
            format!("did you mean {}?", similar.join(", "))
        };
        return Err(format!("there is no tool {tool_name:?}; {near}{}", missing(&inventory)));
    };
    let shown = catalog.show(&entry.server, &entry.name, level).unwrap_or_default();
    Ok(structured(&shown, told(catalog, entry, level)))
}

pub(crate) async fn list_tool_categories(face: &Face) -> Result<CallToolResult, String> {
    let inventory = inventory(face).await?;
    let servers = inventory.catalog.servers();
    let categories: Vec<Value> = servers
        .iter()
        .map(|server| json!({ "name": server.name.as_str(), "description": server.description, "tools": server.tools.len() }))
        .collect();
    let text = servers.iter().fold(String::new(), |mut text, server| {
        let _ = writeln!(text, "{}: {} tools", server.name, server.tools.len());
        text
    });
    Ok(structured(&(text + &missing(&inventory)), json!({ "count": categories.len(), "categories": categories })))
}

pub(crate) async fn list_available_tools(
    face: &Face,
    request: &CallToolRequestParams,
) -> Result<CallToolResult, String> {
    let OfCategory { category } = arguments(request)?;
    let inventory = inventory(face).await?;
    let hits = inventory.catalog.search("", category.as_deref(), usize::MAX);
    let tools: Vec<Value> = hits.iter().map(|hit| told(&inventory.catalog, hit.entry, Level::Summary)).collect();
    let text = hits.iter().fold(String::new(), |mut text, hit| {
        let _ = writeln!(text, "{}.{}: {}", hit.entry.package, hit.entry.function, hit.entry.summary);
        text
    });
    Ok(structured(&(text + &missing(&inventory)), json!({ "count": tools.len(), "tools": tools })))
}

pub(crate) async fn list_servers(face: &Face) -> Result<CallToolResult, String> {
    let inventory = inventory(face).await?;
    let states: Map<String, Value> = face
        .toolbox()
        .map(|toolbox| toolbox.upstream().status(&face.user()))
        .unwrap_or_default()
        .iter()
        .map(|status| (status.name.to_string(), Value::from(state(&status.state))))
        .collect();
    let mut servers: Vec<Value> = inventory
        .catalog
        .servers()
        .iter()
        .map(|server| {
            let name = server.name.as_str();
            json!({
                "name": name, "description": server.description, "tools": server.tools.len(),
                "state": states.get(name).cloned().unwrap_or_else(|| "idle".into()),
            })
        })
        .collect();
    servers.extend(inventory.missing.iter().map(
        |(name, reason)| json!({ "name": name.as_str(), "tools": 0, "state": "failed", "reason": short(reason) }),
    ));
    let text = servers.iter().fold(String::new(), |mut text, server| {
        let reason = server["reason"].as_str().map(|reason| format!(": {reason}")).unwrap_or_default();
        let (name, state) = (server["name"].as_str().unwrap_or_default(), server["state"].as_str().unwrap_or_default());
        let _ = writeln!(text, "{name}: {} tools, {state}{reason}", server["tools"]);
        text
    });
    Ok(structured(&text, json!({ "count": servers.len(), "servers": servers })))
}

pub(crate) async fn get_server_tools(face: &Face, request: &CallToolRequestParams) -> Result<CallToolResult, String> {
    let OfServer { server_name, detail_level } = arguments(request)?;
    let level = level(detail_level.as_ref(), Level::Summary)?;
    let inventory = inventory(face).await?;
    let catalog = &inventory.catalog;
    let hits = catalog.search("", Some(&server_name), usize::MAX);
    if hits.is_empty() {
        let there: Vec<&str> = catalog.servers().iter().map(|server| server.name.as_str()).collect();
        let known = inventory.missing.iter().find(|(name, _)| name.as_str() == server_name);
        return Err(match known {
            Some((_, reason)) => format!("the tools of {server_name} are not known: {}", short(reason)),
            None => format!("there is no server {server_name:?}; there are: {}", there.join(", ")),
        });
    }
    let tools: Vec<Value> = hits.iter().map(|hit| told(catalog, hit.entry, level)).collect();
    let text = hits.iter().fold(String::new(), |mut text, hit| {
        let shown = catalog.show(&hit.entry.server, &hit.entry.name, level).unwrap_or_default();
        let _ = writeln!(text, "{}", shown.trim_end());
        text
    });
    Ok(structured(&text, json!({ "server": server_name, "count": tools.len(), "tools": tools })))
}

async fn inventory(face: &Face) -> Result<std::sync::Arc<Inventory>, String> {
    face.inventory().await.ok_or_else(|| "no servers are configured: add one with `coracle servers add`".to_owned())
}

fn state(state: &ServerState) -> &'static str {
    match state {
        ServerState::Idle => "idle",
        ServerState::Starting => "starting",
        ServerState::Ready(_) => "ready",
        ServerState::Failed { .. } => "failed",
    }
}

/// One tool at a level, as an object.
fn told(catalog: &Catalog, entry: &Entry, level: Level) -> Value {
    let name = format!("{}.{}", entry.package, entry.function);
    let shown = || catalog.show(&entry.server, &entry.name, level).unwrap_or_default();
    match level {
        Level::Name => json!({ "name": name }),
        Level::Summary => json!({ "name": name, "summary": entry.summary }),
        Level::Full => serde_json::from_str(&shown()).unwrap_or_else(|_| json!({ "name": name })),
        Level::Python | Level::Typescript => json!({ "name": name, level.as_str(): shown() }),
    }
}

/// Servers that have not said what tools they have.
fn missing(inventory: &Inventory) -> String {
    inventory.missing.iter().fold(String::new(), |mut text, (server, reason)| {
        let _ = writeln!(text, "the tools of {server} are not known: {}", short(reason));
        text
    })
}

fn short(reason: &str) -> String {
    reason.chars().take(MAX_REASON).collect()
}

/// A mistake of the caller as an answer.
pub(crate) fn answered(outcome: Result<CallToolResult, String>) -> CallToolResult {
    outcome.unwrap_or_else(refusal)
}
