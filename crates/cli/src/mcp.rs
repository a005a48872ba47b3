//! `coracle mcp`: an MCP server on standard input and output, and its entry in the settings of clients.

mod client;
mod install;
mod moving;
mod undo;

use crate::exec::Ahead;
use crate::frontend::{FrontendArguments, ServerSet, Serving};
use crate::models;
use crate::policies::{PolicyInForce, follow};
use crate::settings::{load, options, warn_of_not_followed};
use crate::signals::Signals;
use crate::status::{Mistake, Status};
use crate::wiring::check;
use anyhow::Context;
use clap::Args;
use client::Client;
use coracle_accounts::People;
use install::Servers;
use std::io::IsTerminal;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct McpArguments {
    #[command(flatten)]
    frontend: FrontendArguments,

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
        return install::run(client, &arguments.frontend, servers, arguments.yes, config);
    }
    if let Some(client) = arguments.uninstall {
        return install::undo(client, arguments.yes);
    }
    if arguments.yes {
        return Err(Mistake::new("--yes requires --install or --uninstall", None::<&str>).into());
    }
    // Without a forked launcher, sandboxes are created like those of a long-running server.
    let launcher = ahead.unwrap_or_else(Ahead::new).into_launcher().ok();
    let loaded = load(config, arguments.frontend.flags())?;
    let live = options(config, arguments.frontend.flags())?;
    check(&loaded)?;
    let agent = models::agent_options(&loaded)?;
    warn_of_not_followed(&loaded);
    if std::io::stdin().is_terminal() {
        eprintln!("{AT_A_TERMINAL}");
    }
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start the runtime")?;
    let outcome = runtime.block_on(async {
        let stop = CancellationToken::new();
        let mut signals = Signals::listen().context("cannot listen for signals")?;
        let serving = Serving::start(&arguments.frontend, &loaded, launcher, ServerSet::Fixed, "mcp").await?;
        let followed = serving.toolbox.as_ref().map(|toolbox| {
            let policy = PolicyInForce::new(live.clone(), &loaded, Arc::clone(toolbox));
            tokio::spawn(follow(policy, loaded.clone(), serving.audit.log()))
        });
        let people = People::new(Arc::clone(&serving.store)).with_audit(serving.audit.log());
        let served = coracle_server::serve_stdio(serving.frontend.clone(), agent, &people, stop.clone());
        tokio::pin!(served);
        let served = tokio::select! {
            served = &mut served => served,
            () = signals.next() => {
                stop.cancel();
                served.await
            }
        };
        followed.inspect(tokio::task::JoinHandle::abort);
        serving.end().await;
        served.context("cannot serve stdio")?;
        Ok(Status::Success)
    });
    // Only the thread that reads standard input is left, which would wait for a line at a terminal.
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

/// Message for people who start the command by hand.
const AT_A_TERMINAL: &str = "\
waiting for an MCP client on standard input; this command is meant to be started by a client
`coracle mcp --install CLIENT` connects one, `coracle up` serves over HTTP; Ctrl-C ends this";
