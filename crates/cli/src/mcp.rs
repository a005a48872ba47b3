//! `coracle mcp`: an MCP server on standard input and output, and its entry in the settings of clients.

mod install;
mod moving;
mod undo;

use crate::exec::Ahead;
use crate::face::{FaceArguments, Serving};
use crate::settings::{load, warn_of_not_followed};
use crate::signals::Signals;
use crate::status::{Mistake, Status};
use crate::wiring::check;
use anyhow::Context;
use clap::Args;
use install::{Client, Servers};
use std::io::IsTerminal;
use std::path::Path;
use std::str::FromStr;
use tokio_util::sync::CancellationToken;

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct McpArguments {
    #[command(flatten)]
    face: FaceArguments,

    /// Add Coracle to the configuration of an MCP client: claude, claude-desktop, cursor, vscode or codex.
    #[arg(long, value_name = "CLIENT", value_parser = Client::from_str)]
    install: Option<Client>,

    /// Undo all changes that --install made to the configuration of a client.
    #[arg(long, value_name = "CLIENT", value_parser = Client::from_str, conflicts_with_all = ["install", "profile", "tools", "workspace"])]
    uninstall: Option<Client>,

    /// With --install: move the client's MCP servers to Coracle, so that their tools are available through code only.
    #[arg(long, requires = "install", conflicts_with = "keep_servers")]
    move_servers: bool,

    /// With --install: leave the client's MCP servers in place, without asking.
    #[arg(long, requires = "install")]
    keep_servers: bool,

    /// With --install or --uninstall: apply the change without asking. Servers are moved only with --move-servers.
    #[arg(long, short = 'y')]
    yes: bool,
}

const AFTER_HELP: &str = "\
Examples:
  coracle mcp --install claude               connect Claude Code; shows the change and asks first
  coracle mcp --install claude --move-servers --yes
                                             also move its servers to Coracle, without asking
  coracle mcp --uninstall claude             undo the changes
  coracle mcp                                start the server; normally the client does this
  coracle mcp --profile direct               act as a plain gateway: every tool of every server
  coracle mcp --tools execute_code           offer only this tool";

pub(crate) fn run(arguments: &McpArguments, config: Option<&Path>, ahead: Option<Ahead>) -> anyhow::Result<Status> {
    if let Some(client) = arguments.install {
        let servers = match (arguments.move_servers, arguments.keep_servers) {
            (true, _) => Servers::Move,
            (_, true) => Servers::Keep,
            _ => Servers::Ask,
        };
        return install::run(client, &arguments.face, servers, arguments.yes, config);
    }
    if let Some(client) = arguments.uninstall {
        return install::undo(client, arguments.yes);
    }
    if arguments.yes {
        return Err(Mistake::new("--yes goes with --install or --uninstall", None::<&str>).into());
    }
    // Where there can be none, sandboxes are made as those of a server that runs for long.
    let launcher = ahead.unwrap_or_else(Ahead::new).into_launcher().ok();
    let loaded = load(config, arguments.face.flags())?;
    check(&loaded)?;
    warn_of_not_followed(&loaded);
    if std::io::stdin().is_terminal() {
        eprintln!("{AT_A_TERMINAL}");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("start the runtime")?;
    let outcome = runtime.block_on(async {
        let stop = CancellationToken::new();
        let mut signals = Signals::listen().context("listen for signals")?;
        let serving = Serving::start(&arguments.face, &loaded, launcher).await?;
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
    });
    // Everything has ended by now, but for the thread that reads standard input: at a terminal it would wait for a line.
    runtime.shutdown_background();
    outcome
}

/// The clients whose configuration `--install` has changed, by their names on the command line.
pub(crate) fn connected_clients() -> anyhow::Result<Vec<&'static str>> {
    let mut connected = Vec::new();
    for name in Client::NAMES {
        if undo::Undo::read(name)?.is_some() {
            connected.push(name);
        }
    }
    Ok(connected)
}

/// For people who start it by hand.
const AT_A_TERMINAL: &str = "\
waiting for an MCP client on standard input; this command is meant to be started by a client
`coracle mcp --install CLIENT` connects one, `coracle up` serves over HTTP; Ctrl-C ends this";
