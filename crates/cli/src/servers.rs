//! `coracle servers`: manages and tests MCP servers.
//!
//! Only `test` and `login` connect to a server. Changes to the settings file leave the rest of its text unchanged.

mod add;
mod candidate;
mod import;
mod list;
mod login;
mod remove;
mod test;

pub(crate) use candidate::Candidate;

use crate::status::{Mistake, Status};
use clap::{Args, Subcommand};
use coracle_config::{Loaded, edit::EditError};
use coracle_types::ServerName;
use std::path::Path;

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ServersArguments {
    #[command(subcommand)]
    command: ServersCommand,
}

const AFTER_HELP: &str = "\
Examples:
  coracle servers import                                   import servers from Claude, Cursor and VS Code
  coracle servers add git -- uvx mcp-server-git            add a server that runs as a program
  coracle servers add docs --url https://example.com/mcp   add a server by its URL
  coracle servers test                                     check that all servers start";

#[derive(Debug, Subcommand)]
#[expect(clippy::large_enum_variant, reason = "there is one of it")]
enum ServersCommand {
    /// List the configured servers and their last known state, without starting them.
    List(list::ListArguments),
    /// Add a server to the settings file.
    Add(add::AddArguments),
    /// Remove a server from the settings file, along with its sign-ins, credentials and tool decisions.
    Remove(remove::RemoveArguments),
    /// Start servers in parallel and report the results; exits with status 1 if any server fails.
    Test(test::TestArguments),
    /// Import servers from Claude Desktop, Claude Code, Cursor and VS Code.
    Import(import::ImportArguments),
    /// Sign in to a server with OAuth in a browser.
    Login(login::LoginArguments),
    /// Delete the stored sign-in for a server.
    Logout(login::LogoutArguments),
}

pub(crate) fn run(arguments: ServersArguments, config: Option<&Path>) -> anyhow::Result<Status> {
    match arguments.command {
        ServersCommand::List(arguments) => list::run(&arguments, config),
        ServersCommand::Add(arguments) => add::run(arguments, config),
        ServersCommand::Remove(arguments) => remove::run(&arguments, config),
        ServersCommand::Test(arguments) => test::run(&arguments, config),
        ServersCommand::Import(arguments) => import::run(&arguments, config),
        ServersCommand::Login(arguments) => login::login(&arguments, config),
        ServersCommand::Logout(arguments) => login::logout(&arguments, config),
    }
}

/// Finds a configured server by name.
fn configured(loaded: &Loaded, name: &str) -> anyhow::Result<ServerName> {
    if let Some(spec) = loaded.servers.iter().find(|spec| spec.name.as_str() == name) {
        return Ok(spec.name.clone());
    }
    if let Some(problem) = loaded.server_problems.iter().find(|problem| problem.name == name) {
        return Err(Mistake::new(problem, Some(problem.fault.hint())).into());
    }
    if loaded.settings.mcp_servers.contains_key(name) {
        let hint = "remove `disabled` from its entry in the settings file";
        return Err(Mistake::new(format!("server {name} is disabled"), Some(hint)).into());
    }
    let names: Vec<&str> = loaded.settings.mcp_servers.keys().map(String::as_str).collect();
    let hint = if names.is_empty() {
        "no servers are configured: use `coracle servers add` or `coracle servers import`".to_owned()
    } else {
        format!("there are: {}", names.join(", "))
    };
    Err(Mistake::new(format!("there is no server {name:?}"), Some(hint)).into())
}

/// Error for a file that could not be changed.
fn not_changed(error: &EditError) -> anyhow::Error {
    Mistake::new(error, Some(error.hint())).into()
}
