//! Tokens of the definitions of the user's own servers. Servers with known tools are not started.

use super::discovery::{self, Discovery};
use crate::{settings, tools};
use coracle_catalog::Catalog;
use coracle_server::{INSTRUCTIONS, Profile, count_tokens, offered_tools};
use serde::Serialize;
use std::path::PathBuf;
use std::sync::Arc;

/// Configured servers.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Own {
    pub(super) servers: Vec<OfServer>,
    pub(super) tools: usize,
    pub(super) tokens: usize,
    /// Tokens of the three tools of the profile `code` and its instructions.
    pub(super) code_tokens: usize,
    pub(super) discovery: Option<Discovery>,
    /// Servers whose tools are not known.
    pub(super) missing: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct OfServer {
    pub(super) server: String,
    pub(super) tools: usize,
    pub(super) tokens: usize,
}

/// Definition as clients send it to a model.
#[derive(Serialize)]
struct Told<'a, S> {
    name: &'a str,
    description: &'a str,
    input_schema: &'a S,
}

/// Tokens of one definition.
fn definition(name: &str, description: &str, input_schema: &impl Serialize) -> usize {
    let told = Told { name, description, input_schema };
    count_tokens(&serde_json::to_string(&told).unwrap_or_default())
}

/// Counts the definitions; `None` if there are no servers.
pub(super) async fn count(config: Option<PathBuf>) -> anyhow::Result<Option<Own>> {
    let loaded = settings::load(config.as_deref(), Vec::new())?;
    if loaded.servers.is_empty() {
        return Ok(None);
    }
    let inventory = tools::inventory(&loaded).await?;
    let servers = of_servers(&inventory.catalog);
    Ok(Some(Own {
        tools: servers.iter().map(|server| server.tools).sum(),
        tokens: servers.iter().map(|server| server.tokens).sum(),
        servers,
        code_tokens: code_tokens(),
        discovery: discovery::of_catalog(&inventory.catalog),
        missing: inventory.missing.iter().map(|(server, _)| server.to_string()).collect(),
    }))
}

/// Tokens of the profile `code` in every conversation.
fn code_tokens() -> usize {
    let tools = offered_tools(Profile::Code);
    let tools: usize = tools.iter().map(|tool| definition(tool.name, tool.description, &tool.input_schema)).sum();
    tools + count_tokens(INSTRUCTIONS)
}

pub(super) fn of_servers(catalog: &Catalog) -> Vec<OfServer> {
    let count = |tools: &[Arc<coracle_types::Tool>]| {
        tools.iter().map(|tool| definition(&tool.name, &tool.description, &tool.input_schema)).sum()
    };
    let servers = catalog.servers().iter().map(|server| OfServer {
        server: server.name.to_string(),
        tools: server.tools.len(),
        tokens: count(&server.tools),
    });
    servers.collect()
}
