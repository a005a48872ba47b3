//! Sandboxes in containers of Docker or Podman: one container for each user, in which an agent forks for each call.
//!
//! Reading order: `users.rs` (which container for whom), `container.rs` (how one is made), `mux.rs` and `streams.rs`
//! (how to talk to its agent), `control.rs` (a sandbox in use). The agent is `container.py` of the guest; what it does to
//! a call before code runs is in `enclosure.py`.

mod container;
mod control;
mod engine;
pub(crate) mod image;
mod labels;
mod mux;
mod owner;
mod streams;
mod users;

use crate::native::disk::{Ledger, Most, When};
use crate::native::instance::Instance;
use crate::native::{ENVIRONMENT, filters_of_code, guest_files, resolve_workspace};
use crate::{Backend, Cause, Environment, Sandbox, SandboxError, Spec};
use async_trait::async_trait;
use container::{Common, Purpose};
use control::{DockerControl, Folders};
use coracle_protocol::{FrameBuffer, FromGuest, VERSION, read_frame};
use coracle_types::{Enforced, Limits, Mechanism};
use engine::Engine;
use labels::Server;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use users::{Lease, Users};

/// Maximum time for a sandbox to send `ready`.
const READY_WITHIN: Duration = Duration::from_secs(20);

/// The configuration of the Docker backend.
#[derive(Clone, Debug)]
pub struct DockerConfig {
    /// The data folder.
    pub home: PathBuf,
    /// The address of the engine, like `DOCKER_HOST`. By default, the usual sockets of this machine.
    pub host: Option<String>,
    /// The image, which must have `python3`.
    pub image: String,
    /// The runtime of the engine, such as `runsc`.
    pub runtime: Option<String>,
    /// The program `coracle`, which runs TypeScript and is the command `tool` inside.
    pub program: PathBuf,
    /// Host folders that every sandbox sees read-only, with their paths inside: `/skills`, `/tools`.
    pub folders: Vec<(PathBuf, PathBuf)>,
    /// Packages for the image's Python, if it is the one that they were made for.
    pub environment: Option<Environment>,
    /// Modules that an agent imports in advance.
    pub preload: Vec<String>,
    /// After how long without a call a container is removed.
    pub idle: Duration,
    /// Whether to refuse to run if the engine cannot limit containers.
    pub require_full_isolation: bool,
    /// The usual limits of a call.
    pub limits: Limits,
}

/// What the backend found out about the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DockerReport {
    /// The name and version of the engine.
    pub engine: String,
    /// Whether the engine runs without root.
    pub is_rootless: bool,
    /// The runtime of containers.
    pub runtime: String,
    /// The number of containers of dead servers that were removed.
    pub swept: usize,
    /// The value of [`LimitsReport::tier`](coracle_types::LimitsReport).
    pub tier: String,
}

/// Creates sandboxes in containers. Connects to the engine with the first sandbox.
#[derive(Debug)]
pub struct DockerBackend {
    config: DockerConfig,
    ledger: Arc<Ledger>,
    running: Mutex<Option<Arc<Running>>>,
}

#[derive(Debug)]
struct Running {
    users: Arc<Users>,
    instance: Instance,
    report: DockerReport,
}

impl DockerBackend {
    /// Creates the backend. Does not connect yet.
    pub fn new(config: DockerConfig) -> Self {
        Self { config, ledger: Arc::default(), running: Mutex::new(None) }
    }

    /// Connects to the engine, and returns what it can do.
    pub async fn report(&self) -> Result<DockerReport, SandboxError> {
        Ok(self.running().await?.report.clone())
    }

    /// The IDs of the containers that exist.
    pub async fn containers(&self) -> Vec<String> {
        self.running.lock().await.as_ref().map_or_else(Vec::new, |running| running.users.containers())
    }

    async fn running(&self) -> Result<Arc<Running>, SandboxError> {
        let mut slot = self.running.lock().await;
        if let Some(running) = slot.as_ref() {
            return Ok(Arc::clone(running));
        }
        let running = Arc::new(self.connect().await?);
        *slot = Some(Arc::clone(&running));
        Ok(running)
    }

    async fn connect(&self) -> Result<Running, SandboxError> {
        let config = &self.config;
        let engine = Engine::connect(config.host.as_deref()).await?;
        engine.check_runtime(config.runtime.as_deref())?;
        if config.require_full_isolation && !engine.lacks.is_empty() {
            return Err(SandboxError::NotFull(engine.lacks.join("; ")));
        }
        let in_home =
            |error: io::Error| SandboxError::Unavailable(format!("data folder {}: {error}", config.home.display()));
        let server = Server::current().map_err(in_home)?;
        let swept = engine.sweep(&server).await;
        let image = image::find(&engine, &config.image).await?;
        let instance = Instance::claim(&config.home).map_err(in_home)?;
        let guest = guest_files::install_for_containers(&config.home, &instance.dir).map_err(in_home)?;
        let filters = filters_of_code().map_err(in_home)?;
        let mut config = config.clone();
        if let Some(environment) = config.environment.take().filter(|_| !image.has_packages()) {
            if image.fits(&environment.made_for) {
                config.folders.push((environment.folder, ENVIRONMENT.into()));
            } else {
                tracing::warn!(
                    image = config.image,
                    "the Python environment is ignored: it is for another Python than the one in the image; run \
                     `coracle image build` to make an image that has its packages"
                );
            }
        }
        let runtime = engine.runtime(config.runtime.as_deref());
        let tier = match runtime.as_str() {
            "" | "runc" | "crun" => "docker".to_owned(),
            "runsc" => "docker-gvisor".to_owned(),
            other => format!("docker-{other}"),
        };
        let report =
            DockerReport { engine: engine.name.clone(), is_rootless: engine.is_rootless, runtime, swept, tier };
        let dir = instance.dir.clone();
        let users = Users::start(Arc::new(Common { engine, server, dir, guest, filters, config }));
        Ok(Running { users, instance, report })
    }

    async fn open_on(&self, running: &Running, spec: &Spec) -> Result<Sandbox, SandboxError> {
        let (workspace, _) = resolve_workspace(&spec.workspace)?;
        let wrong = |reason: &str| SandboxError::Workspace { path: spec.workspace.clone(), reason: reason.to_owned() };
        let home = std::fs::canonicalize(&self.config.home).map_err(|error| wrong(&error.to_string()))?;
        let hidden = home.strip_prefix(&workspace).ok().map(PathBuf::from);
        if hidden.as_ref().is_some_and(|folder| folder.as_os_str().is_empty()) {
            return Err(wrong("is Coracle's data folder, which code never sees"));
        }
        let is_rootless = running.users.common.engine.is_rootless;
        let ids = owner::ids(&workspace, is_rootless)?;
        for folder in [Some(&workspace), spec.skills.as_ref()].into_iter().flatten() {
            owner::give(folder, ids)?;
        }
        let purpose = Purpose::new(spec, workspace.clone(), hidden, ids, &self.config.limits);
        let lease = running.users.take(&purpose).await?;
        let limits = &spec.limits;
        // In a workspace that is already over its limit, code can only delete files.
        let most = Most::of_workspace(limits);
        let over = self.ledger.check(&workspace, "the workspace", most, When::Opening, || 0).await;
        let file_bytes = if over.is_some() { 0 } else { limits.file_mb * 1_000_000 };
        let (mut streams, artifacts) = lease.container().open(ids, limits, file_bytes)?;
        self.ledger.begin(&artifacts);
        let folders = Folders {
            workspace,
            artifacts: artifacts.clone(),
            limits: limits.clone(),
            over: over.map(|over| over.usage),
            ledger: Arc::clone(&self.ledger),
        };
        let mut buffer = FrameBuffer::default();
        let first = tokio::time::timeout(READY_WITHIN, read_frame(&mut streams.from_guest, &mut buffer)).await;
        match first {
            Ok(Ok(Some(FromGuest::Ready { protocol: VERSION, .. }))) => {}
            Ok(Ok(Some(FromGuest::Failed { step, errno }))) => {
                let cause = io::Error::from_raw_os_error(errno);
                return Err(SandboxError::Unavailable(format!("a step of the confinement failed: {step}: {cause}")));
            }
            Ok(other) => {
                streams.life.kill();
                let exited = tokio::time::timeout(READY_WITHIN, streams.life.exited()).await;
                let known = exited.ok().and_then(|exit| exit.causes.into_iter().find_map(why));
                let reason = known.unwrap_or_else(|| format!("the guest did not become ready: {other:?}"));
                return Err(SandboxError::Unavailable(reason));
            }
            Err(_) => {
                let reason = format!("the guest did not become ready within {READY_WITHIN:?}");
                return Err(SandboxError::Unavailable(reason));
            }
        }
        let enforced = enforced(&lease);
        Ok(Sandbox {
            to_guest: Box::new(streams.to_guest),
            from_guest: Box::new(streams.from_guest),
            buffer,
            stdout: Box::new(streams.stdout),
            stderr: Box::new(streams.stderr),
            artifacts,
            enforced,
            tier: running.report.tier.clone(),
            control: Box::new(DockerControl::new(streams.life, folders, lease)),
        })
    }
}

/// The reason why a sandbox ended before code ran in it.
fn why(cause: Cause) -> Option<String> {
    match cause {
        Cause::Lost(reason) | Cause::Setup(reason) => Some(reason),
        Cause::Memory { .. } | Cause::Processes | Cause::Disk(_) => None,
    }
}

fn enforced(lease: &Lease) -> Enforced {
    Enforced {
        wall: Mechanism::Host,
        memory: Mechanism::Watch,
        processes: if lease.container().hello.apart { Mechanism::Rlimit } else { Mechanism::Watch },
        open_files: Mechanism::Rlimit,
        file: Mechanism::Rlimit,
        workspace: Mechanism::Watch,
        tmp: Mechanism::Mount,
        output: Mechanism::Host,
    }
}

#[async_trait]
impl Backend for DockerBackend {
    async fn open(&self, spec: Spec) -> Result<Sandbox, SandboxError> {
        resolve_workspace(&spec.workspace)?;
        let running = self.running().await?;
        let lost = match self.open_on(&running, &spec).await {
            Err(SandboxError::Unavailable(reason)) => reason,
            other => return other,
        };
        // The container may have been stopped or killed a moment ago: there is a new one now.
        tracing::debug!(reason = lost, "cannot create a sandbox: trying again");
        self.open_on(&running, &spec).await
    }

    async fn shutdown(&self) {
        let Some(running) = self.running.lock().await.take() else { return };
        running.users.stop().await;
        Instance::remove(&running.instance.dir);
    }
}
