//! `coracle bench`: measures Coracle, its peers and the floor in one run.
//!
//! `tools.rs` is `bench tools`, `search.rs` is `bench search`, `tokens.rs` is `bench tokens`, and `server.rs` is `bench
//! server`. The rest is `bench sandbox`: `start_times.rs` measures all rows in turns, so that noise affects them
//! equally, `rate.rs` counts executions per second, and `memory.rs` measures processes. What cannot be measured on this
//! machine is skipped with a reason.

mod coracle;
mod floor;
mod memory;
mod peers;
mod program;
mod rate;
mod report;
mod search;
mod server;
mod start_times;
mod tokens;
mod tools;

use crate::signals::Signals;
use crate::status::Status;
use crate::variables;
use anyhow::Context;
use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use report::Report;
use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Debug, Args)]
pub(crate) struct BenchArguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Measure the start-up time, throughput and memory use of sandboxes.
    Sandbox(SandboxArguments),
    /// Measure the latency of tool calls from sandboxed code and from the Python MCP client.
    Tools(tools::ToolsArguments),
    /// Measure the quality and speed of tool search, and the cost of the index.
    Search(search::SearchArguments),
    /// Count the tokens that a model reads and writes: tool definitions of your servers, and tasks done with direct
    /// calls and with code.
    Tokens(tokens::TokensArguments),
    /// Measure one server under load: live sessions, concurrent executions and memory over time.
    Server(server::ServerArguments),
    /// Run a server of the bare protocol library, as the baseline for `bench tools`.
    #[command(name = BASELINE, hide = true)]
    Baseline,
}

/// Hidden command, which only this program calls.
const BASELINE: &str = "baseline";

/// Parts of the benchmark besides the rows of the table of start times.
const RATE: &str = "per_second";
const MEMORY: &str = "memory";
const PARTS: [&str; 14] = [
    "fresh",
    "on_demand",
    "session",
    "cold",
    "floor",
    "import_pandas",
    "import_pandas_preloaded",
    "bwrap",
    "docker_run",
    "docker_exec",
    "podman_run",
    "runsc",
    RATE,
    MEMORY,
];

#[derive(Debug, Args)]
struct SandboxArguments {
    /// Number of runs per row; slow rows get fewer.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    runs: u32,

    /// Parts to measure, separated by commas [default: all].
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = PARTS)]
    only: Vec<String>,

    /// Container image for docker and podman. It must contain python3 and is never pulled [default: the first local
    /// image with python3].
    #[arg(long, value_name = "NAME", env = variables::BENCH_IMAGE, hide_env_values = true)]
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

/// Result of a benchmark.
#[derive(Debug)]
struct Outcome {
    /// Text to print.
    text: String,
    status: Status,
}

impl From<String> for Outcome {
    fn from(text: String) -> Self {
        Self { text, status: Status::Success }
    }
}

pub(crate) fn run(arguments: BenchArguments, config: Option<&Path>) -> anyhow::Result<Status> {
    let config: Option<PathBuf> = config.map(Path::to_owned);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start the runtime")?;
    let outcome = runtime.block_on(async {
        // Runs as a task, as in a server; this thread only waits.
        let mut work = match arguments.what {
            What::Search(arguments) => tokio::spawn(async { search::run(arguments).await.map(Outcome::from) }),
            What::Sandbox(arguments) => tokio::spawn(async { Box::pin(sandbox(arguments)).await.map(Outcome::from) }),
            What::Tools(arguments) => tokio::spawn(async { tools::run(arguments).await.map(Outcome::from) }),
            What::Tokens(arguments) => tokio::spawn(tokens::run(arguments, config)),
            What::Server(arguments) => tokio::spawn(server::run(arguments)),
            What::Baseline => tokio::spawn(async {
                coracle_server::baseline::Baseline.over_stdio().await.context("cannot serve")?;
                Ok(Outcome::from(String::new()))
            }),
        };
        let mut signals = Signals::listen().context("cannot listen for signals")?;
        tokio::select! {
            outcome = &mut work => outcome.context("the benchmark")?.map(Some),
            () = signals.next() => {
                work.abort();
                // Waits until everything is dropped. The error only says that the task was cancelled.
                let _ = work.await;
                Ok(None)
            }
        }
    })?;
    let Some(outcome) = outcome else { return Ok(Status::Cancelled) };
    std::io::stdout().write_all(outcome.text.as_bytes())?;
    Ok(outcome.status)
}

/// Measures, and returns the text of the report.
async fn sandbox(arguments: SandboxArguments) -> anyhow::Result<String> {
    let (scale, json) = (Scale::of(&arguments), arguments.json);
    let wanted = Wanted { parts: arguments.only.into_iter().collect(), image: arguments.image };
    let report = measure(scale, wanted).await?;
    if json {
        return Ok(serde_json::to_string(&report).context("cannot write the report")? + "\n");
    }
    Ok(report.render())
}

async fn measure(scale: Scale, wanted: Wanted) -> anyhow::Result<Report> {
    let folder =
        tempfile::Builder::new().prefix("coracle-bench-").tempdir().context("cannot create a temporary folder")?;
    let mut report = Report::default();
    let progress = bar();
    let bench = coracle::Bench::start(folder.path()).await?;
    start_times::measure(&bench, &scale, &wanted, &progress, &mut report).await;
    if wanted.has(RATE) {
        rate::measure(&bench, &scale, &progress, &mut report).await;
    }
    bench.shutdown().await;
    if wanted.has(MEMORY) {
        memory::measure(folder.path(), &scale, &progress, &mut report).await;
    }
    progress.finish_and_clear();
    Ok(report)
}

/// Progress bar on standard error, if that is a terminal.
fn bar() -> ProgressBar {
    let bar = ProgressBar::new(0);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}") {
        bar.set_style(style);
    }
    bar
}
