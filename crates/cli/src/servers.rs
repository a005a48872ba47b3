//! `coracle servers`: which MCP servers there are, and whether they work.
//!
//! Only `test` and `login` talk to a server. What changes the settings file leaves the rest of its text alone.

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
  coracle servers import                                   what Claude, Cursor and VS Code have
  coracle servers add git -- uvx mcp-server-git            a program
  coracle servers add docs --url https://example.com/mcp   an address
  coracle servers test                                     start all of them and see";

#[derive(Debug, Subcommand)]
enum ServersCommand {
    /// Print the configured servers and what is known of them; starts none.
    List(list::ListArguments),
    /// Add a server to the settings file.
    Add(add::AddArguments),
    /// Remove a server from the settings file, and forget what is known of it.
    Remove(remove::RemoveArguments),
    /// Start servers, all at once, and say how that went; exit status 1 if any fails.
    Test(test::TestArguments),
    /// Take over the servers that Claude Desktop, Claude Code, Cursor and VS Code have.
    Import(import::ImportArguments),
    /// Sign in to a server by OAuth, with a browser.
    Login(login::LoginArguments),
    /// Forget a sign-in.
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

/// A configured server by the name that somebody typed.
fn configured(loaded: &Loaded, name: &str) -> anyhow::Result<ServerName> {
    if let Some(spec) = loaded.servers.iter().find(|spec| spec.name.as_str() == name) {
        return Ok(spec.name.clone());
    }
    if let Some(problem) = loaded.server_problems.iter().find(|problem| problem.name == name) {
        return Err(Mistake::new(problem, Some(problem.fault.hint())).into());
    }
    if loaded.settings.mcp_servers.contains_key(name) {
        let hint = "take `disabled` out of its entry in the settings file";
        return Err(Mistake::new(format!("server {name} is switched off"), Some(hint)).into());
    }
    let names: Vec<&str> = loaded.settings.mcp_servers.keys().map(String::as_str).collect();
    let hint = if names.is_empty() {
        "there are none yet: `coracle servers add` or `coracle servers import`".to_owned()
    } else {
        format!("there are: {}", names.join(", "))
    };
    Err(Mistake::new(format!("there is no server {name:?}"), Some(hint)).into())
}

/// A file that was not changed.
fn not_changed(error: &EditError) -> anyhow::Error {
    Mistake::new(error, Some(error.hint())).into()
}
