//! `coracle workspaces`: lists and cleans up workspaces.

use crate::output::{columns, json};
use crate::settings::{announce, load};
use crate::status::Status;
use crate::wiring::{cancellable, store, workspaces};
use anyhow::Context;
use clap::{Args, Subcommand};
use coracle_config::{CleanupMode as Mode, Loaded, WorkspacesCleanup};
use coracle_engine::{Cleaned, Cleanup, CleanupMode, CleanupStep, Housekeeping, WorkspaceUse};
use coracle_types::Timestamp;
use serde_json::{Value, json};
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Interval of the clean-up on a server.
const EACH: Duration = Duration::from_hours(1);

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct WorkspacesArguments {
    #[command(subcommand)]
    command: WorkspacesCommand,
}

const AFTER_HELP: &str = "\
A workspace is deleted only if it has not been used for the number of days in workspaces.cleanup.after_days, and if a
notice was issued at least workspaces.cleanup.notice_hours hours before. Skills, sessions and accounts are kept.

Examples:
  coracle workspaces list               show the size and last use of each workspace
  coracle workspaces clean              issue notices for unused workspaces
  coracle workspaces clean --yes        delete workspaces whose notice period is over";

#[derive(Debug, Subcommand)]
enum WorkspacesCommand {
    /// List all workspaces with size and last use.
    List(ListArguments),
    /// Issue notices for unused workspaces; with --yes, delete those whose notice period is over.
    Clean(CleanArguments),
}

#[derive(Debug, Args)]
struct ListArguments {
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct CleanArguments {
    /// Delete unused workspaces whose notice period is over. Without this option, nothing is deleted.
    #[arg(long, conflicts_with = "dry_run")]
    yes: bool,

    /// Only report which workspaces would be deleted; this is the default.
    #[arg(long)]
    dry_run: bool,

    /// Number of days after which a workspace counts as unused [default: the workspaces.cleanup.after_days setting].
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u64).range(1..=36_500))]
    after_days: Option<u64>,
}

pub(crate) fn run(arguments: &WorkspacesArguments, config: Option<&Path>) -> anyhow::Result<Status> {
    let loaded = load(config, Vec::new())?;
    announce(&loaded);
    match &arguments.command {
        WorkspacesCommand::List(arguments) => cancellable(list(arguments, &loaded)),
        WorkspacesCommand::Clean(arguments) => cancellable(clean(arguments, &loaded)),
    }
}

async fn housekeeping(loaded: &Loaded) -> anyhow::Result<Housekeeping> {
    Ok(Housekeeping::new(workspaces(&loaded.settings)?, store().await?))
}

async fn list(arguments: &ListArguments, loaded: &Loaded) -> anyhow::Result<Status> {
    let all = housekeeping(loaded).await?.list().await.context("cannot read the workspaces")?;
    let text = if arguments.json {
        json(&all.iter().map(told).collect::<Vec<_>>())?
    } else {
        if all.is_empty() {
            eprintln!("there are no workspaces yet");
        }
        columns(all.iter().map(|one| {
            [
                one.user.to_string(),
                size(one.bytes),
                format!("{} files", one.files),
                format!("artifacts {}", size(one.artifact_bytes)),
                format!("old output {}", size(one.output_bytes)),
                format!("used {}", ago(one.last_used)),
            ]
        }))
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(Status::Success)
}

fn told(one: &WorkspaceUse) -> Value {
    json!({
        "user": one.user, "bytes": one.bytes, "files": one.files, "artifact_bytes": one.artifact_bytes,
        "output_bytes": one.output_bytes,
        "last_used": Timestamp::from(one.last_used),
    })
}

async fn clean(arguments: &CleanArguments, loaded: &Loaded) -> anyhow::Result<Status> {
    let set = &loaded.settings.workspaces.cleanup;
    let mode = if arguments.yes { CleanupMode::Delete } else { CleanupMode::DryRun };
    let days = arguments.after_days.unwrap_or(set.after_days);
    let cleanup = Cleanup { mode, ..policy(set, days) };
    let cleaned = housekeeping(loaded).await?.clean(cleanup).await.context("cannot clean up the workspaces")?;
    if cleaned.is_empty() {
        eprintln!("every workspace was used within {days} days, or is empty");
    }
    let text = columns(cleaned.iter().map(|one| {
        let Cleaned { workspace, step, due } = one;
        [
            workspace.user.to_string(),
            size(workspace.bytes),
            format!("used {}", ago(workspace.last_used)),
            said(step, *due),
        ]
    }));
    std::io::stdout().write_all(text.as_bytes())?;
    let failed = cleaned.iter().any(|one| matches!(one.step, CleanupStep::Failed(_)));
    Ok(if failed { Status::Failed } else { Status::Success })
}

fn said(step: &CleanupStep, due: SystemTime) -> String {
    let left = due.duration_since(SystemTime::now()).unwrap_or_default().as_secs().div_ceil(3600);
    match step {
        CleanupStep::Noticed => format!("notice given: may be deleted in {left} hours"),
        CleanupStep::Waiting => format!("notice was given: may be deleted in {left} hours"),
        CleanupStep::Due => "may be deleted now: use --yes".to_owned(),
        CleanupStep::Deleted => "deleted".to_owned(),
        CleanupStep::Failed(reason) => format!("cannot be deleted: {reason}"),
    }
}

fn policy(set: &WorkspacesCleanup, days: u64) -> Cleanup {
    Cleanup {
        after: Duration::from_hours(24 * days),
        notice: Duration::from_hours(set.notice_hours),
        mode: match set.mode {
            Mode::Delete => CleanupMode::Delete,
            Mode::Off | Mode::DryRun => CleanupMode::DryRun,
        },
    }
}

/// Cleans up workspaces according to the settings, for as long as a server runs.
pub(crate) async fn keep_house(housekeeping: Housekeeping, set: WorkspacesCleanup) {
    if set.mode == Mode::Off {
        return;
    }
    let cleanup = policy(&set, set.after_days);
    loop {
        // Each step is logged where it happens.
        if let Err(error) = housekeeping.clean(cleanup).await {
            tracing::warn!(%error, "cannot clean up workspaces");
        }
        tokio::time::sleep(EACH).await;
    }
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{} kB", bytes / 1_000),
        1_000_000..1_000_000_000 => format!("{} MB", bytes / 1_000_000),
        _ => format!("{}.{} GB", bytes / 1_000_000_000, bytes / 100_000_000 % 10),
    }
}

fn ago(time: SystemTime) -> String {
    let age = time.elapsed().unwrap_or_default().as_secs();
    match age {
        0..3_600 => "within the hour".to_owned(),
        3_600..172_800 => format!("{} hours ago", age / 3_600),
        _ => format!("{} days ago", age / 86_400),
    }
}
