//! `coracle bench search`: quality and speed of tool search, and cost of the index.

mod query_set;
mod report;
mod synthetic;

use anyhow::Context;
use clap::Args;
use coracle_catalog::{Catalog, Query, ServerTools};
use query_set::Set;
use report::{Report, Row};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Number of results that are evaluated.
const PLACES: usize = 50;

/// Sizes of the generated catalogs.
const SIZES: [usize; 3] = [1_000, 10_000, 100_000];
const FEW: [usize; 1] = [1_000];

/// Time limit for building an index.
const READY_WITHIN: Duration = Duration::from_mins(5);

#[derive(Debug, Args)]
pub(crate) struct SearchArguments {
    /// Folder with tools.jsonl and queries.jsonl, with known answers; can be repeated [default: generated catalogs of
    /// 1,000, 10,000 and 100,000 tools].
    #[arg(long = "set", value_name = "DIR")]
    sets: Vec<PathBuf>,

    /// Write the tools found to this file, one line of JSON per query.
    #[arg(long, value_name = "FILE", requires = "sets")]
    rankings: Option<PathBuf>,

    /// Use only the smallest generated catalog, to check that the benchmark works.
    #[arg(long)]
    quick: bool,

    /// Print one line of JSON instead of tables.
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(arguments: SearchArguments) -> anyhow::Result<String> {
    // The work is CPU-bound.
    tokio::task::spawn_blocking(move || measure(&arguments)).await.context("cannot search")?
}

fn measure(arguments: &SearchArguments) -> anyhow::Result<String> {
    let mut report = Report::default();
    let mut rankings = String::new();
    if arguments.sets.is_empty() {
        let sizes: &[usize] = if arguments.quick { &FEW } else { &SIZES };
        for size in sizes {
            report.rows.push(row(synthetic::set(*size)?, &mut rankings)?);
        }
    }
    for folder in &arguments.sets {
        report.rows.push(row(Set::read(folder)?, &mut rankings)?);
    }
    if let Some(file) = &arguments.rankings {
        std::fs::write(file, rankings).with_context(|| format!("cannot write {}", file.display()))?;
    }
    if arguments.json {
        return Ok(serde_json::to_string(&report).context("cannot write the report")? + "\n");
    }
    Ok(report.render())
}

fn row(set: Set, rankings: &mut String) -> anyhow::Result<Row> {
    let Set { name, servers, ids, queries } = set;
    let tools = servers.iter().map(|server: &ServerTools| server.tools.len()).sum();
    let begun = Instant::now();
    let catalog = Catalog::new(servers);
    let listed = begun.elapsed();
    let before = resident();
    let begun = Instant::now();
    catalog.prepare_search();
    let ready = begun.elapsed();
    while !catalog.knows_meanings() {
        anyhow::ensure!(begun.elapsed() < READY_WITHIN, "{name}: the index is not ready after {READY_WITHIN:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
    let whole = begun.elapsed();
    let index_bytes = resident().saturating_sub(before);
    let mut row = Row::new(name, tools, queries.len(), [listed, ready, whole], index_bytes);
    for query in &queries {
        let begun = Instant::now();
        let hits = catalog.search(&Query::new(&query.text), PLACES);
        row.took(begun.elapsed());
        let found: Vec<&str> = hits
            .iter()
            .filter_map(|hit| ids.get(&(hit.entry.server.clone(), hit.entry.name.clone())))
            .map(String::as_str)
            .collect();
        row.found(&found, &query.relevant);
        let line = serde_json::json!({ "id": query.id, "ranking": found });
        let _ = writeln!(rankings, "{line}");
    }
    row.conclude();
    Ok(row)
}

/// Resident memory of this process in bytes.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or_default();
    pages * rustix::param::page_size() as u64
}
