use super::{inventory, settings};
use crate::output::json;
use crate::status::{Mistake, Status};
use crate::wiring::runtime;
use anyhow::Context;
use clap::Args;
use coracle_catalog::Level;
use serde_json::Value;
use std::io::Write;
use std::path::Path;
use std::str::FromStr;

#[derive(Debug, Args)]
pub(super) struct ShowArguments {
    /// Tool as SERVER.TOOL, or only the server if TOOL is given separately.
    #[arg(value_name = "SERVER[.TOOL]")]
    server: String,

    /// Tool name or function name.
    #[arg(value_name = "TOOL")]
    tool: Option<String>,

    /// Level of detail: name, summary, full, python or typescript.
    #[arg(long, value_name = "LEVEL", default_value = "python", value_parser = Level::from_str)]
    level: Level,
}

/// Splits the server and the tool. Names of servers have no dots; names of tools may.
fn named<'a>(server: &'a str, tool: Option<&'a str>) -> anyhow::Result<(&'a str, &'a str)> {
    match (tool, server.split_once('.')) {
        (Some(tool), _) => Ok((server, tool)),
        (None, Some((server, tool))) if !server.is_empty() && !tool.is_empty() => Ok((server, tool)),
        (None, _) => {
            let hint = format!("add the tool: `coracle tools show {server}.TOOL`");
            Err(Mistake::new(format!("{server:?} does not name a tool"), Some(hint)).into())
        }
    }
}

pub(super) fn run(arguments: &ShowArguments, config: Option<&Path>) -> anyhow::Result<Status> {
    let level = &arguments.level;
    let (server, tool) = named(&arguments.server, arguments.tool.as_deref())?;
    let loaded = settings(config, Some(server))?;
    let inventory = runtime()?.block_on(inventory(&loaded))?;
    let Some(shown) = inventory.catalog.show(server, tool, *level) else {
        if inventory.catalog.is_empty() && !inventory.missing.is_empty() {
            // The reason was already reported.
            return Ok(Status::Failed);
        }
        let near = inventory.catalog.similar(server, tool);
        let hint = if near.is_empty() {
            format!("`coracle tools list --server {server}` lists its tools")
        } else {
            format!("did you mean {}?", near.join(" or "))
        };
        return Err(Mistake::new(format!("server {server} has no tool {tool:?}"), Some(hint)).into());
    };
    let text = match level {
        Level::Full => json(&serde_json::from_str::<Value>(&shown).context("cannot read the definition")?)?,
        _ => shown.trim_end().to_owned() + "\n",
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(Status::Success)
}
