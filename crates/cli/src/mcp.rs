//! `coracle mcp`: an MCP server on standard input and output, and its entry in the settings of clients.

mod install;

use crate::face::{FaceArguments, Serving};
use crate::settings::{load, warn_of_not_followed};
use crate::signals::Signals;
use crate::status::Status;
use anyhow::Context;
use clap::Args;
use install::Client;
use std::path::Path;
use std::str::FromStr;
use tokio_util::sync::CancellationToken;

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct McpArguments {
    #[command(flatten)]
    face: FaceArguments,

    /// Write the entry that starts this into the settings of a client: claude, claude-desktop, cursor, vscode or codex.
    #[arg(long, value_name = "CLIENT", value_parser = Client::from_str)]
    install: Option<Client>,

    /// With --install: write it without asking.
    #[arg(long, short = 'y', requires = "install")]
    yes: bool,
}

const AFTER_HELP: &str = "\
Examples:
  coracle mcp --install claude               connect Claude Code (shows the change first)
  coracle mcp                                what the client then starts
  coracle mcp --profile direct               a plain gateway: every tool of every server
  coracle mcp --tools execute_code           just this one";

pub(crate) fn run(arguments: &McpArguments, config: Option<&Path>) -> anyhow::Result<Status> {
    if let Some(client) = arguments.install {
        return install::run(client, &arguments.face, arguments.yes, config);
    }
    let loaded = load(config, arguments.face.flags())?;
    warn_of_not_followed(&loaded);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("start the runtime")?;
    runtime.block_on(async {
        let stop = CancellationToken::new();
        let mut signals = Signals::listen().context("listen for signals")?;
        let serving = Serving::start(&arguments.face, &loaded).await?;
        let served = coracle_server::serve_stdio(serving.face.clone(), stop.clone());
        tokio::pin!(served);
        let served = tokio::select! {
            served = &mut served => served,
            () = signals.next() => {
                stop.cancel();
                served.await
            }
        };
        serving.end().await;
        served.context("serve standard input and output")?;
        Ok(Status::Success)
    })
}
