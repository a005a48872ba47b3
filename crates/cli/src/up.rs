//! `coracle up`: serves MCP over HTTP on one port.

mod local_key;
mod sign_in;

use crate::frontend::{FrontendArguments, Serving};
use crate::models;
use crate::output::{counted, plain};
use crate::resources::share;
use crate::settings::{announce, flag, load, warn_of_not_followed};
use crate::signals::Signals;
use crate::status::{Mistake, Status};
use crate::users::warn_of_old_names;
use crate::variables;
use crate::wiring::{check, sound_store, told, workspaces};
use crate::workspaces::keep_house;
use anyhow::Context;
use clap::Args;
use coracle_accounts::People;
use coracle_config::Loaded;
use coracle_engine::{Listing, Request};
use coracle_server::{AgentOptions, HttpOptions};
use coracle_store::Home;
use coracle_types::{Language, UserId};
use coracle_upstream::Lender;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Maximum length of a reason in characters.
const MAX_REASON: usize = 300;

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct UpArguments {
    #[command(flatten)]
    frontend: FrontendArguments,

    /// IP address to listen on [default: 127.0.0.1].
    #[arg(long, value_name = "ADDRESS")]
    host: Option<String>,

    /// Port to listen on; 0 picks a free port [default: 8989].
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,

    /// Parts to serve, separated by commas. This version has one part: mcp.
    #[arg(long, value_name = "PART,…", value_delimiter = ',', value_parser = part)]
    only: Option<Vec<String>>,
}

const AFTER_HELP: &str = "\
Examples:
  coracle up                               serve on http://127.0.0.1:8989/mcp
  coracle up --profile direct --port 0     act as a plain MCP gateway, on any free port
  coracle up --only mcp                    serve MCP only

Authentication: by default, the server listens on loopback addresses only, and requires no sign-in as long as there are
no users. Once a user exists (coracle users add), everyone must sign in. With server.auth: required in the settings, the
first start creates the user `admin` and prints a sign-in link. To listen on an address that other machines can reach,
add a user or set server.auth to required.";

fn part(name: &str) -> Result<String, String> {
    match name {
        "mcp" => Ok(name.to_owned()),
        "api" | "page" => Err(format!("this version does not have {name}: use mcp")),
        _ => Err("use mcp".to_owned()),
    }
}

pub(crate) fn run(arguments: &UpArguments, config: Option<&Path>) -> anyhow::Result<Status> {
    let mut flags = arguments.frontend.flags();
    flags.extend(flag("server.host", "--host", arguments.host.as_ref()));
    flags.extend(flag("server.port", "--port", arguments.port));
    let loaded = load(config, flags)?;
    check(&loaded)?;
    warn_of_not_followed(&loaded);
    announce(&loaded);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start the runtime")?;
    runtime.block_on(serve(arguments, &loaded))
}

async fn serve(arguments: &UpArguments, loaded: &Loaded) -> anyhow::Result<Status> {
    let stop = CancellationToken::new();
    tokio::spawn(Signals::listen().context("cannot listen for signals")?.cancel(stop.clone()));
    let host = sign_in::host(loaded)?;
    let auth = sign_in::Auth::read(loaded, host)?;
    let mut agent = models::agent_options(loaded)?;
    let share = share()?;
    // Two servers would have separate interpreters, with different variables, for the same session.
    let mut claim = Home::new(variables::home()?).claim().map_err(told)?;
    auth.check(&People::new(sound_store().await?), arguments.frontend.workspace.is_some()).await?;
    let listener = listen(loaded, host).await?;
    let address = listener.local_addr().context("cannot find the address")?;
    claim.say(&format!("process {}, http://{address}", std::process::id())).map_err(told)?;
    let serving = Serving::start(&arguments.frontend, loaded, None).await?;
    serving.engine.limit_sandboxes(share.sandboxes);
    let workspaces = workspaces(&loaded.settings)?;
    warn_of_old_names(&workspaces);
    let people = People::new(Arc::clone(&serving.store)).with_workspaces(&workspaces);
    let mut welcome = auth.welcome(&people, address).await?;
    if !agent.models.providers().is_empty() {
        agent.local_key = Some(local_key::read_or_create(&variables::home()?)?);
        welcome.push(agent_line(&agent, &people, address).await?);
    }
    welcome.push(format!("try       {}", auth.example(&people, address).await?));
    agent.store = Some(Arc::clone(&serving.store));
    let options = HttpOptions { agent, ..auth.options(loaded, people) };
    // Clients are served at once, because information about servers may take a while.
    let served = tokio::spawn(coracle_server::serve_http(serving.frontend.clone(), listener, options, stop.clone()));
    let lent = lend(&serving, &stop)?;
    let kept = tokio::spawn(keep_house(serving.engine.housekeeping(), loaded.settings.workspaces.cleanup.clone()));
    tokio::select! {
        () = greet(&serving, loaded, address, &welcome) => {}
        () = stop.cancelled() => {}
    }
    let served = served.await.context("cannot serve HTTP")?;
    kept.abort();
    if let Some(lent) = lent {
        lent.await.context("cannot share servers")?;
    }
    serving.end().await;
    served.context("cannot serve HTTP")?;
    eprintln!("coracle: stopped");
    Ok(Status::Success)
}

/// Lets commands of this user share the servers that run here. The lock on the data folder ensures that there is only
/// one lender.
fn lend(serving: &Serving, stop: &CancellationToken) -> anyhow::Result<Option<JoinHandle<()>>> {
    let Some(upstream) = serving.toolbox.as_ref().and_then(|toolbox| toolbox.upstream().passes_on()) else {
        return Ok(None);
    };
    let socket = Home::new(variables::home()?).servers_socket();
    match Lender::open(&socket) {
        Ok(lender) => Ok(Some(tokio::spawn(lender.serve(upstream.clone(), stop.clone())))),
        Err(error) => {
            eprintln!(
                "warning: commands cannot share servers and start their own: cannot listen on {}: {error}",
                socket.display()
            );
            Ok(None)
        }
    }
}

/// Opens the listening socket.
async fn listen(loaded: &Loaded, host: IpAddr) -> anyhow::Result<TcpListener> {
    let settings = &loaded.settings.server;
    let port = u16::try_from(settings.port).unwrap_or_default();
    let address = SocketAddr::new(host, port);
    TcpListener::bind(address).await.map_err(|error| {
        let hint = match error.kind() {
            std::io::ErrorKind::AddrInUse => {
                "another program, perhaps another coracle, uses this port: choose one with --port"
            }
            _ => "give another --host or --port",
        };
        Mistake::new(format!("cannot listen on {address}: {error}"), Some(hint)).into()
    })
}

/// Prints what a user needs to know.
/// Where the agent is, and how clients authenticate.
async fn agent_line(agent: &AgentOptions, people: &People, address: SocketAddr) -> anyhow::Result<String> {
    let model = match agent.models.find(None) {
        Ok(model) => format!("model {}", plain(&model.name(), MAX_REASON)),
        Err(_) => "no agent.default_model".to_owned(),
    };
    let key = if people.all().await.map_err(crate::users::told)?.is_empty() {
        format!("key in {}", variables::home()?.join(local_key::FILE).display())
    } else {
        "with an API key: coracle users keys".to_owned()
    };
    Ok(format!("agent     http://{address}/v1 ({model}; {key})"))
}

async fn greet(serving: &Serving, loaded: &Loaded, address: SocketAddr, welcome: &[String]) {
    let profile = &loaded.settings.server.profile;
    eprintln!("coracle {} serves MCP at http://{address}/mcp (profile {profile})", env!("CARGO_PKG_VERSION"));
    for line in welcome {
        eprintln!("  {line}");
    }
    // Runs a program, because only a real sandbox shows what is enforced.
    let tried = serving.engine.execute(Request::new(UserId::local(), Language::Python, "pass")).await;
    match &tried.failure {
        None => {
            let enforced = tried.limits.enforced.as_ref();
            let memory = enforced.map(|enforced| format!("{:?}", enforced.memory).to_lowercase()).unwrap_or_default();
            eprintln!(
                "  sandbox   {} (memory by {memory}), first start {:.0} ms; see coracle doctor",
                tried.limits.tier, tried.execution_time_ms
            );
        }
        Some(failure) => eprintln!("  sandbox   none: {}; see coracle doctor", plain(&failure.error, MAX_REASON)),
    }
    eprintln!("  connect   coracle mcp --install claude|cursor|vscode|codex, or any MCP client by the address above");
    let none = || eprintln!("  servers   none: import those of other clients with coracle servers import, or add one");
    let Some(toolbox) = &serving.toolbox else { return none() };
    let toolbox = Arc::clone(toolbox);
    let inventory = toolbox.inventory(&UserId::local(), Listing::All).await;
    toolbox.begin_reading(&inventory).await;
    if inventory.catalog.servers().is_empty() && inventory.missing.is_empty() {
        none();
    }
    for server in inventory.catalog.servers() {
        eprintln!("  server    {}: {}", server.name, counted(server.tools.len(), "tool"));
    }
    for (server, reason) in &inventory.missing {
        eprintln!("  server    {server}: not available: {}", plain(reason, MAX_REASON));
    }
}
