use crate::output::{columns, counted, json, plain};
use crate::status::{Mistake, Status};
use crate::wiring::{runtime, store};
use clap::Args;
use coracle_server::{FlowApprovalView, SourceView};
use coracle_store::Place;
use coracle_types::{ServerName, UserId};
use serde::Serialize;
use std::io::Write;

/// Maximum length of a printed place or rule in characters.
const MAX_TEXT: usize = 200;

#[derive(Debug, Args)]
pub(super) struct SourcesArguments {
    /// User whose data it is [default: local].
    #[arg(long, value_name = "NAME", value_parser = |name: &str| UserId::new(name))]
    user: Option<UserId>,

    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(super) struct ForgetArguments {
    /// Place, as printed by `coracle policy sources`.
    #[arg(value_name = "PLACE", required_unless_present = "all")]
    place: Option<String>,

    /// Forget the sources of all places.
    #[arg(long, conflicts_with = "place")]
    all: bool,

    /// User whose data it is [default: local].
    #[arg(long, value_name = "NAME", value_parser = |name: &str| UserId::new(name))]
    user: Option<UserId>,
}

#[derive(Serialize)]
struct Listed {
    sources: Vec<SourceView>,
    approvals: Vec<FlowApprovalView>,
}

pub(super) fn list(arguments: &SourcesArguments) -> anyhow::Result<Status> {
    let user = arguments.user.clone().unwrap_or_else(UserId::local);
    let listed = runtime()?.block_on(async {
        let store = store().await?;
        let sources = store.sources(&user).await?.into_iter().map(SourceView::from).collect();
        let approvals = store.flow_approvals(&user).await?.into_iter().map(FlowApprovalView::from).collect();
        anyhow::Ok(Listed { sources, approvals })
    })?;
    let text = if arguments.json {
        json(&listed)?
    } else {
        if listed.sources.is_empty() {
            eprintln!("no sources are noted");
        }
        let sources = columns(listed.sources.iter().map(|source| {
            let labels: Vec<&str> = source.labels.iter().map(|label| label.as_str()).collect();
            let pending = source.execution.as_ref().map(|id| format!("while {id} runs, or until it is forgotten"));
            [plain(&source.place, MAX_TEXT), source.server.to_string(), labels.join(", "), pending.unwrap_or_default()]
        }));
        let approvals = columns(listed.approvals.iter().map(|approval| {
            let names: Vec<&str> = approval.sources.iter().map(ServerName::as_str).collect();
            let tool = format!("{}.{}", approval.server, plain(&approval.tool, MAX_TEXT));
            ["approved".to_owned(), format!("{} -> {tool}", names.join(", ")), plain(&approval.rule, MAX_TEXT)]
        }));
        sources + &approvals
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(Status::Success)
}

pub(super) fn forget(arguments: &ForgetArguments) -> anyhow::Result<Status> {
    let user = arguments.user.clone().unwrap_or_else(UserId::local);
    let place = arguments.place.as_ref().map(Place::named);
    let forgotten =
        runtime()?.block_on(async { anyhow::Ok(store().await?.forget_sources(&user, place.as_ref()).await?) })?;
    if let (0, Some(place)) = (forgotten, &place) {
        let hint = "`coracle policy sources` lists the places";
        let message = format!("no sources are noted for {}", plain(place.as_str(), MAX_TEXT));
        return Err(Mistake::new(message, Some(hint)).into());
    }
    let count = counted(usize::try_from(forgotten).unwrap_or(usize::MAX), "entry").replace("entrys", "entries");
    eprintln!("{count} removed");
    Ok(Status::Success)
}
