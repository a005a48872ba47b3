use super::{inventory, settings};
use crate::output::{columns, json};
use crate::status::Status;
use crate::wiring::runtime;
use clap::Args;
use coracle_catalog::{Entry, Filter};
use std::io::Write;
use std::path::Path;

#[derive(Debug, Args)]
pub(super) struct ListArguments {
    /// Only list tools of this server.
    #[arg(long, value_name = "SERVER")]
    server: Option<String>,

    /// Only list tools with this text in their name or summary.
    #[arg(long, value_name = "TEXT")]
    search: Option<String>,

    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &ListArguments, config: Option<&Path>) -> anyhow::Result<Status> {
    let loaded = settings(config, arguments.server.as_deref())?;
    let filter = Filter { server: None, text: arguments.search.clone() };
    let inventory = if loaded.servers.is_empty() { None } else { Some(runtime()?.block_on(inventory(&loaded))?) };
    let found: Vec<&Entry> = inventory.iter().flat_map(|inventory| inventory.catalog.list(&filter)).collect();
    let text = if arguments.json {
        json(&found)?
    } else {
        columns(found.iter().map(|entry| [format!("{}.{}", entry.package, entry.function), entry.summary.clone()]))
    };
    std::io::stdout().write_all(text.as_bytes())?;
    let nothing_known =
        inventory.is_some_and(|inventory| inventory.catalog.is_empty() && !inventory.missing.is_empty());
    Ok(if nothing_known { Status::Failed } else { Status::Success })
}
