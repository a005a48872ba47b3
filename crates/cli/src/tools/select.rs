use super::{settings, stock_to_search};
use crate::output::plain;
use crate::status::Status;
use crate::wiring::runtime;
use clap::{Args, ValueEnum};
use coracle_catalog::{Entry, Query, StarterLanguage};
use std::io::Write;
use std::path::Path;

#[derive(Debug, Args)]
pub(super) struct SelectArguments {
    /// Description of the task.
    #[arg(value_name = "TASK", required = true)]
    task: Vec<String>,

    /// Language of the starter program.
    #[arg(long = "lang", value_name = "LANG", default_value = "python")]
    language: Language,

    /// Maximum number of tools [default: the search.select_top setting].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=100))]
    top: Option<u16>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Language {
    Python,
    Typescript,
}

pub(super) fn run(arguments: &SelectArguments, config: Option<&Path>) -> anyhow::Result<Status> {
    let loaded = settings(config, None)?;
    if loaded.servers.is_empty() {
        return Ok(Status::Failed);
    }
    let task = arguments.task.join(" ");
    let (inventory, foreign) = runtime()?.block_on(async {
        let (toolbox, inventory) = stock_to_search(&loaded).await?;
        let foreign = toolbox.meaning(&inventory, &task).await;
        anyhow::Ok((inventory, foreign))
    })?;
    let search = &loaded.settings.search;
    let top = arguments.top.map_or(search.select_top, u64::from);
    #[expect(clippy::cast_precision_loss, reason = "at most 100")]
    let share = search.select_threshold as f32 / 100.0;
    let query = Query { foreign: foreign.as_ref(), ..Query::new(&task) };
    let hits = inventory.catalog.select(&query, usize::try_from(top).unwrap_or(usize::MAX), share);
    let chosen: Vec<&Entry> = hits.iter().map(|hit| hit.entry).collect();
    if chosen.is_empty() {
        eprintln!("none of the {} tools matches; `coracle tools list` lists all", inventory.catalog.len());
        return Ok(Status::Failed);
    }
    for entry in &chosen {
        eprintln!("{}.{}: {}", entry.package, entry.function, plain(&entry.summary, 300));
    }
    let language = match arguments.language {
        Language::Python => StarterLanguage::Python,
        Language::Typescript => StarterLanguage::Typescript,
    };
    std::io::stdout().write_all(inventory.catalog.starter(&task, &chosen, language).as_bytes())?;
    Ok(Status::Success)
}
