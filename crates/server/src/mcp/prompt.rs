//! The prompt `agent_system_prompt`, and the instructions that clients get when they connect.

use super::skills;
use crate::mcp::Frontend;
use coracle_types::Language;
use std::fmt::Write as _;

pub(crate) const NAME: &str = "agent_system_prompt";
pub(crate) const DESCRIPTION: &str = "How to work with tools by writing code, and which servers there are.";

/// Instructions for every client. They are short because they are part of every conversation.
pub const INSTRUCTIONS: &str = "Tools of other servers are functions for code: find them with search_tools, read \
one with get_tool_definition, then call as many as the task needs in one execute_code.";

/// Maximum number of servers that are listed by name.
const MAX_SERVERS: usize = 50;

pub(crate) async fn text(frontend: &Frontend) -> String {
    let mut text = String::from(
        "# Agentic Code Execution with Domain Skills\n\n\
         You solve tasks by writing programs that call tools, instead of calling tools one by one.\n\n\
         1. Find tools with search_tools (a few words), and read the signature of those that you need with \
         get_tool_definition.\n\
         2. Write one program for execute_code that does all of it: loops, filters, joins, error handling. Results of \
         tools stay in the program; only what it prints, and its variable `result` (or last expression), comes back. \
         Give back little: counts, the few rows that matter, a path.\n\
         3. A tool that fails raises ToolError (server, tool, code, message, retryable): catch it where you can go on.\n\
         4. Many independent calls: asyncio.gather over `tool.aio(...)`, or Promise.all.\n\
         5. Keep what the next program needs in /workspace; put what the user should get into /artifacts. With \
         `session` variables stay alive too.\n",
    );
    let languages = [Language::Python, Language::TypeScript, Language::Bash].map(Language::as_str).join(", ");
    let _ = writeln!(text, "\nLanguages: {languages}. There is no network but the tools.");
    text.push_str(&skills::prompt(frontend).await);
    let Some(inventory) = frontend.inventory(None).await else { return text };
    text.push_str("\nServers:\n");
    for server in inventory.catalog.servers().iter().take(MAX_SERVERS) {
        let about = server.description.as_deref().unwrap_or_default();
        let line: String = about.chars().filter(|c| !coracle_types::is_hidden(*c)).take(160).collect();
        let colon = if line.is_empty() { "" } else { ": " };
        let _ = writeln!(text, "- {} ({} tools){colon}{line}", server.name, server.tools.len());
    }
    let more = inventory.catalog.servers().len().saturating_sub(MAX_SERVERS);
    if more > 0 {
        let _ = writeln!(text, "- and {more} more: list_servers, search_tools");
    }
    for (server, reason) in &inventory.missing {
        let reason: String = reason.chars().filter(|c| !coracle_types::is_hidden(*c)).take(160).collect();
        let _ = writeln!(text, "- {server}: not available ({reason})");
    }
    text
}
