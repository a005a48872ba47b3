//! Callers: code in sandboxes, and the Python client.

use super::decisions;
use super::frontends::Frontends;
use super::in_process::{Straight, echo};
use super::plan::{By, From, NAP_SECONDS, Orders, Pages, Plan, Times};
use crate::backend::native;
use crate::program::Program;
use crate::setup::Setup;
use crate::test_servers::{HINT, test_servers};
use anyhow::Context;
use coracle_engine::{
    Audience, CallCaps, Engine, EngineConfig, Privacy, PrivacyModes, Request, Servers, Toolbox, ToolboxConfig,
};
use coracle_policy::Rules;
use coracle_privacy::{Detector, Vaults};
use coracle_sandbox::Packages;
use coracle_store::{Home, KeySource, SqliteStore};
use coracle_types::{Language, Limits, PrivacyMode, Scope, Secret, ServerName, ServerSpec, Transport, UserId};
use coracle_upstream::{Options, Upstream};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

const SERVER: &str = include_str!("server.py");
const DIRECT: &str = include_str!("direct.py");
const PYTHON: &str = include_str!("guest.py");
const TYPESCRIPT: &str = include_str!("guest.ts");
const PAGES: &str = include_str!("pages.py");
const READS: &str = include_str!("reads.py");

/// Name of the server in code.
const NAME: &str = "bench";

/// Time limit of a row.
const WITHIN: Duration = Duration::from_mins(5);

/// Python with version 2 of the package `mcp`.
#[derive(Clone, Debug)]
struct Sdk {
    python: PathBuf,
    server: PathBuf,
    direct: PathBuf,
}

impl Sdk {
    async fn find(servers: Option<PathBuf>, folder: &Path) -> anyhow::Result<Self> {
        let python = test_servers(servers)?.join("venv/bin/python");
        anyhow::ensure!(python.is_file(), "there is no {}: {HINT}", python.display());
        let sdk = Self { python, server: folder.join("server.py"), direct: folder.join("direct.py") };
        std::fs::write(&sdk.server, SERVER)
            .and_then(|()| std::fs::write(&sdk.direct, DIRECT))
            .and_then(|()| std::fs::write(folder.join("pages.py"), PAGES))
            .context("cannot write scripts")?;
        let import = ["-c", "import mcp.server.mcpserver"].map(Into::into);
        let probe = Program::new(std::iter::once(sdk.python.clone().into_os_string()).chain(import));
        probe.output().await.context("cannot find mcp 2")?;
        Ok(sdk)
    }

    fn server_arguments(&self) -> [String; 2] {
        [self.server.display().to_string(), NAP_SECONDS.to_string()]
    }

    fn spec(&self, name: ServerName) -> ServerSpec {
        ServerSpec {
            name,
            transport: Transport::Stdio {
                command: self.python.display().to_string(),
                args: self.server_arguments().map(Secret::new).into(),
                env: BTreeMap::new(),
                cwd: None,
            },
            scope: Scope::User,
            description: None,
            category: None,
            client: None,
            start_timeout: Duration::from_mins(1),
            call_timeout: Duration::from_mins(1),
        }
    }

    /// Command line of the server that is called.
    fn server(&self) -> Vec<String> {
        std::iter::once(self.python.display().to_string()).chain(self.server_arguments()).collect()
    }

    /// Calls the server with this address or command line.
    async fn call(&self, server: Vec<String>, orders: &Orders) -> anyhow::Result<Times> {
        let orders = serde_json::to_string(orders).context("cannot write the orders")?;
        let line = [self.python.as_os_str(), self.direct.as_os_str()].map(ToOwned::to_owned);
        let arguments = server.into_iter().chain([orders]).map(Into::into);
        let output = Program::new(line.into_iter().chain(arguments)).output().await?;
        serde_json::from_slice(&output.stdout).context("cannot read the measurements of the Python client")
    }
}

/// Everything that makes calls.
#[derive(Debug)]
pub(super) struct Callers {
    in_process: Engine,
    /// Rows that need this are skipped with the reason if it is missing.
    stdio: Result<(Engine, Sdk, Arc<Toolbox>, Arc<Vaults>), String>,
    /// The vaults of the server in this process.
    vaults: Arc<Vaults>,
    frontends: Frontends,
    workspace: PathBuf,
}

impl Callers {
    pub(super) async fn start(setup: &Setup, folder: &Path, servers: Option<PathBuf>) -> anyhow::Result<Self> {
        let backend = native(setup, setup.pool, limits(), Packages::default())?;
        backend.report().await.context("cannot start the sandbox (see `coracle doctor`)")?;
        let workspace = folder.join("workspace");
        std::fs::create_dir_all(&workspace).context("cannot create a workspace")?;
        let name = ServerName::new(NAME).context("invalid server name")?;
        let engine = |home: PathBuf, store: Arc<SqliteStore>, toolbox: &Arc<Toolbox>| {
            let config = EngineConfig { workspaces: home.join("workspaces"), session_idle: WITHIN };
            Engine::new(config, Arc::clone(&backend) as _, store, Some(Arc::clone(toolbox)))
        };
        let home = folder.join("in-process");
        let (store, tools) = toolbox(&home, echo(name.clone())).await?;
        let vaults_in =
            |store: &Arc<SqliteStore>| Arc::new(Vaults::new(Arc::clone(store) as _, Detector::default(), None));
        let vaults = vaults_in(&store);
        let in_process = engine(home.clone(), store, &tools);
        let stdio = match Sdk::find(servers, folder).await {
            Ok(sdk) => {
                let home = folder.join("stdio");
                let (store, toolbox) = toolbox(&home, Upstream::new(vec![sdk.spec(name)], Options::default())).await?;
                let vaults = vaults_in(&store);
                Ok((engine(home, store, &toolbox), sdk, toolbox, vaults))
            }
            Err(reason) => Err(format!("{reason:#}")),
        };
        let frontends = Frontends::start(folder, in_process.clone()).await?;
        Ok(Self { in_process, stdio, vaults, frontends, workspace })
    }

    /// Runs one row once.
    pub(super) async fn run(&self, plan: &Plan, calls: usize) -> anyhow::Result<Times> {
        let orders = plan.orders(calls);
        let stdio = || self.stdio.as_ref().map_err(|reason| anyhow::anyhow!("{reason}"));
        let engine = match plan.from {
            From::Host | From::Process => &self.in_process,
            From::Stdio | From::Nap | From::Http => &stdio()?.0,
        };
        self.protect(engine, plan)?;
        let times = match plan.by {
            By::Policy(kind) => decisions::measure(kind, orders.calls)?,
            By::Direct => {
                let sdk = &stdio()?.1;
                sdk.call(sdk.server(), &orders).await?
            }
            By::Client(_) | By::Session(_) | By::First(_) | By::Baseline(_) => {
                stdio()?.1.call(self.frontends.server(plan)?, &orders).await?
            }
            By::Python => self.execute(engine, Language::Python, PYTHON, &orders).await?,
            By::TypeScript => self.execute(engine, Language::TypeScript, TYPESCRIPT, &orders).await?,
            By::Reads(..) => self.execute(engine, Language::Python, READS, &orders).await?,
            By::Prints(_, pages) => self.print(engine, pages, orders.calls).await?,
        };
        anyhow::ensure!(times.each.is_empty() || times.each.len() == orders.calls, "not all calls were made");
        Ok(times)
    }

    async fn execute(&self, engine: &Engine, language: Language, code: &str, orders: &Orders) -> anyhow::Result<Times> {
        let mut request = Request::new(UserId::local(), language, code);
        request.workspace = Some(self.workspace.clone());
        request.limits = limits();
        request.calls = Arc::new(Straight);
        request.vars.insert("plan".to_owned(), serde_json::to_value(orders).context("cannot write the orders")?);
        let execution = engine.execute(request).await;
        if let Some(failure) = &execution.failure {
            anyhow::bail!("{}", failure.error);
        }
        serde_json::from_value(execution.result.unwrap_or_default()).context("cannot read the measurements of the code")
    }

    /// Puts the engine into the privacy mode of a row. All rows without one are off.
    fn protect(&self, engine: &Engine, plan: &Plan) -> anyhow::Result<()> {
        let mode = match plan.by {
            By::Reads(mode, _) | By::Prints(mode, _) => mode,
            _ => PrivacyMode::Off,
        };
        let vaults = match plan.from {
            From::Host | From::Process => &self.vaults,
            From::Stdio | From::Nap | From::Http => {
                &self.stdio.as_ref().map_err(|reason| anyhow::anyhow!("{reason}"))?.3
            }
        };
        engine.protect(Privacy::new(Arc::clone(vaults), PrivacyModes { general: mode, ..PrivacyModes::default() }));
        Ok(())
    }

    /// Runs code that prints a page, so many times.
    async fn print(&self, engine: &Engine, pages: Pages, calls: usize) -> anyhow::Result<Times> {
        let code = format!(
            "{PAGES}\nimport time\nprint(page('{}', time.time_ns() // 1_000_000 % 1_000_000_000))",
            pages.name()
        );
        let (mut each, mut total) = (Vec::with_capacity(calls), 0.0);
        // The first one does not count.
        for number in 0..=calls {
            let mut request = Request::new(UserId::local(), Language::Python, &code);
            request.workspace = Some(self.workspace.clone());
            request.limits = limits();
            request.audience = Audience::Model;
            let begun = Instant::now();
            let execution = engine.execute(request).await;
            let took = begun.elapsed().as_secs_f64() * 1e6;
            if let Some(failure) = &execution.failure {
                anyhow::bail!("{}", failure.error);
            }
            if number > 0 {
                each.push(took);
                total += took;
            }
        }
        Ok(Times { each, total })
    }

    pub(super) async fn shutdown(&self) {
        self.in_process.shutdown().await;
        if let Ok((engine, _, toolbox, _)) = &self.stdio {
            engine.shutdown().await;
            toolbox.upstream().shutdown().await;
        }
    }
}

/// Default limits, except for the number of calls and the time.
fn limits() -> Limits {
    Limits { calls: 1_000_000, wall_ms: WITHIN.as_millis() as u64, ..Limits::default() }
}

/// Toolbox as in a server: a real store, and no rules.
async fn toolbox(home: &Path, servers: impl Servers + 'static) -> anyhow::Result<(Arc<SqliteStore>, Arc<Toolbox>)> {
    let store =
        SqliteStore::open(&Home::new(home.to_owned()), KeySource::File).await.context("cannot create a store")?;
    let store = Arc::new(store);
    let rules = Rules::new(Vec::new()).context("cannot create an empty policy")?;
    let caps = CallCaps::default();
    let config =
        ToolboxConfig { cache: home.join("cache"), registry: None, embedder: None, caps, unusable: Vec::new() };
    let toolbox = Toolbox::new(config, servers, Arc::clone(&store) as _, rules);
    Ok((store, toolbox))
}
