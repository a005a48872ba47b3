//! Tools for discovering the tools of servers.

use super::count_tokens;
use super::{arguments, refusal, structured};
use crate::mcp::Frontend;
use coracle_catalog::{Entry, Level};
use coracle_engine::{FoundTool, Inventory, ToolSearch, Toolbox, described};
use coracle_upstream::ServerState;
use rmcp::model::{CallToolRequestParams, CallToolResult};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::fmt::Write as _;

const NO_SERVERS: &str = "no servers are configured: add one with `coracle servers add`";

/// Maximum number of search results.
const MAX_LIMIT: usize = 100;
const DEFAULT_LIMIT: usize = 10;
/// Maximum length of the reason why a server is not available, in characters.
const MAX_REASON: usize = 300;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Search {
    #[serde(default)]
    query: String,
    #[serde(default)]
    category: Option<String>,
    #[serde(default)]
    server: Option<String>,
    #[serde(default)]
    detail_level: Option<String>,
    #[serde(default, alias = "max_results")]
    limit: Option<usize>,
    #[serde(default)]
    max_tokens: Option<usize>,
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
    match name.map(String::as_str) {
        None => Ok(default),
        // Name of this level in earlier tools of this kind.
        Some("description") => Ok(Level::Summary),
        Some(name) => name.parse::<Level>().map_err(|error| error.to_string()),
    }
}

pub(crate) async fn search_tools(
    frontend: &Frontend,
    request: &CallToolRequestParams,
) -> Result<CallToolResult, String> {
    let Search { query, category, server, detail_level, limit, max_tokens } = arguments(request)?;
    let level = level(detail_level.as_ref(), Level::Summary)?;
    let (toolbox, inventory) =
        (toolbox(frontend)?, inventory(frontend, server.as_deref().or(category.as_deref())).await?);
    if let Some(server) = &server {
        check_available(&inventory, server)?;
    }
    let limit = limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT);
    let search = ToolSearch { query: query.clone(), server, category: category.clone(), level, limit };
    let mut found = toolbox.search(&frontend.user(), &inventory, search).await?;
    let left_out = max_tokens.map_or(0, |budget| fit(&mut found, budget));
    let mut text = String::new();
    for tool in &found {
        let _ = writeln!(text, "{}", tool.text);
    }
    if left_out > 0 {
        let _ = writeln!(text, "{left_out} more matches exceed max_tokens");
    } else if found.is_empty() {
        let among = category.as_ref().map(|category| format!(" of {category}")).unwrap_or_default();
        let _ =
            writeln!(text, "none of the {} tools{among} matches; an empty query lists them", inventory.catalog.len());
    }
    text.push_str(&missing(&inventory));
    let tools: Vec<Value> = found.into_iter().map(|tool| tool.value).collect();
    let all = json!({
        "query": query, "category": category, "detail_level": level.as_str(), "count": tools.len(), "tools": tools,
    });
    Ok(structured(&text, all))
}

/// Removes tools from the end that exceed the token budget, and returns their number.
fn fit(found: &mut Vec<FoundTool>, budget: usize) -> usize {
    let mut left = budget;
    let fitting = found.iter().take_while(|tool| {
        let rest = left.checked_sub(count_tokens(&tool.text) + 1);
        left = rest.unwrap_or_default();
        rest.is_some()
    });
    let fitting = fitting.count();
    let left_out = found.len() - fitting;
    found.truncate(fitting);
    left_out
}

pub(crate) async fn get_tool_definition(
    frontend: &Frontend,
    request: &CallToolRequestParams,
) -> Result<CallToolResult, String> {
    let Definition { tool_name, category, detail_level } = arguments(request)?;
    let level = level(detail_level.as_ref(), Level::Python)?;
    let wanted = tool_name.strip_prefix("servers.").unwrap_or(&tool_name);
    let server = wanted.split_once(['.', '/']).map(|(server, _)| server).or(category.as_deref());
    let inventory = inventory(frontend, server).await?;
    let catalog = &inventory.catalog;
    let (server, tool) = match (wanted.split_once(['.', '/']), &category) {
        (Some((server, tool)), _) => (server.to_owned(), tool.to_owned()),
        (None, category) => {
            let is_meant = |entry: &Entry| {
                (entry.name == wanted || entry.function == wanted)
                    && category.as_ref().is_none_or(|category| catalog.is_in(entry, category))
            };
            let mut of_all = catalog.entries().filter(|(entry, _)| is_meant(entry));
            match (of_all.next(), of_all.next()) {
                (Some((entry, _)), None) => (entry.server.clone(), entry.name.clone()),
                (Some((one, _)), Some((other, _))) => {
                    return Err(format!(
                        "more than one server has a tool {wanted}: use {}.{} or {}.{}",
                        one.package, one.function, other.package, other.function
                    ));
                }
                (None, _) => (category.clone().unwrap_or_default(), wanted.to_owned()),
            }
        }
    };
    let Some((entry, _)) = catalog.find(&server, &tool) else {
        if !wanted.contains(['.', '/'])
            && let Some(described) = inventory.registry.find(wanted, category.as_deref())
        {
            let all = serde_json::to_value(described).unwrap_or_default();
            return Ok(structured(&all.to_string(), all));
        }
        if let Some(shown) = catalog.show(&server, &tool, Level::Summary) {
            return Err(shown);
        }
        check_available(&inventory, &server)?;
        let similar = catalog.similar(&server, &tool);
        let near = if similar.is_empty() {
            "find it with search_tools".to_owned()
        } else {
            format!("did you mean {}?", similar.join(", "))
        };
        return Err(format!("there is no tool {tool_name:?}; {near}{}", missing(&inventory)));
    };
    let shown = catalog.show(&entry.server, &entry.name, level).unwrap_or_default();
    Ok(structured(&shown, described(catalog, entry, level)))
}

pub(crate) async fn list_tool_categories(frontend: &Frontend) -> Result<CallToolResult, String> {
    let inventory = inventory(frontend, None).await?;
    let all = inventory.catalog.categories();
    let text = all.iter().fold(String::new(), |mut text, category| {
        let _ = writeln!(text, "{}: {} tools of {}", category.name, category.tools, category.servers.join(", "));
        text
    });
    let total: usize = all.iter().map(|category| category.tools).sum();
    let words = &inventory.registry.categories;
    let categories: Map<String, Value> = all
        .into_iter()
        .map(|category| {
            let description = words.get(&category.name).map(String::as_str).unwrap_or_default();
            let about =
                json!({ "description": description, "tool_count": category.tools, "servers": category.servers });
            (category.name, about)
        })
        .collect();
    let all = json!({ "count": categories.len(), "total_tools": total, "categories": categories });
    Ok(structured(&(text + &missing(&inventory)), all))
}

pub(crate) async fn list_available_tools(
    frontend: &Frontend,
    request: &CallToolRequestParams,
) -> Result<CallToolResult, String> {
    let OfCategory { category } = arguments(request)?;
    let found = listed(frontend, None, category, Level::Summary).await?;
    let inventory = inventory(frontend, None).await?;
    let mut servers: Map<String, Value> = Map::new();
    for tool in &found {
        if let Some((server, tool)) = tool.value["name"].as_str().and_then(|name| name.split_once('.'))
            && let Value::Array(tools) = servers.entry(server).or_insert_with(|| json!([]))
        {
            tools.push(tool.into());
        }
    }
    Ok(lines(&found, &missing(&inventory), json!({ "count": found.len(), "servers": servers })))
}

/// Lists every tool of a server or a category, in order.
async fn listed(
    frontend: &Frontend,
    server: Option<String>,
    category: Option<String>,
    level: Level,
) -> Result<Vec<FoundTool>, String> {
    let (toolbox, inventory) = (toolbox(frontend)?, inventory(frontend, server.as_deref()).await?);
    let search = ToolSearch { query: String::new(), server, category, level, limit: usize::MAX };
    toolbox.search(&frontend.user(), &inventory, search).await
}

/// Renders one line per tool, with the same data as an object.
fn lines(found: &[FoundTool], more: &str, mut all: Value) -> CallToolResult {
    let text = found.iter().fold(String::new(), |mut text, tool| {
        let _ = writeln!(text, "{}", tool.text);
        text
    });
    all["tools"] = found.iter().map(|tool| tool.value.clone()).collect();
    structured(&(text + more), all)
}

pub(crate) async fn list_servers(frontend: &Frontend) -> Result<CallToolResult, String> {
    let inventory = inventory(frontend, None).await?;
    let states: Map<String, Value> = frontend
        .toolbox()
        .map(|toolbox| toolbox.upstream().status(&frontend.user()))
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
    servers.extend(inventory.missing.iter().map(|(name, reason)| {
        let is_unusable = frontend.toolbox().is_some_and(|toolbox| toolbox.is_unusable(name));
        let state = match states.get(name.as_str()).and_then(Value::as_str) {
            _ if is_unusable => "unusable",
            Some(state @ ("idle" | "starting")) => state,
            _ => "failed",
        };
        json!({ "name": name.as_str(), "tools": 0, "state": state, "reason": short(reason) })
    }));
    let text = servers.iter().fold(String::new(), |mut text, server| {
        let reason = server["reason"].as_str().map(|reason| format!(": {reason}")).unwrap_or_default();
        let (name, state) = (server["name"].as_str().unwrap_or_default(), server["state"].as_str().unwrap_or_default());
        let _ = writeln!(text, "{name}: {} tools, {state}{reason}", server["tools"]);
        text
    });
    Ok(structured(&text, json!({ "count": servers.len(), "servers": servers })))
}

pub(crate) async fn get_server_tools(
    frontend: &Frontend,
    request: &CallToolRequestParams,
) -> Result<CallToolResult, String> {
    let OfServer { server_name, detail_level } = arguments(request)?;
    let level = level(detail_level.as_ref(), Level::Summary)?;
    let inventory = inventory(frontend, Some(&server_name)).await?;
    check_available(&inventory, &server_name)?;
    let found = listed(frontend, Some(server_name.clone()), None, level).await?;
    Ok(lines(&found, "", json!({ "server": server_name, "count": found.len() })))
}

fn toolbox(frontend: &Frontend) -> Result<&std::sync::Arc<Toolbox>, String> {
    frontend.toolbox().filter(|toolbox| !toolbox.is_empty()).ok_or_else(|| NO_SERVERS.to_owned())
}

async fn inventory(frontend: &Frontend, named: Option<&str>) -> Result<std::sync::Arc<Inventory>, String> {
    toolbox(frontend)?;
    frontend.inventory(named).await.ok_or_else(|| NO_SERVERS.to_owned())
}

fn state(state: &ServerState) -> &'static str {
    match state {
        ServerState::Idle => "idle",
        ServerState::Starting => "starting",
        ServerState::Ready(_) => "ready",
        ServerState::Failed { .. } => "failed",
    }
}

/// Returns an error with the reason if a server is configured but not available.
fn check_available(inventory: &Inventory, server: &str) -> Result<(), String> {
    let is_meant = |name: &str| name == server || coracle_catalog::package_name(name) == server;
    let missing = inventory.missing.iter().find(|(name, _)| is_meant(name.as_str()));
    match missing {
        Some((name, reason)) if !inventory.catalog.knows_server(server) => {
            Err(format!("the tools of {name} are not known: {}", short(reason)))
        }
        _ => Ok(()),
    }
}

/// Lists the servers whose tools are not known, with the reason.
fn missing(inventory: &Inventory) -> String {
    inventory.missing.iter().fold(String::new(), |mut text, (server, reason)| {
        let _ = writeln!(text, "the tools of {server} are not known: {}", short(reason));
        text
    })
}

fn short(reason: &str) -> String {
    reason.chars().take(MAX_REASON).collect()
}

/// Converts an error of the caller to a tool result.
pub(crate) fn answered(outcome: Result<CallToolResult, String>) -> CallToolResult {
    outcome.unwrap_or_else(refusal)
}
