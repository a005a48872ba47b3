//! `coracle bench sandbox`: start-up time, throughput and memory of sandboxes.
//!
//! `start_times.rs` measures all rows in turns, `rate.rs` counts executions per second, and `memory.rs` measures
//! processes.

mod containers;
mod coracle;
mod floor;
mod memory;
mod rate;
mod report;
mod start_times;

use crate::bar::bar;
use crate::setup::Setup;
use anyhow::Context;
use clap::Args;
use coracle_config::BENCH_IMAGE_VARIABLE;
use report::Report;
use std::collections::BTreeSet;
use std::time::Duration;

/// Parts of the benchmark besides the rows of the table of start times.
const RATE: &str = "per_second";
const MEMORY: &str = "memory";
const PARTS: [&str; 16] = [
    "fresh",
    "on_demand",
    "session",
    "cold",
    "floor",
    "import_pandas",
    "import_pandas_preloaded",
    "bwrap",
    "docker",
    "docker_first",
    "docker_run",
    "docker_exec",
    "podman_run",
    "runsc",
    RATE,
    MEMORY,
];

#[derive(Debug, Args)]
pub(crate) struct SandboxArguments {
    /// Number of runs per row; slow rows get fewer.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    runs: u32,

    /// Parts to measure, separated by commas [default: all].
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = PARTS)]
    only: Vec<String>,

    /// Container image for docker and podman. It must contain python3 and is never pulled [default: the first local
    /// image with python3].
    #[arg(long, value_name = "NAME", env = BENCH_IMAGE_VARIABLE, hide_env_values = true)]
    image: Option<String>,

    /// Use few runs and small counts, only to check that the benchmark works.
    #[arg(long)]
    quick: bool,

    /// Print one line of JSON instead of tables.
    #[arg(long)]
    json: bool,
}

/// Size of the measurement.
#[derive(Clone, Debug)]
struct Scale {
    runs: usize,
    /// Number of rounds; each row is measured in every round.
    rounds: usize,
    /// Numbers of concurrent executions.
    at_once: &'static [usize],
    rate_rounds: usize,
    rate_window: Duration,
    prepared: &'static [usize],
    sessions: &'static [usize],
}

/// Concurrency at which the floor is measured as well.
const FLOOR_AT_ONCE: usize = 8;

impl Scale {
    fn of(arguments: &SandboxArguments) -> Self {
        let runs = arguments.runs as usize;
        if arguments.quick {
            return Self {
                runs: runs.min(4),
                rounds: 2,
                at_once: &[2, 8, 32],
                rate_rounds: 1,
                rate_window: Duration::from_millis(200),
                prepared: &[4, 8],
                sessions: &[2, 4],
            };
        }
        Self {
            runs,
            rounds: runs.clamp(1, 20),
            at_once: &[2, 8, 32],
            rate_rounds: 9,
            rate_window: Duration::from_secs(1),
            prepared: &[100, 1_000],
            sessions: &[10, 200],
        }
    }
}

/// Requested parts.
#[derive(Clone, Debug)]
struct Wanted {
    /// Names of the parts; empty means all.
    parts: BTreeSet<String>,
    image: Option<String>,
}

impl Wanted {
    fn has(&self, part: &str) -> bool {
        self.parts.is_empty() || self.parts.contains(part)
    }
}

/// Measures, and returns the text of the report.
pub(crate) async fn run(arguments: SandboxArguments, setup: Setup) -> anyhow::Result<String> {
    let (scale, json) = (Scale::of(&arguments), arguments.json);
    let wanted = Wanted { parts: arguments.only.into_iter().collect(), image: arguments.image };
    let report = measure(setup, scale, wanted).await?;
    if json {
        return Ok(serde_json::to_string(&report).context("cannot write the report")? + "\n");
    }
    Ok(report.render())
}

async fn measure(setup: Setup, scale: Scale, wanted: Wanted) -> anyhow::Result<Report> {
    let folder =
        tempfile::Builder::new().prefix("coracle-bench-").tempdir().context("cannot create a temporary folder")?;
    let mut report = Report::default();
    let progress = bar();
    let bench = coracle::Bench::start(setup, folder.path()).await?;
    start_times::measure(&bench, &scale, &wanted, &progress, &mut report).await;
    if wanted.has(RATE) {
        rate::measure(&bench, &scale, &progress, &mut report).await;
    }
    bench.shutdown().await;
    if wanted.has(MEMORY) {
        memory::measure(&bench.setup, folder.path(), &scale, &progress, &mut report).await;
    }
    progress.finish_and_clear();
    Ok(report)
}
