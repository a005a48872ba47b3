//! `coracle plans`: lists, shows, runs and deletes plans.

mod render;

use crate::audit::Audit;
use crate::backends::{Containers, Sandboxes, backend};
use crate::output::{agreed, columns, counted, json, plain};
use crate::python_environment::packages;
use crate::settings::load;
use crate::signals::Signals;
use crate::status::{Mistake, Status};
use crate::wiring::{Purpose, check, engine, folders, store, toolbox_if_any};
use anyhow::Context;
use clap::{Args, Subcommand};
use coracle_engine::{Engine, PlanApproval, PlanError};
use coracle_types::{Plan, PlanId, PlanState, UserId};
use serde_json::{Map, json};
use std::collections::BTreeSet;
use std::io::{IsTerminal, Write};
use std::path::Path;
use tokio_util::sync::CancellationToken;

/// Maximum length of a text in a list, in characters.
const MAX_SHOWN: usize = 80;

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct PlansArguments {
    #[command(subcommand)]
    command: PlansCommand,
}

const AFTER_HELP: &str = "\
A plan is made by running code in the mode plan: tools that only read are called, and everything else is listed. It runs
only if nothing has changed since: definitions of tools, answers of reads, files of the workspace.

Examples:
  coracle exec --plan report.py     list what the code would do, and run it after approval
  coracle plans list                list all plans
  coracle plans run ID --only 3,4   run two effects of a plan, after approval";

#[derive(Debug, Subcommand)]
enum PlansCommand {
    /// List all plans, newest first.
    List {
        /// Print JSON instead of a table.
        #[arg(long)]
        json: bool,
    },
    /// Print the effects of a plan.
    Show(One),
    /// Run a plan after approval. Ends at the first effect that fails.
    Run {
        #[command(flatten)]
        one: One,

        /// Numbers of the effects to run, separated by commas [default: all].
        #[arg(long, value_name = "NUMBER,…", value_delimiter = ',')]
        only: Option<Vec<u64>>,

        /// Approve without being asked.
        #[arg(long, short = 'y')]
        yes: bool,
    },
    /// Delete a plan.
    Delete(One),
}

#[derive(Debug, Args)]
struct One {
    /// Plan ID.
    #[arg(value_name = "ID", value_parser = |id: &str| PlanId::new(id))]
    plan: PlanId,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &PlansArguments, config: Option<&Path>) -> anyhow::Result<Status> {
    let loaded = load(config, Vec::new())?;
    check(&loaded)?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start the runtime")?;
    runtime.block_on(async {
        let cancel = CancellationToken::new();
        tokio::spawn(Signals::listen().context("cannot listen for signals")?.cancel(cancel.clone()));
        let settings = &loaded.settings;
        let sandboxes = Sandboxes {
            pool: 0,
            preload: false,
            require_full_isolation: false,
            limits: settings.limits(),
            python: settings.execution.python.clone(),
            folders: folders(settings)?,
            packages: packages(settings)?,
            containers: Containers::wanted(settings),
        };
        let store = store().await?;
        let toolbox = toolbox_if_any(&loaded, &store, Map::new(), Purpose::Command)?;
        let audit = Audit::new(&loaded, Some(&store))?;
        let engine = engine(settings, audit.log(), backend(&sandboxes)?, store, toolbox.clone())?;
        let done = command(&engine, &arguments.command, &cancel).await;
        engine.shutdown().await;
        if let Some(toolbox) = toolbox {
            toolbox.upstream().shutdown().await;
        }
        audit.end().await;
        done
    })
}

async fn command(engine: &Engine, command: &PlansCommand, cancel: &CancellationToken) -> anyhow::Result<Status> {
    let user = UserId::local();
    match command {
        PlansCommand::List { json: as_json } => {
            let plans = engine.plans(&user).await.map_err(told)?;
            if *as_json {
                print(&json(&plans)?)?;
                return Ok(Status::Success);
            }
            if plans.is_empty() {
                eprintln!("there are no plans: coracle exec --plan FILE makes one");
            }
            let rows = plans.iter().map(|plan| {
                [
                    plan.id.to_string(),
                    plan.state.as_str().to_owned(),
                    counted(plan.effects.len(), "effect"),
                    plan.created_at.clone(),
                    plain(&render::summary(plan), MAX_SHOWN),
                ]
            });
            print(&columns(rows))?;
        }
        PlansCommand::Show(one) => {
            let plan = engine.plan(&user, &one.plan).await.map_err(told)?;
            print(&if one.json { json(&plan)? } else { render::text(&plan) })?;
        }
        PlansCommand::Delete(one) => {
            engine.delete_plan(&user, &one.plan).await.map_err(told)?;
            if one.json {
                print(&json(&json!({ "id": one.plan, "deleted": true }))?)?;
            } else {
                eprintln!("deleted plan {}", one.plan);
            }
        }
        PlansCommand::Run { one, only, yes } => {
            let plan = engine.plan(&user, &one.plan).await.map_err(told)?;
            let only: Option<BTreeSet<u64>> = only.as_ref().map(|only| only.iter().copied().collect());
            if plan.state == PlanState::Open && !yes {
                eprint!("{}", render::text(&plan));
                let question = match &only {
                    None => format!("Run {}?", counted(plan.effects.len(), "effect")),
                    Some(only) => {
                        let numbers: Vec<String> = only.iter().map(u64::to_string).collect();
                        format!("Run only {}?", numbers.join(", "))
                    }
                };
                if !agreed(&question, "--yes approves the plan")? {
                    return Ok(Status::Cancelled);
                }
            }
            let approval = PlanApproval { user, plan: plan.id, effects: only, cancel: cancel.clone() };
            return match engine.run_plan(approval).await {
                Ok(plan) => {
                    print(&if one.json { json(&plan)? } else { render::text(&plan) })?;
                    Ok(if plan.state == PlanState::Done { Status::Success } else { Status::Failed })
                }
                Err(error) => Err(told(error)),
            };
        }
    }
    Ok(Status::Success)
}

/// Prints the plan of an execution. At a terminal, runs it after approval, and returns how it ended.
pub(crate) async fn offer(engine: &Engine, plan: Plan) -> anyhow::Result<Option<Status>> {
    if plan.state == PlanState::Empty {
        eprintln!("plan: the code changes nothing");
        return Ok(None);
    }
    eprint!("{}", render::text(&plan));
    let blocked = plan.effects.iter().any(|effect| effect.blocked.is_some());
    if plan.state != PlanState::Open {
        return Ok(None);
    }
    if blocked || !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        eprintln!("hint: coracle plans run {} runs the plan, and --only NUMBER,… a part of it", plan.id);
        return Ok(None);
    }
    let question = format!("Run {}?", counted(plan.effects.len(), "effect"));
    let answer = tokio::task::spawn_blocking(move || agreed(&question, "")).await.context("cannot prompt")?;
    if !answer? {
        eprintln!("hint: coracle plans run {} runs it later", plan.id);
        return Ok(None);
    }
    let approval =
        PlanApproval { user: UserId::local(), plan: plan.id, effects: None, cancel: CancellationToken::new() };
    let ended = engine.run_plan(approval).await.map_err(told)?;
    eprint!("{}", render::text(&ended));
    Ok(Some(if ended.state == PlanState::Done { Status::Success } else { Status::Failed }))
}

fn print(text: &str) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout();
    stdout.write_all(text.as_bytes())?;
    Ok(stdout.flush()?)
}

/// An error with its hint.
fn told(error: PlanError) -> anyhow::Error {
    let hint = error.hint();
    match error {
        PlanError::Missing | PlanError::NotOpen { .. } | PlanError::Selection { .. } => {
            Mistake::new(error, hint).into()
        }
        error => match hint {
            Some(hint) => anyhow::anyhow!("{error}\nhint: {hint}"),
            None => error.into(),
        },
    }
}
