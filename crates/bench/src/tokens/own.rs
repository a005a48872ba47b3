//! Tokens of the definitions of the user's own servers. Servers with known tools are not started.

use super::definitions::{OfServer, definition, of_servers};
use super::discovery::{self, Discovery};
use crate::setup::OwnTools;
use coracle_server::{INSTRUCTIONS, Profile, count_tokens, offered_tools};
use serde::Serialize;

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

/// Counts the definitions; `None` if there are no servers.
pub(super) async fn count(own_tools: OwnTools) -> anyhow::Result<Option<Own>> {
    let Some(inventory) = own_tools.await? else { return Ok(None) };
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
