use super::{search, settings};
use crate::output::{columns, json};
use crate::status::Status;
use crate::wiring::runtime;
use clap::Args;
use coracle_catalog::Level;
use coracle_engine::{FoundTool, ToolSearch};
use serde_json::Value;
use std::io::Write;
use std::path::Path;
use std::str::FromStr;

#[derive(Debug, Args)]
pub(super) struct SearchArguments {
    /// Words that describe the tool.
    #[arg(value_name = "QUERY", required = true)]
    query: Vec<String>,

    /// Only search tools of this server.
    #[arg(long, value_name = "SERVER")]
    server: Option<String>,

    /// Only search tools of this category.
    #[arg(long, value_name = "CATEGORY")]
    category: Option<String>,

    /// Maximum number of results.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,

    /// Level of detail: name, summary, full, python or typescript.
    #[arg(long, value_name = "LEVEL", default_value = "summary", value_parser = Level::from_str)]
    level: Level,

    /// Print JSON instead of text.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &SearchArguments, config: Option<&Path>) -> anyhow::Result<Status> {
    let loaded = settings(config, arguments.server.as_deref())?;
    let wanted = ToolSearch {
        query: arguments.query.join(" "),
        server: None,
        category: arguments.category.clone(),
        level: arguments.level,
        limit: arguments.limit.into(),
    };
    let (found, inventory) = runtime()?.block_on(search(&loaded, wanted))?;
    let text = if arguments.json {
        let told = |tool: &FoundTool| -> Value {
            let mut value = tool.value.clone();
            value["score"] = Value::from((f64::from(tool.score) * 1e3).round() / 1e3);
            value
        };
        json(&found.iter().map(told).collect::<Vec<_>>())?
    } else if arguments.level == Level::Summary {
        columns(found.iter().map(|tool| {
            let (name, words) = tool.text.split_once(": ").unwrap_or((&tool.text, ""));
            [name.to_owned(), words.to_owned()]
        }))
    } else {
        found.iter().map(|tool| tool.text.clone() + "\n").collect()
    };
    std::io::stdout().write_all(text.as_bytes())?;
    if found.is_empty() {
        eprintln!("none of the {} tools matches; `coracle tools list` lists all", inventory.catalog.len());
        return Ok(Status::Failed);
    }
    Ok(Status::Success)
}
