//! Coracle as the subject: engines on the native backend, as in a server.

use crate::backend::native;
use crate::peers::Interpreter;
use crate::program::Program;
use crate::setup::Setup;
use crate::timing::{cold_command, refilled, timed};
use anyhow::Context;
use coracle_engine::{Engine, EngineConfig, Request};
use coracle_sandbox::{NativeBackend, Packages};
use coracle_store::{Environments, Home, MemoryStore};
use coracle_types::{Execution, Language, Limits, SessionId, UserId};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Number of prepared sandboxes of the measured server.
pub(super) const POOL: usize = 16;

/// Longest wait for a full pool.
const REFILL_WITHIN: Duration = Duration::from_secs(10);

/// Long enough that no session ends while memory is measured.
const SESSION_IDLE: Duration = Duration::from_hours(1);

/// Engine and its backend.
#[derive(Clone, Debug)]
pub(super) struct Server {
    pub(super) engine: Engine,
    pub(super) backend: Arc<NativeBackend>,
    pool: usize,
    workspace: PathBuf,
}

impl Server {
    /// Starts with a full pool. `folder` contains the workspace and all data of the engine.
    pub(super) async fn start(setup: &Setup, folder: &Path, pool: usize) -> anyhow::Result<Self> {
        let server = Self::boot(setup, folder, pool).await?;
        anyhow::ensure!(server.settle().await, "the pool did not fill");
        Ok(server)
    }

    /// Starts with packages, and imports these modules in advance.
    pub(super) async fn with_packages(
        setup: &Setup,
        folder: &Path,
        pool: usize,
        preload: &[&str],
    ) -> anyhow::Result<Self> {
        let preload = preload.iter().map(|&name| name.to_owned()).collect();
        let environments = Environments::of(&Home::new(&setup.home));
        let packages = Packages { environment: coracle_environments::current(&environments), preload };
        let server = Self::boot_with(setup, folder, pool, packages).await?;
        anyhow::ensure!(server.settle().await, "the pool did not fill");
        Ok(server)
    }

    /// Starts without waiting for a full pool.
    pub(super) async fn boot(setup: &Setup, folder: &Path, pool: usize) -> anyhow::Result<Self> {
        Self::boot_with(setup, folder, pool, Packages::default()).await
    }

    async fn boot_with(setup: &Setup, folder: &Path, pool: usize, packages: Packages) -> anyhow::Result<Self> {
        let backend = native(setup, pool, Limits::default(), packages)?;
        let workspace = folder.join("workspace");
        std::fs::create_dir_all(&workspace).context("cannot create a workspace")?;
        backend.report().await.context("cannot start the sandbox (see `coracle doctor`)")?;
        let config = EngineConfig { workspaces: folder.join("workspaces"), session_idle: SESSION_IDLE };
        Ok(Self {
            engine: Engine::new(config, backend.clone(), Arc::new(MemoryStore::new()), None),
            backend,
            pool,
            workspace,
        })
    }

    /// Waits until the pool is full and the system is idle.
    pub(super) async fn settle(&self) -> bool {
        refilled(&self.backend, self.pool, REFILL_WITHIN).await
    }

    pub(super) async fn run(&self, session: Option<&SessionId>, code: &str) -> anyhow::Result<Execution> {
        let mut request = Request::new(UserId::local(), Language::Python, code);
        request.session = session.cloned();
        request.workspace = Some(self.workspace.clone());
        let execution = Box::pin(self.engine.execute(request)).await;
        match &execution.failure {
            None => Ok(execution),
            Some(failure) => anyhow::bail!("{}", failure.error),
        }
    }

    /// Measures code from the request to the response. In a session, the next run starts when the previous one has been
    /// cleaned up, as for the floor; otherwise when the pool is full and the system is idle.
    pub(super) async fn time(&self, session: Option<&SessionId>, code: &str) -> anyhow::Result<f64> {
        match session {
            Some(_) => self.engine.settled().await,
            None => anyhow::ensure!(self.settle().await, "the pool did not fill again"),
        }
        let (time, execution) = timed(self.run(session, code)).await;
        execution.map(|_| time)
    }
}

/// Servers that are measured side by side.
#[derive(Debug)]
pub(super) struct Bench {
    pub(super) pooled: Server,
    pub(super) on_demand: Server,
    pub(super) interpreter: Interpreter,
    pub(super) workspace: PathBuf,
    /// Folder for all files.
    pub(super) folder: PathBuf,
    pub(super) setup: Setup,
}

const LOOK_AT_YOURSELF: &str = "import sys\n\
    names = sorted(name for name in sys.modules if name.split('.')[0] in sys.stdlib_module_names)\n\
    print(f'[[\"{sys.base_prefix}\", \"{sys.prefix}\"], {str(names).replace(chr(39), chr(34))}]')";

impl Bench {
    pub(super) async fn start(setup: Setup, folder: &Path) -> anyhow::Result<Self> {
        let workspace = folder.join("workspace");
        let pooled = Server::start(&setup, folder, POOL).await?;
        let on_demand = Server::start(&setup, folder, 0).await?;
        let path = pooled.backend.report().await?.python;
        let seen = Program::of(&cold_command(&workspace, LOOK_AT_YOURSELF)?).output().await?.stdout;
        let (prefixes, imports) = serde_json::from_slice(&seen).context("cannot ask the sandbox for its imports")?;
        Ok(Self {
            pooled,
            on_demand,
            interpreter: Interpreter { path, prefixes, imports },
            workspace,
            folder: folder.to_owned(),
            setup,
        })
    }

    pub(super) async fn shutdown(&self) {
        self.pooled.engine.shutdown().await;
        self.on_demand.engine.shutdown().await;
    }
}
