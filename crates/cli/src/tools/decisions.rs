use crate::output::{columns, json, plain};
use crate::status::{Mistake, Status};
use crate::wiring::{runtime, store};
use clap::Args;
use coracle_server::DecisionView;
use coracle_types::{Decision, ServerName, UserId};
use std::io::Write;

/// Maximum length of a printed tool name in characters.
const MAX_NAME: usize = 128;

#[derive(Debug, Args)]
pub(super) struct DecisionsArguments {
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(super) struct ForgetArguments {
    /// Server name.
    #[arg(value_name = "SERVER", value_parser = |name: &str| ServerName::new(name))]
    server: ServerName,

    /// Tool name, as printed by `coracle tools decisions`.
    #[arg(value_name = "TOOL")]
    tool: String,
}

pub(super) fn list(arguments: &DecisionsArguments) -> anyhow::Result<Status> {
    let decisions = runtime()?.block_on(async { anyhow::Ok(store().await?.decisions(&UserId::local()).await?) })?;
    let rows: Vec<DecisionView> = decisions.into_iter().map(DecisionView::from).collect();
    let text = if arguments.json {
        json(&rows)?
    } else {
        if rows.is_empty() {
            eprintln!("there are no permanent decisions");
        }
        columns(
            rows.iter().map(|row| [row.server.to_string(), plain(&row.tool, MAX_NAME), word(row.decision).to_owned()]),
        )
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(Status::Success)
}

pub(super) fn forget(arguments: &ForgetArguments) -> anyhow::Result<Status> {
    let ForgetArguments { server, tool } = arguments;
    let was_there =
        runtime()?.block_on(async { anyhow::Ok(store().await?.forget(&UserId::local(), server, tool).await?) })?;
    if !was_there {
        let hint = "`coracle tools decisions` lists the decisions";
        return Err(
            Mistake::new(format!("there is no decision about {server}.{}", plain(tool, MAX_NAME)), Some(hint)).into()
        );
    }
    eprintln!("the decision about {server}.{} was removed", plain(tool, MAX_NAME));
    Ok(Status::Success)
}

fn word(decision: Decision) -> &'static str {
    match decision {
        Decision::Allow => "allow",
        Decision::Ask => "ask",
        Decision::Deny => "deny",
    }
}
