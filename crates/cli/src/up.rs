//! `coracle up`: serves MCP, the HTTP API and the agent.

mod demo;
mod greeting;
mod live_settings;
mod local_key;
mod sign_in;

use crate::frontend::{FrontendArguments, ServerSet, Serving};
use crate::listening::{addresses, listen};
use crate::models::{self, Local};
use crate::policies::{PolicyInForce, follow};
use crate::resources::share;
use crate::settings::{announce, flag, load, options, warn_of_not_followed};
use crate::signals::Signals;
use crate::status::Status;
use crate::users::warn_of_old_names;
use crate::variables;
use crate::wiring::{check, sound_store, told, workspaces};
use crate::workspaces::keep_house;
use anyhow::Context;
use clap::Args;
use coracle_accounts::People;
use coracle_config::{Flag, LoadOptions, Loaded};
use coracle_server::{Configuration, HttpOptions, Part, Parts};
use coracle_store::Home;
use coracle_upstream::Lender;
use demo::Demo;
use greeting::Greeting;
use live_settings::LiveSettings;
use sign_in::LocalAccess;
use std::net::SocketAddr;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct UpArguments {
    #[command(flatten)]
    frontend: FrontendArguments,

    /// IP address to listen on [default: 127.0.0.1].
    #[arg(long, value_name = "ADDRESS", conflicts_with = "listen")]
    host: Option<String>,

    /// Port to listen on; 0 picks a free port [default: 8989].
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,

    /// Addresses with ports to listen on, such as 127.0.0.1:8989; can be repeated.
    #[arg(long, value_name = "ADDRESS:PORT", value_delimiter = ',')]
    listen: Vec<String>,

    /// Parts to serve, separated by commas: mcp (/mcp), api (/api and /v1), page (pages for browsers) [default: all].
    #[arg(long, value_name = "PART,…", value_delimiter = ',', value_parser = Part::from_str, conflicts_with = "demo")]
    only: Vec<Part>,

    /// Take a guided tour without a model: scripted words, real code in a real sandbox, two harmless MCP servers, and a
    /// data folder that is deleted at the end.
    #[arg(long)]
    demo: bool,
}

const AFTER_HELP: &str = "\
Examples:
  coracle up                               serve on http://127.0.0.1:8989/mcp
  coracle up --profile direct --port 0     act as a plain MCP gateway, on any free port
  coracle up --demo                        see it work, without a model or settings
  coracle up --only mcp                    serve MCP only
  coracle up --listen 127.0.0.1:8989 --listen '[::1]:8989'   listen on several addresses

Authentication: by default, the server listens on loopback addresses only, and requires no sign-in as long as there are
no users. Once a user exists (coracle users add), everyone must sign in. With server.auth: required in the settings, the
first start creates the user `admin` and prints a sign-in link. To listen on an address that other machines can reach,
add a user or set server.auth to required.";

pub(crate) fn run(arguments: &UpArguments, config: Option<&Path>) -> anyhow::Result<Status> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start the runtime")?;
    if arguments.demo {
        return demo::run(arguments, config, &runtime);
    }
    let mut loaded = load(config, arguments.flags())?;
    check(&loaded)?;
    warn_of_not_followed(&loaded);
    announce(&loaded);
    runtime.block_on(async {
        let stop = CancellationToken::new();
        tokio::spawn(Signals::listen().context("cannot listen for signals")?.cancel(stop.clone()));
        let default = loaded.default_model();
        models::add_named(&mut loaded, default.as_deref());
        let local = if arguments.parts().has(Part::Api) { Local::find(&mut loaded).await } else { Local::default() };
        let live = options(config, arguments.flags())?;
        serve(arguments, &loaded, &local, Kind::Settings(live), stop).await
    })
}

impl UpArguments {
    /// Flags that are part of the settings.
    fn flags(&self) -> Vec<Flag> {
        let mut flags = self.frontend.flags();
        flags.extend(flag("server.host", "--host", self.host.as_ref()));
        flags.extend(flag("server.port", "--port", self.port));
        let listen = (!self.listen.is_empty()).then(|| self.listen.join(","));
        flags.extend(flag("server.listen", "--listen", listen));
        flags
    }

    fn parts(&self) -> Parts {
        if self.only.is_empty() { Parts::default() } else { Parts::only(self.only.iter().copied()) }
    }
}

/// What is served.
enum Kind<'a> {
    /// The settings that were loaded from these places.
    Settings(LoadOptions),
    Demo(&'a Demo),
}

async fn serve(
    arguments: &UpArguments,
    loaded: &Loaded,
    local: &Local,
    kind: Kind<'_>,
    stop: CancellationToken,
) -> anyhow::Result<Status> {
    let parts = arguments.parts();
    let wanted = addresses(loaded)?;
    let auth = sign_in::Auth::read(loaded, &wanted)?;
    let mut agent = models::agent_options(loaded)?;
    let share = share()?;
    // Two servers would have separate interpreters, with different variables, for the same session.
    let mut claim = Home::new(variables::home()?).claim().map_err(told)?;
    auth.check(&People::new(sound_store().await?), arguments.frontend.workspace.is_some()).await?;
    let listeners = listen(&wanted).await?;
    let bound = listeners.iter().map(TcpListener::local_addr).collect::<std::io::Result<Vec<SocketAddr>>>();
    let bound = bound.context("cannot find the address")?;
    let address = *bound.first().context("there is no address to listen on")?;
    claim.say(&format!("process {}, http://{address}", std::process::id())).map_err(told)?;
    let serving = Serving::start(&arguments.frontend, loaded, None, ServerSet::Changeable, "up").await?;
    serving.engine.limit_sandboxes(share.sandboxes);
    let workspaces = workspaces(&loaded.settings)?;
    warn_of_old_names(&workspaces);
    let people = People::new(Arc::clone(&serving.store)).with_workspaces(&workspaces).with_audit(serving.audit.log());
    let mut welcome = auth.welcome(&people, address).await?;
    let link = auth.local_link(&people, &parts).await?;
    welcome.extend(link.as_ref().map(|token| auth.local_link_line(token, address)));
    if parts.has(Part::Api) || auth.has_cors() {
        agent.local_key = Some(local_key::read_or_create(&variables::home()?)?);
    }
    if parts.has(Part::Api) {
        welcome.extend(greeting::agent(&agent, local, &people, address).await?);
    }
    match &kind {
        Kind::Demo(demo) => welcome.extend(demo.lines(address)),
        Kind::Settings(_) => welcome.push(format!("try       {}", auth.example(&people, address, &parts).await?)),
    }
    let greeting = Greeting {
        serving: &serving,
        profile: &loaded.settings.server.profile,
        addresses: &bound,
        parts: &parts,
        is_lasting: matches!(kind, Kind::Settings(_)),
    };
    let options = auth.options(loaded, people, LocalAccess { key: agent.local_key.clone(), link });
    let mut followed = None;
    let configuration = match (kind, &serving.toolbox) {
        (Kind::Settings(options), Some(toolbox)) => {
            let policy = PolicyInForce::new(options, loaded, Arc::clone(toolbox));
            followed = Some(follow(Arc::clone(&policy), loaded.clone(), serving.audit.log()));
            let live = LiveSettings::new(policy, loaded.clone(), serving.engine.clone());
            Some(Arc::new(live) as Arc<dyn Configuration>)
        }
        _ => None,
    };
    let options = HttpOptions { agent, parts: parts.clone(), configuration, ..options };
    // Clients are served at once, because information about servers may take a while.
    let served = tokio::spawn(coracle_server::serve_http(serving.frontend.clone(), listeners, options, stop.clone()));
    let lent = lend(&serving, &stop)?;
    let audit = serving.audit.clone();
    let anchored = tokio::spawn(async move { audit.keep_anchored().await });
    let followed = followed.map(tokio::spawn);
    let kept = tokio::spawn(keep_house(serving.engine.housekeeping(), loaded.settings.workspaces.cleanup.clone()));
    tokio::select! {
        () = greeting.print(&welcome) => {}
        () = stop.cancelled() => {}
    }
    let served = served.await.context("cannot serve HTTP")?;
    kept.abort();
    followed.inspect(tokio::task::JoinHandle::abort);
    anchored.abort();
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
