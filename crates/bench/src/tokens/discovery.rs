//! Cost of finding one tool: a search, one definition, one import.

use super::definitions::of_servers;
use crate::input_error::InputError;
use coracle_catalog::{Catalog, Level, Query, ServerTools};
use coracle_server::count_tokens;
use coracle_types::{ServerName, Tool, ToolHints};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// Default number of results of `search_tools`.
const SHOWN: usize = 10;

/// Maximum number of searches.
const MAX_SEARCHES: usize = 500;

/// Tokens of a complete discovery, over many searches.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Discovery {
    pub(super) tools: usize,
    /// Tokens of all definitions.
    pub(super) definitions: usize,
    pub(super) searches: usize,
    pub(super) median: usize,
    pub(super) p90: usize,
    pub(super) most: usize,
}

#[derive(Deserialize)]
struct Listed {
    server: String,
    name: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    input_schema: Map<String, Value>,
}

#[derive(Deserialize)]
struct Asked {
    query: String,
}

/// Measures a catalog with the descriptions of its own tools as queries.
pub(super) fn of_catalog(catalog: &Catalog) -> Option<Discovery> {
    let queries: Vec<&str> = catalog.entries().map(|(entry, _)| entry.summary.as_str()).collect();
    of_queries(catalog, &queries)
}

/// Measures a set of tools with its queries.
pub(super) fn of_set(folder: &Path) -> anyhow::Result<Discovery> {
    let path = folder.join("tools.jsonl");
    let mut servers: BTreeMap<ServerName, Vec<Tool>> = BTreeMap::new();
    for listed in lines::<Listed>(&path)? {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        let name: String = listed.server.chars().map(plain).take(60).collect();
        let server = ServerName::new(name.trim_matches('-')).or_else(|_| ServerName::new("other"));
        let server = server.map_err(|error| InputError::at(&path, error))?;
        servers.entry(server.clone()).or_default().push(Tool {
            server,
            name: listed.name,
            title: None,
            description: listed.description,
            input_schema: listed.input_schema.into(),
            output_schema: None,
            category: None,
            hints: ToolHints::default(),
        });
    }
    let servers = servers.into_iter();
    let catalog = Catalog::new(servers.map(|(name, tools)| ServerTools::new(name, tools)).collect());
    let path = folder.join("queries.jsonl");
    let asked = lines::<Asked>(&path)?;
    let queries: Vec<&str> = asked.iter().map(|asked| asked.query.as_str()).collect();
    of_queries(&catalog, &queries).ok_or_else(|| InputError::at(&path, "no query has a result").into())
}

fn lines<T: DeserializeOwned>(path: &Path) -> anyhow::Result<Vec<T>> {
    let text = std::fs::read_to_string(path).map_err(|error| InputError::at(path, error))?;
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    lines.map(|line| Ok(serde_json::from_str(line).map_err(|error| InputError::at(path, error))?)).collect()
}

fn of_queries(catalog: &Catalog, queries: &[&str]) -> Option<Discovery> {
    let step = queries.len().div_ceil(MAX_SEARCHES).max(1);
    let some = queries.iter().step_by(step);
    let mut costs: Vec<usize> = some.filter_map(|query| cost(catalog, query)).collect();
    costs.sort_unstable();
    Some(Discovery {
        tools: catalog.len(),
        definitions: of_servers(catalog).iter().map(|server| server.tokens).sum(),
        searches: costs.len(),
        median: *costs.get(costs.len() / 2)?,
        p90: *costs.get(costs.len() * 9 / 10)?,
        most: *costs.last()?,
    })
}

/// Tokens of a search, the definition of its first result, and the import, including both calls and both responses.
fn cost(catalog: &Catalog, query: &str) -> Option<usize> {
    let hits = catalog.search(&Query::new(query), SHOWN);
    let first = hits.first()?.entry;
    let shown = |entry: &coracle_catalog::Entry, level| catalog.show(&entry.server, &entry.name, level);
    let found: Vec<String> = hits.iter().filter_map(|hit| shown(hit.entry, Level::Summary)).collect();
    let found: Vec<&str> = found.iter().map(|text| text.trim_end()).collect();
    let name = format!("{}.{}", first.package, first.function);
    let parts = [
        json!({ "name": "search_tools", "arguments": { "query": query } }).to_string(),
        found.join("\n"),
        json!({ "name": "get_tool_definition", "arguments": { "tool_name": name } }).to_string(),
        shown(first, Level::Python)?,
        format!("from servers.{} import {}", first.package, first.function),
    ];
    Some(parts.iter().map(|part| count_tokens(part)).sum())
}
