//! `coracle bench tokens`: tokens that a model reads and writes with direct calls and with code.
//!
//! `own.rs` counts the definitions of the configured servers, and `discovery.rs` the cost of finding one tool among
//! them. `task.rs` reads the tasks, `agent.rs` runs them in three ways with a scripted agent (`agent.py`), and
//! `report.rs` compares the results.
//!
//! A token counts once, when it enters the context or is written. Sending a conversation again at each turn does not
//! count.

mod agent;
mod definitions;
mod discovery;
mod own;
mod report;
mod task;

use crate::bar::bar;
use crate::outcome::Outcome;
use crate::setup::OwnTools;
use agent::{Agent, Way};
use anyhow::Context;
use clap::Args;
use report::Report;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct TokensArguments {
    /// Count only the tool definitions of your servers; do no tasks.
    #[arg(long, conflicts_with_all = ["only", "tasks"])]
    own: bool,

    /// Tasks to do, as parts of their names separated by commas. Your servers are then not counted.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,

    /// Folder with the tasks: world.py and one YAML file per task [default: the built-in tasks].
    #[arg(long, value_name = "DIR")]
    tasks: Option<PathBuf>,

    /// Also measure tool discovery on this set: a folder with tools.jsonl and queries.jsonl.
    #[arg(long, value_name = "DIR")]
    set: Option<PathBuf>,

    /// Folder with the test servers [default: CORACLE_TEST_SERVERS, otherwise test-servers in the build folder].
    #[arg(long, value_name = "DIR")]
    servers: Option<PathBuf>,

    /// Print one line of JSON instead of tables.
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "\
The tasks run against real servers in a separate folder; `cargo xtask needs` installs the servers. The exit
status is 1 if any way of doing a task gives a result other than the expected one.";

pub(crate) async fn run(arguments: TokensArguments, own_tools: OwnTools) -> anyhow::Result<Outcome> {
    let mut report = Report::default();
    if let Some(folder) = &arguments.set {
        report.set = Some(discovery::of_set(folder)?);
    }
    if arguments.only.is_empty() {
        match own::count(own_tools).await? {
            Some(own) => report.own = Some(own),
            None => {
                report.skip("own", "no servers are configured: use `coracle servers add` or `coracle servers import`");
            }
        }
    }
    if !arguments.own {
        let set = match &arguments.tasks {
            Some(folder) => task::Set::read(folder)?,
            None => task::Set::embedded()?,
        };
        let set = set.only(&arguments.only)?;
        match Agent::find(arguments.servers) {
            Ok(agent) => done(&agent, &set, &mut report).await?,
            Err(reason) => report.skip("tasks", &format!("{reason:#}")),
        }
    }
    let is_good = report.is_equal();
    let text = if arguments.json {
        serde_json::to_string(&report).context("cannot write the report")? + "\n"
    } else {
        report.render()
    };
    Ok(Outcome { text, is_good })
}

/// Runs all tasks in each way.
async fn done(agent: &Agent, set: &task::Set, report: &mut Report) -> anyhow::Result<()> {
    let progress = bar();
    progress.set_length(Way::ALL.len() as u64);
    let mut ways = Vec::new();
    for way in Way::ALL {
        progress.set_message(way.as_str());
        ways.push(agent.run(way, set).await.with_context(|| format!("the tasks, {}", way.as_str()))?);
        progress.inc(1);
    }
    progress.finish_and_clear();
    report.take_in(&set.tasks, &ways);
    Ok(())
}
