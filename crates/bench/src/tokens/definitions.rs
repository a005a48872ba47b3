//! What the definitions of tools cost.

use coracle_catalog::Catalog;
use coracle_server::count_tokens;
use serde::Serialize;
use std::sync::Arc;

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
pub(super) fn definition(name: &str, description: &str, input_schema: &impl Serialize) -> usize {
    let told = Told { name, description, input_schema };
    count_tokens(&serde_json::to_string(&told).unwrap_or_default())
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
