//! `coracle tools`: lists, searches and shows tools, and manages decisions about them.

mod decisions;
mod generate;
mod list;
mod search;
mod select;
mod show;

use crate::output::plain;
use crate::settings::{announce, load};
use crate::signals::Signals;
use crate::status::{Cancelled, Mistake, Status};
use crate::wiring::{Purpose, store, toolbox};
use anyhow::Context;
use clap::{Args, Subcommand};
use coracle_config::Loaded;
use coracle_engine::{FoundTool, Inventory, Listing, ToolSearch, Toolbox};
use coracle_types::UserId;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Map;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Interval of the spinner.
const TICK: Duration = Duration::from_millis(120);
/// Maximum length of a reason in characters.
const MAX_REASON: usize = 2_000;
/// Longest wait for an embedder to index new tools.
const READING: Duration = Duration::from_secs(20);

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ToolsArguments {
    #[command(subcommand)]
    command: ToolsCommand,
}

const AFTER_HELP: &str = "\
A server is started only if its tools are not known yet; `coracle servers test` refreshes the tool lists of all servers.

Examples:
  coracle tools search send a message          find tools by purpose
  coracle tools select 'close stale issues'    print a starter program for a task
  coracle tools show github.list_issues        print the function that code calls
  coracle tools generate typings               write modules for an editor, mypy or tsc
  coracle tools forget github delete_repo      ask again before this tool is called";

#[derive(Debug, Subcommand)]
enum ToolsCommand {
    /// List the tools of all servers, one per line.
    List(list::ListArguments),
    /// Search for tools by purpose.
    Search(search::SearchArguments),
    /// Select tools for a task and print a starter program that uses them.
    Select(select::SelectArguments),
    /// Print the definition of a tool.
    Show(show::ShowArguments),
    /// Write typed modules for all tools to a folder, for use by editors, mypy and tsc.
    Generate(generate::GenerateArguments),
    /// List the tools that you have permanently allowed.
    Decisions(decisions::DecisionsArguments),
    /// Revoke the permanent permission for a tool.
    Forget(decisions::ForgetArguments),
}

pub(crate) fn run(arguments: &ToolsArguments, config: Option<&Path>) -> anyhow::Result<Status> {
    match &arguments.command {
        ToolsCommand::List(arguments) => list::run(arguments, config),
        ToolsCommand::Search(arguments) => search::run(arguments, config),
        ToolsCommand::Select(arguments) => select::run(arguments, config),
        ToolsCommand::Show(arguments) => show::run(arguments, config),
        ToolsCommand::Generate(arguments) => generate::run(arguments, config),
        ToolsCommand::Decisions(arguments) => decisions::list(arguments),
        ToolsCommand::Forget(arguments) => decisions::forget(arguments),
    }
}

/// Loads the settings with all servers, or with those that a name may mean.
fn settings(config: Option<&Path>, server: Option<&str>) -> anyhow::Result<Loaded> {
    let mut loaded = load(config, Vec::new())?;
    if let Some(server) = server {
        // Names that map to the same package can only be distinguished together.
        let package = |name: &str| name.replace(|c: char| !c.is_ascii_alphanumeric(), "_").to_lowercase();
        let meant = package(server);
        loaded.server_problems.retain(|problem| package(&problem.name) == meant);
        if !loaded.servers.iter().any(|spec| package(spec.name.as_str()) == meant) {
            if let Some(problem) = loaded.server_problems.first() {
                return Err(Mistake::new(problem, Some(problem.fault.hint())).into());
            }
            return Err(unknown_server(&loaded, server));
        }
        loaded.servers.retain(|spec| package(spec.name.as_str()) == meant);
    }
    if loaded.settings.mcp_servers.is_empty() {
        eprintln!("no servers are configured: use `coracle servers add` or `coracle servers import`");
    }
    Ok(loaded)
}

fn unknown_server(loaded: &Loaded, name: &str) -> anyhow::Error {
    let names: Vec<&str> = loaded.servers.iter().map(|spec| spec.name.as_str()).collect();
    let hint = if names.is_empty() {
        "no servers are configured: use `coracle servers add` or `coracle servers import`".to_owned()
    } else {
        format!("there are: {}", names.join(", "))
    };
    Mistake::new(format!("there is no server {name:?}"), Some(hint)).into()
}

/// Lists all tools of these servers. Servers without a known list are started.
pub(crate) async fn inventory(loaded: &Loaded) -> anyhow::Result<Arc<Inventory>> {
    Ok(stock(loaded).await?.1)
}

/// Returns the matching tools, best first, and the inventory.
async fn search(loaded: &Loaded, search: ToolSearch) -> anyhow::Result<(Vec<FoundTool>, Arc<Inventory>)> {
    let (toolbox, inventory) = stock_to_search(loaded).await?;
    let found = toolbox.search(&UserId::local(), &inventory, search).await;
    Ok((found.map_err(|problem| Mistake::new(problem, None::<String>))?, inventory))
}

/// Returns the inventory for a search. An embedder gets some time to index new tools.
async fn stock_to_search(loaded: &Loaded) -> anyhow::Result<(Arc<Toolbox>, Arc<Inventory>)> {
    let (toolbox, inventory) = stock(loaded).await?;
    let progress = spinner()?;
    let reading = async {
        tokio::time::sleep(TICK).await;
        progress.set_message("waiting for the embedder");
        progress.enable_steady_tick(TICK);
        tokio::time::sleep(READING).await;
    };
    // After that, the search does without them.
    tokio::select! {
        () = toolbox.finish_reading(&inventory) => {}
        () = reading => {}
    }
    progress.finish_and_clear();
    Ok((toolbox, inventory))
}

/// Returns the inventory without waiting for an embedder.
async fn stock(loaded: &Loaded) -> anyhow::Result<(Arc<Toolbox>, Arc<Inventory>)> {
    let toolbox = toolbox(loaded, store().await?, Map::new(), Purpose::Command)?;
    let user = UserId::local();
    let mut unknown = Vec::new();
    for spec in &loaded.servers {
        let listed = toolbox.last_listed(&user, &spec.name).await.context("cannot read the known tools of servers")?;
        if listed.is_none() {
            unknown.push(spec.name.as_str());
        }
    }
    let progress = spinner()?;
    if !unknown.is_empty() {
        announce(loaded);
        progress.set_message(format!("waiting for {}", unknown.join(", ")));
        progress.enable_steady_tick(TICK);
    }
    let mut signals = Signals::listen().context("cannot listen for signals")?;
    let inventory = tokio::select! {
        inventory = toolbox.inventory(&user, Listing::All) => Some(inventory),
        () = signals.next() => None,
    };
    progress.finish_and_clear();
    toolbox.upstream().shutdown().await;
    let inventory = inventory.ok_or(Cancelled)?;
    // Unusable servers were reported when the settings were loaded.
    for (server, reason) in inventory.missing.iter().filter(|(server, _)| !toolbox.is_unusable(server)) {
        eprintln!("warning: the tools of {server} are not known: {}", plain(reason, MAX_REASON));
    }
    Ok((toolbox, inventory))
}

fn spinner() -> anyhow::Result<ProgressBar> {
    Ok(ProgressBar::new_spinner().with_style(ProgressStyle::with_template("{spinner} {wide_msg}")?))
}
