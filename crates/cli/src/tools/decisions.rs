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

    /// Remove only the decision about the arguments with this digest, as printed by `coracle tools decisions`.
    #[arg(long, value_name = "DIGEST")]
    arguments: Option<String>,
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
        columns(rows.iter().map(|row| [row.server.to_string(), plain(&row.tool, MAX_NAME), reach(row)]))
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(Status::Success)
}

pub(super) fn forget(arguments: &ForgetArguments) -> anyhow::Result<Status> {
    let ForgetArguments { server, tool, arguments } = arguments;
    let was_there = runtime()?.block_on(async {
        let (store, user) = (store().await?, UserId::local());
        anyhow::Ok(match arguments {
            None => {
                let are_flows_forgotten = store.forget_flow_approvals(&user, server, tool).await?;
                store.forget(&user, server, tool).await? || are_flows_forgotten
            }
            Some(digest) => store.forget_arguments(&user, server, tool, digest).await?,
        })
    })?;
    if !was_there {
        let hint = "`coracle tools decisions` lists the decisions";
        return Err(
            Mistake::new(format!("there is no decision about {server}.{}", plain(tool, MAX_NAME)), Some(hint)).into()
        );
    }
    let what = if arguments.is_some() { "the decision about these arguments of" } else { "every decision about" };
    eprintln!("{what} {server}.{} was removed", plain(tool, MAX_NAME));
    Ok(Status::Success)
}

/// The decision, and the calls that it applies to.
fn reach(row: &DecisionView) -> String {
    match &row.arguments {
        None => word(row.decision).to_owned(),
        Some(digest) => format!("{} with arguments {}", word(row.decision), plain(digest, MAX_NAME)),
    }
}

fn word(decision: Decision) -> &'static str {
    match decision {
        Decision::Allow => "allow",
        Decision::Ask => "ask",
        Decision::Deny => "deny",
    }
}
