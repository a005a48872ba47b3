use super::{inventory, settings};
use crate::plain::{columns, json};
use crate::status::Status;
use crate::wiring::runtime;
use clap::Args;
use coracle_catalog::{Hit, Level};
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;
use std::str::FromStr;

#[derive(Debug, Args)]
pub(super) struct SearchArguments {
    /// What the tool should do, in any words.
    #[arg(value_name = "QUERY", required = true)]
    query: Vec<String>,

    /// Only the tools of this server.
    #[arg(long, value_name = "SERVER")]
    server: Option<String>,

    /// How many to print.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,

    /// How much to tell: name, summary, full, python or typescript.
    #[arg(long, value_name = "LEVEL", default_value = "summary", value_parser = Level::from_str)]
    level: Level,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &SearchArguments, config: Option<&Path>) -> anyhow::Result<Status> {
    let loaded = settings(config, arguments.server.as_deref())?;
    let inventory = if loaded.servers.is_empty() { None } else { Some(runtime()?.block_on(inventory(&loaded))?) };
    let query = arguments.query.join(" ");
    let catalog = inventory.as_ref().map(|inventory| &inventory.catalog);
    let hits: Vec<Hit<'_>> =
        catalog.into_iter().flat_map(|catalog| catalog.search(&query, None, arguments.limit.into())).collect();
    let shown = |hit: &Hit<'_>| {
        let shown = catalog.and_then(|catalog| catalog.show(&hit.entry.server, &hit.entry.name, arguments.level));
        shown.unwrap_or_default().trim_end().to_owned()
    };
    let text = if arguments.json {
        let told = |hit: &Hit<'_>| -> Value {
            json!({ "name": format!("{}.{}", hit.entry.package, hit.entry.function), "summary": hit.entry.summary,
                "score": (f64::from(hit.score) * 1e3).round() / 1e3 })
        };
        json(&hits.iter().map(told).collect::<Vec<_>>())?
    } else if arguments.level == Level::Summary {
        let named = |hit: &Hit<'_>| format!("{}.{}", hit.entry.package, hit.entry.function);
        columns(hits.iter().map(|hit| [named(hit), hit.entry.summary.clone()]))
    } else {
        hits.iter().map(|hit| shown(hit) + "\n").collect()
    };
    std::io::stdout().write_all(text.as_bytes())?;
    if hits.is_empty() {
        let count = catalog.map_or(0, coracle_catalog::Catalog::len);
        eprintln!("none of the {count} tools fits; `coracle tools list` prints them all");
        return Ok(Status::Failed);
    }
    Ok(Status::Success)
}
