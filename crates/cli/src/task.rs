//! `coracle task`: gives the agent a task and shows how it works on it.

use crate::agent::{
    AgentArguments, Progress, Turn, Worker, choose, limit_code, problem, report_problem, runtime, show_selection,
    status,
};
use crate::output::json_line;
use crate::settings::{announce, load, warn_of_not_followed};
use crate::signals::Signals;
use crate::status::{Mistake, Status};
use crate::wiring::{cancellable, check};
use anyhow::Context;
use clap::Args;
use coracle_agent::{Ended, RunOutcome};
use coracle_config::Loaded;
use coracle_models::{Item, Part};
use coracle_server::{SelectedTools, new_client};
use serde_json::{Value, json};
use std::io::{IsTerminal, Read, Write as _};
use std::path::Path;
use tokio_util::sync::CancellationToken;

/// Maximum length of a task in bytes.
const MAX_TASK_BYTES: u64 = 1 << 20;

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct TaskArguments {
    /// Task in plain words; read from standard input if omitted or `-`.
    #[arg(value_name = "TASK")]
    task: Option<String>,

    #[command(flatten)]
    agent: AgentArguments,

    /// Print the result as one line of JSON, and nothing else on standard output.
    #[arg(long)]
    json: bool,

    /// Also show which tools were found and selected for the task.
    #[arg(long, short = 'v', conflicts_with = "quiet")]
    verbose: bool,
}

const AFTER_HELP: &str = "\
Examples:
  coracle task 'How many commits did each author make this month?'
  coracle task --model ollama/qwen3 'Plot the temperatures in /workspace/data.csv'
  echo 'Summarise the open issues' | coracle task --json

The answer goes to standard output; code, its output and tool calls go to standard error. Tool calls that need approval
are asked about at the terminal. Without a model, a program that calls the selected tools is printed instead of an answer.";

pub(crate) fn run(arguments: &TaskArguments, config: Option<&Path>) -> anyhow::Result<Status> {
    let task = read_task(arguments)?;
    let mut loaded = load(config, Vec::new())?;
    check(&loaded)?;
    // Before anything is started: without a model there is no answer.
    let choice = match cancellable(choose(&mut loaded, arguments.agent.model.as_deref())) {
        Ok(choice) => choice,
        Err(error) if error.is::<Mistake>() && !loaded.servers.is_empty() => {
            runtime()?.block_on(start_program(arguments, &loaded, &task, &error))?;
            return Err(error);
        }
        Err(error) => return Err(error),
    };
    warn_of_not_followed(&loaded);
    announce(&loaded);
    runtime()?.block_on(async {
        let cancel = CancellationToken::new();
        tokio::spawn(Signals::listen().context("cannot listen for signals")?.cancel(cancel.clone()));
        let worker = Worker::new(arguments.agent.serve(&loaded).await?, choice);
        let selected = worker.select(&task).await;
        if arguments.verbose {
            show_selection(&selected);
        }
        let turn = Turn {
            items: vec![Item::User { parts: vec![Part::text(task)] }],
            selected: selected.clone(),
            cancel,
            conversation: new_client(),
            journal: None,
            progress: Progress::new(!arguments.json, !arguments.agent.quiet),
        };
        let (outcome, model) = (worker.work(turn).await, worker.model());
        worker.end().await;
        let outcome = outcome?;
        if arguments.json {
            let mut report = report(&outcome, &model);
            if arguments.verbose {
                report["found_tools"] = json!(selected.found);
                report["selected_tools"] = json!(selected.names);
            }
            println!("{}", json_line(&report)?.trim_end());
        } else {
            report_problem(&outcome.ended);
        }
        Ok(status(&outcome.ended))
    })
}

/// Prints a program that calls the tools that were selected for a task, for people without a model.
async fn start_program(
    arguments: &TaskArguments,
    loaded: &Loaded,
    task: &str,
    error: &anyhow::Error,
) -> anyhow::Result<()> {
    let cancel = CancellationToken::new();
    tokio::spawn(Signals::listen().context("cannot listen for signals")?.cancel(cancel.clone()));
    let serving = arguments.agent.serve(loaded).await?;
    let selected = tokio::select! {
        selected = SelectedTools::of(&serving.frontend, task) => selected,
        () = cancel.cancelled() => SelectedTools::default(),
    };
    serving.end().await;
    if arguments.json {
        let error = error.to_string();
        let report = json!({
            "success": false, "result": "", "error": error, "error_code": "no_model", "starter": selected.starter,
        });
        println!("{}", json_line(&report)?.trim_end());
    } else if let Some(starter) = &selected.starter {
        eprintln!("coracle: there is no model, so here is a program to start with; run it with coracle exec");
        std::io::stdout().write_all(starter.as_bytes())?;
    }
    Ok(())
}

fn read_task(arguments: &TaskArguments) -> anyhow::Result<String> {
    let task = if let Some(task) = arguments.task.as_deref().filter(|task| *task != "-") {
        task.to_owned()
    } else {
        if std::io::stdin().is_terminal() && arguments.task.is_none() {
            return Err(Mistake::new("there is no task", Some("coracle task 'what to do'")).into());
        }
        let mut task = String::new();
        let read = std::io::stdin().take(MAX_TASK_BYTES + 1).read_to_string(&mut task);
        read.context("cannot read the task from standard input")?;
        task
    };
    if task.len() as u64 > MAX_TASK_BYTES {
        return Err(Mistake::new(format!("the task is longer than {MAX_TASK_BYTES} bytes"), None::<&str>).into());
    }
    if task.trim().is_empty() {
        return Err(Mistake::new("the task is empty", Some("coracle task 'what to do'")).into());
    }
    Ok(task)
}

/// The result for programs.
fn report(outcome: &RunOutcome, model: &str) -> Value {
    let problem = problem(&outcome.ended);
    let code = match &outcome.ended {
        Ended::Failed(error) => Some(error.code()),
        ended => limit_code(ended),
    };
    json!({
        "success": problem.is_none(),
        "result": outcome.text(),
        "error": problem,
        "error_code": code,
        "model": model,
        "steps": outcome.steps,
        "usage": outcome.usage,
        "items": outcome.items,
    })
}
