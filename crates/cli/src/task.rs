//! `coracle task`: gives the agent a task and shows how it works on it.

mod progress;

use crate::frontend::{FrontendArguments, Serving};
use crate::models::{self, Local};
use crate::output::{json_line, plain};
use crate::settings::{announce, load, warn_of_not_followed};
use crate::signals::Signals;
use crate::status::{Mistake, Status};
use crate::terminal::Terminal;
use crate::wiring::{cancellable, check};
use anyhow::Context;
use clap::Args;
use coracle_accounts::People;
use coracle_agent::{Agent, Ended, RunOutcome, RunRequest};
use coracle_config::Loaded;
use coracle_models::{ChoiceError, ChosenModel, Item, ModelRequest, Part};
use coracle_server::{AgentOptions, FrontendTools, within_daily_tokens};
use coracle_types::UserId;
use progress::Progress;
use serde_json::{Value, json};
use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Events of a run that may wait to be shown.
const MAX_WAITING_EVENTS: usize = 256;
/// Maximum length of a model's name in a message, in characters.
const MAX_MODEL: usize = 128;
/// Maximum length of a task in bytes.
const MAX_TASK_BYTES: u64 = 1 << 20;

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct TaskArguments {
    /// Task in plain words; read from standard input if omitted or `-`.
    #[arg(value_name = "TASK")]
    task: Option<String>,

    /// Model to use, such as anthropic/claude-sonnet-5 or ollama/qwen3; see coracle models [default: the
    /// agent.default_model setting, or the only model of the only model server on this machine].
    #[arg(long, short = 'm', value_name = "MODEL")]
    model: Option<String>,

    /// Folder to use as /workspace instead of the user's own workspace.
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,

    /// Allow a home folder or / as --workspace. Code can then read and change everything in it except Coracle's data
    /// folder.
    #[arg(long, requires = "workspace")]
    expose_home: bool,

    /// Print the result as one line of JSON, and nothing else on standard output.
    #[arg(long)]
    json: bool,

    /// Show only the answer, not the code and its output.
    #[arg(long, short = 'q')]
    quiet: bool,
}

const AFTER_HELP: &str = "\
Examples:
  coracle task 'How many commits did each author make this month?'
  coracle task --model ollama/qwen3 'Plot the temperatures in /workspace/data.csv'
  echo 'Summarise the open issues' | coracle task --json

The answer goes to standard output; code, its output and tool calls go to standard error. Tool calls that need approval
are asked about at the terminal.";

pub(crate) fn run(arguments: &TaskArguments, config: Option<&Path>) -> anyhow::Result<Status> {
    let task = read_task(arguments)?;
    let mut loaded = load(config, Vec::new())?;
    check(&loaded)?;
    // Before anything is started: without a model there is nothing to do.
    let (agent, chosen) = choose(&mut loaded, arguments.model.as_deref())?;
    warn_of_not_followed(&loaded);
    announce(&loaded);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start the runtime")?;
    runtime.block_on(async {
        let cancel = CancellationToken::new();
        tokio::spawn(Signals::listen().context("cannot listen for signals")?.cancel(cancel.clone()));
        let request = ModelRequest {
            model: chosen.model.clone(),
            items: vec![Item::User { parts: vec![Part::text(task)] }],
            ..ModelRequest::default()
        };
        let mut run = RunRequest::new(Arc::clone(&chosen.provider), request);
        run.fences = agent.fences(&chosen.provider_name);
        run.cancel = cancel;
        work(arguments, &loaded, &agent, run, &chosen.name()).await
    })
}

/// Chooses the model: the one that is named or configured, or else the only one on this machine.
fn choose(loaded: &mut Loaded, named: Option<&str>) -> anyhow::Result<(AgentOptions, ChosenModel)> {
    let model = named.map(str::to_owned).or_else(|| loaded.default_model());
    models::add_named(loaded, model.as_deref());
    let agent = models::agent_options(loaded)?;
    let error = match agent.models.find(named) {
        Ok(chosen) => return Ok((agent, chosen)),
        Err(error @ ChoiceError::NoKey { .. }) => return Err(Mistake::new(&error, Some(error.hint())).into()),
        Err(error) => error,
    };
    let local = cancellable(async { Ok(Local::find(loaded).await) })?;
    let agent = models::agent_options(loaded)?;
    let only = local.only_model().filter(|_| model.is_none());
    match agent.models.find(only.as_deref().or(named)) {
        Ok(chosen) => {
            for line in local.descriptions() {
                eprintln!("coracle: {line} (found on this machine); using {}", plain(&chosen.name(), MAX_MODEL));
            }
            Ok((agent, chosen))
        }
        Err(_) => Err(no_model(&error, &local).into()),
    }
}

/// The error without a usable model, with what could be used.
fn no_model(error: &ChoiceError, local: &Local) -> Mistake {
    let hint = if let Some(example) = local.example() {
        format!("{}: choose one, such as coracle task --model {example} …", local.descriptions().join("; "))
    } else {
        format!("{}; or start Ollama, LM Studio or llama.cpp on this machine", error.hint())
    };
    Mistake::new(error, Some(hint))
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

async fn work(
    arguments: &TaskArguments,
    loaded: &Loaded,
    options: &AgentOptions,
    mut run: RunRequest,
    model: &str,
) -> anyhow::Result<Status> {
    let frontend = FrontendArguments {
        profile: None,
        tools: None,
        workspace: arguments.workspace.clone(),
        expose_home: arguments.expose_home,
        require_full_isolation: false,
    };
    let serving = Serving::start(&frontend, loaded, None).await?;
    let people = People::new(Arc::clone(&serving.store));
    run.provider = within_daily_tokens(run.provider, &people, &UserId::local(), options.daily_tokens);
    let tools = FrontendTools::new(serving.frontend.clone(), Arc::new(Terminal::default()));
    run.request.instructions = options.instructions(&tools.instructions().await, "");
    let provider = model.split('/').next().unwrap_or_default();
    let agent = Agent::new(Arc::new(tools), options.limits(provider));
    let (sender, mut events) = mpsc::channel(MAX_WAITING_EVENTS);
    let mut progress = Progress::new(!arguments.json, !arguments.quiet);
    let showing = async {
        while let Some(event) = events.recv().await {
            progress.show(event)?;
        }
        progress.end()
    };
    let (outcome, shown) = tokio::join!(agent.run(run, sender), showing);
    serving.end().await;
    shown?;
    if arguments.json {
        println!("{}", json_line(&report(&outcome, model))?.trim_end());
    } else if let Some(why) = problem(&outcome.ended) {
        eprintln!("error: {why}");
        if let Ended::Failed(error) = &outcome.ended
            && let Some(hint) = error.hint()
        {
            eprintln!("hint: {hint}");
        }
    }
    Ok(status(&outcome.ended))
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

/// Why a task was not finished.
fn problem(ended: &Ended) -> Option<String> {
    match ended {
        Ended::Done => None,
        Ended::ClientCalls(_) => Some("the model called a tool that does not exist".to_owned()),
        Ended::Parked { .. } => Some("a call waits for approval".to_owned()),
        Ended::Refused => Some("the model refused the task".to_owned()),
        Ended::Length => Some("the answer reached its maximum length".to_owned()),
        Ended::Steps(most) => Some(format!("stopped after {most} steps (agent.max_steps)")),
        Ended::Calls(most) => Some(format!("stopped after {most} tool calls (agent.max_calls)")),
        Ended::Tokens(most) => Some(format!("stopped after {most} tokens (agent.max_run_tokens)")),
        Ended::Loop => Some("stopped because the model repeated the same call".to_owned()),
        Ended::Cancelled => Some("cancelled".to_owned()),
        Ended::Failed(error) => Some(error.to_string()),
        Ended::NotRecorded(error) => Some(error.to_string()),
    }
}

fn limit_code(ended: &Ended) -> Option<&'static str> {
    match ended {
        Ended::Done | Ended::Failed(_) => None,
        Ended::ClientCalls(_) => Some("unknown_tool"),
        Ended::Parked { .. } => Some("approval"),
        Ended::Refused => Some("refused"),
        Ended::Length => Some("length"),
        Ended::Steps(_) => Some("steps"),
        Ended::Calls(_) => Some("calls"),
        Ended::Tokens(_) => Some("tokens"),
        Ended::Loop => Some("loop"),
        Ended::Cancelled => Some("cancelled"),
        Ended::NotRecorded(_) => Some("not_recorded"),
    }
}

fn status(ended: &Ended) -> Status {
    match ended {
        Ended::Done => Status::Success,
        Ended::Cancelled => Status::Cancelled,
        Ended::Failed(_) => Status::Unavailable,
        _ => Status::Failed,
    }
}
