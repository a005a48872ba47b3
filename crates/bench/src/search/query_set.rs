//! Tools and queries with known answers, from two JSON Lines files.

use anyhow::Context;
use coracle_catalog::ServerTools;
use coracle_types::{ServerName, Tool, ToolHints};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// Data of one row.
pub(super) struct Set {
    pub(super) name: String,
    pub(super) servers: Vec<ServerTools>,
    /// Tool IDs by server and name.
    pub(super) ids: HashMap<(String, String), String>,
    pub(super) queries: Vec<Query>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Query {
    pub(super) id: Value,
    #[serde(rename = "query")]
    pub(super) text: String,
    /// IDs of the tools that should be found.
    pub(super) relevant: Vec<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Definition {
    pub(super) id: String,
    #[serde(default)]
    pub(super) server: Option<String>,
    pub(super) name: String,
    #[serde(default)]
    pub(super) description: String,
    #[serde(default)]
    pub(super) input_schema: Option<Map<String, Value>>,
}

impl Set {
    pub(super) fn read(folder: &Path) -> anyhow::Result<Self> {
        let name = folder.file_name().unwrap_or(folder.as_os_str()).to_string_lossy().into_owned();
        let queries = lines(&folder.join("queries.jsonl"))?;
        anyhow::ensure!(!queries.is_empty(), "there are no queries in {}", folder.join("queries.jsonl").display());
        Self::new(name, lines(&folder.join("tools.jsonl"))?, queries)
    }

    pub(super) fn new(name: String, tools: Vec<Definition>, queries: Vec<Query>) -> anyhow::Result<Self> {
        let mut servers: BTreeMap<ServerName, Vec<Tool>> = BTreeMap::new();
        let mut ids = HashMap::new();
        for tool in tools {
            let server = free_server(tool.server.as_deref().unwrap_or_default(), &tool.name, &ids)?;
            ids.insert((server.as_str().to_owned(), tool.name.clone()), tool.id);
            servers.entry(server.clone()).or_default().push(Tool {
                server,
                name: tool.name,
                title: None,
                description: tool.description,
                input_schema: tool.input_schema.unwrap_or_default().into(),
                output_schema: None,
                category: None,
                hints: ToolHints::default(),
            });
        }
        let servers = servers.into_iter().map(|(name, tools)| ServerTools::new(name, tools)).collect();
        Ok(Self { name, servers, ids, queries })
    }
}

/// Server name of tools without one. It carries no meaning.
const NO_SERVER: &str = "any";

/// Converts a server name to a valid one. A second tool with the same name gets a separate server.
fn free_server(name: &str, tool: &str, ids: &HashMap<(String, String), String>) -> anyhow::Result<ServerName> {
    let plain: String = name.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' }).collect();
    let plain = plain.trim_matches('-');
    let plain: String = if plain.is_empty() { NO_SERVER.to_owned() } else { plain.chars().take(60).collect() };
    let mut names = (1..).map(|number| if number == 1 { plain.clone() } else { format!("{plain}-{number}") });
    let free = names.find(|name| !ids.contains_key(&(name.clone(), tool.to_owned()))).unwrap_or_default();
    ServerName::new(&free).with_context(|| format!("{name:?} is not a valid server name"))
}

fn lines<T: DeserializeOwned>(file: &Path) -> anyhow::Result<Vec<T>> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let numbered = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    numbered
        .map(|(number, line)| {
            serde_json::from_str(line).with_context(|| format!("{}, line {}", file.display(), number + 1))
        })
        .collect()
}
