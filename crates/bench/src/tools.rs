//! `coracle bench tools`: latency of tool calls, compared with the Python MCP client.
//!
//! `plan.rs` has the rows, `callers.rs` makes the calls, and `frontends.rs` has the servers that a client calls. `baseline.rs`
//! is the MCP library alone. The floor is a call that the host answers without the broker.

mod baseline;
mod callers;
mod decisions;
mod frontends;
mod in_process;
mod plan;
mod report;

pub(crate) use baseline::{BASELINE, Baseline};

use crate::bar::bar;
use crate::setup::Setup;
use anyhow::Context;
use callers::Callers;
use clap::Args;
use indicatif::ProgressBar;
use plan::{Plan, ROWS, Times};
use report::{Report, Row};
use std::path::PathBuf;

/// Number of rounds of a full run.
const ROUNDS: usize = 3;

/// Number of calls of a quick run.
const QUICK_CALLS: usize = 10;

#[derive(Debug, Args)]
pub(crate) struct ToolsArguments {
    /// Number of calls per row in each of three rounds; slow rows get fewer.
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    runs: u32,

    /// Folder with the test servers [default: CORACLE_TEST_SERVERS, otherwise test-servers in the build folder].
    #[arg(long, value_name = "DIR")]
    servers: Option<PathBuf>,

    /// Measure only the rows whose names contain this text.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,

    /// Use one round with few calls, only to check that the benchmark works.
    #[arg(long)]
    quick: bool,

    /// Print one line of JSON instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Measures, and returns the text of the report.
pub(crate) async fn run(arguments: ToolsArguments, setup: Setup) -> anyhow::Result<String> {
    let calls = arguments.runs as usize;
    let (calls, rounds) = if arguments.quick { (calls.min(QUICK_CALLS), 1) } else { (calls, ROUNDS) };
    let folder =
        tempfile::Builder::new().prefix("coracle-bench-").tempdir().context("cannot create a temporary folder")?;
    let callers = Callers::start(&setup, folder.path(), arguments.servers).await?;
    let progress = bar();
    let rows: Vec<Plan> = match &arguments.only {
        Some(only) => ROWS.into_iter().filter(|plan| plan.name.contains(only.as_str())).collect(),
        None => ROWS.into(),
    };
    let report = measure(&callers, &rows, calls, rounds, &progress).await;
    progress.finish_and_clear();
    callers.shutdown().await;
    if arguments.json {
        return Ok(serde_json::to_string(&report).context("cannot write the report")? + "\n");
    }
    Ok(report.render())
}

async fn measure(callers: &Callers, rows: &[Plan], calls: usize, rounds: usize, progress: &ProgressBar) -> Report {
    let mut report = Report::default();
    let mut measured: Vec<Vec<Times>> = vec![Vec::new(); rows.len()];
    progress.set_length((rounds * rows.len()) as u64);
    for _ in 0..rounds {
        for (plan, times) in rows.iter().zip(&mut measured) {
            progress.set_message(plan.name);
            if !report.skipped.contains_key(plan.name) {
                match callers.run(plan, calls).await {
                    Ok(one) => times.push(one),
                    Err(reason) => {
                        report.skipped.insert(plan.name.to_owned(), format!("{reason:#}"));
                    }
                }
            }
            progress.inc(1);
        }
    }
    for (plan, times) in rows.iter().zip(&measured) {
        if !report.skipped.contains_key(plan.name) {
            report.rows.push(Row::new(plan, plan.orders(calls).calls, times));
        }
    }
    report.conclude();
    report
}
