//! Sandboxes with Linux namespaces: a launcher process, a warmed-up Python, and a pool of prepared children.
//!
//! Reading order: `pool.rs` (prepared sandboxes in the server), `link.rs` (how the server talks to the launcher),
//! `launcher.rs` (the process that creates sandboxes), `launcher/confinement.rs` (everything that is done to a sandbox
//! before code runs).

mod cgroup;
pub(crate) mod disk;
pub(crate) mod guest_files;
pub(crate) mod instance;
mod kernel_version;
mod launcher;
mod life;
mod link;
mod messages;
mod output;
mod pool;
mod process;
mod project;
mod sandbox;
mod watch;

pub use disk::{Usage as FolderUsage, remove as remove_folder, usage as folder_usage};
pub use kernel_version::{OLDEST_KERNEL, kernel_version};
pub(crate) use launcher::{ENVIRONMENT_OF_CODE, filters_of_code};
pub(crate) use sandbox::shell_status;

pub use launcher::{ForkedLauncher, fork_launcher, launcher_main, reset_sigchld};

use crate::{Backend, Sandbox, SandboxError, Spec, python};
use async_trait::async_trait;
use coracle_types::{Enforced, Limits, Mechanism, PythonInterpreter};
use link::Link;
use messages::{Ask, Bind, CgroupKind, Hidden, Start, Started};
use pool::Pool;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use tokio::sync::{Mutex, Notify};

/// The argument that starts a program as the launcher: it must then call [`launcher_main`].
pub const LAUNCHER_ARGUMENT: &str = "__launcher";

/// The configuration of the native backend.
#[derive(Clone, Debug)]
pub struct NativeConfig {
    /// The data folder.
    pub home: PathBuf,
    /// The program that is started as the launcher; usually the running one.
    pub launcher: PathBuf,
    /// The interpreter to use instead of the default one.
    pub python: Option<PathBuf>,
    /// The number of prepared sandboxes to keep. With zero, each is created on demand.
    pub pool: usize,
    /// Whether to import modules in advance, for a long-lived server.
    pub preload: bool,
    /// Whether to refuse to run if the kernel does not enforce every limit that it could.
    pub require_full_isolation: bool,
    /// Host folders that every sandbox sees read-only, with their paths inside: `/skills`, `/tools`.
    pub folders: Vec<(PathBuf, PathBuf)>,
    /// The limits of prepared sandboxes. An execution may have other limits, except for `/tmp`.
    pub limits: Limits,
}

/// Python packages for all sandboxes, in addition to those of the interpreter.
#[derive(Clone, Debug, Default)]
pub struct Packages {
    /// A folder of packages.
    pub environment: Option<Environment>,
    /// Modules that a long-lived backend imports in advance, so that sandboxes need not.
    pub preload: Vec<String>,
}

/// A folder of packages that sandboxes see read-only at `/environment`.
#[derive(Clone, Debug)]
pub struct Environment {
    /// The folder.
    pub folder: PathBuf,
    /// The interpreter that the packages are for. If they do not fit the one in use, sandboxes do without them.
    pub made_for: PythonInterpreter,
}

/// The path of the packages in sandboxes, which `paths.py` of the guest also uses.
pub(crate) const ENVIRONMENT: &str = "/environment";

/// The maximum number of modules to import in advance: the zygote reports failures as a bit set.
pub const MOST_PRELOADED: usize = 64;

/// What the backend found out about this machine, by trying.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativeReport {
    /// The interpreter.
    pub python: PathBuf,
    /// The version of the interpreter, if known.
    pub python_version: Option<[u32; 3]>,
    /// `root` or `ordinary`.
    pub privilege: String,
    /// The host user ID that code runs as.
    pub host_uid: u32,
    /// The version of the Landlock ABI, or why it is not available.
    pub landlock: Result<u32, String>,
    /// The kind of cgroup that limits the memory of a tree, or why there is none.
    pub cgroup: Result<Mechanism, String>,
    /// Whether each sandbox has a private `/proc`.
    pub own_proc: bool,
}

impl NativeReport {
    /// What this machine lacks for full isolation.
    pub fn lacks(&self) -> Vec<String> {
        let mut lacks = Vec::new();
        if let Err(reason) = &self.landlock {
            lacks.push(format!("Landlock ({reason})"));
        }
        if let Err(reason) = &self.cgroup {
            lacks.push(format!("a cgroup for memory ({reason})"));
        }
        if !self.own_proc {
            lacks.push("a private /proc".to_owned());
        }
        lacks
    }

    /// The value of [`LimitsReport::tier`](coracle_types::LimitsReport).
    pub fn tier(&self) -> &'static str {
        if self.lacks().is_empty() { "native" } else { "native-partial" }
    }

    fn enforced(&self) -> Enforced {
        Enforced {
            wall: Mechanism::Host,
            memory: self.cgroup.clone().unwrap_or(Mechanism::Watch),
            processes: match self.cgroup {
                Ok(Mechanism::Cgroup2) => Mechanism::Cgroup2,
                // In the sandbox's own user namespace, the limit applies to the whole tree.
                _ => Mechanism::Rlimit,
            },
            open_files: Mechanism::Rlimit,
            file: Mechanism::Rlimit,
            workspace: Mechanism::Watch,
            tmp: Mechanism::Mount,
            output: Mechanism::Host,
        }
    }
}

/// Creates sandboxes with namespaces. The launcher is started with the first sandbox, and again if it was killed.
#[derive(Debug)]
pub struct NativeBackend {
    config: NativeConfig,
    packages: Packages,
    disk: Arc<disk::Ledger>,
    projects: project::Projects,
    /// A forked launcher for the first sandboxes, if there is one.
    forked: std::sync::Mutex<Option<ForkedLauncher>>,
    running: Mutex<Option<Arc<Running>>>,
    /// The launcher that creates sandboxes until the zygote of `running` is warm.
    first: Mutex<Option<Arc<Running>>>,
    stage: std::sync::Mutex<Stage>,
    /// Notified when a sandbox is requested.
    asked: Arc<Notify>,
}

/// The progress of a server that creates its first sandboxes with a forked launcher.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// No sandbox has been requested yet.
    Begun,
    /// The zygote is warming up.
    Warming,
    /// All sandboxes are created by the zygote.
    #[default]
    Warm,
}

/// How often to check whether the zygote is warm, and whether the first sandboxes have ended.
const LOOK: std::time::Duration = std::time::Duration::from_millis(20);

/// A launcher with its pool.
#[derive(Debug)]
struct Running {
    link: Arc<Link>,
    pool: Arc<Pool>,
    python: PathBuf,
    /// The data folder and its parents.
    above_home: Vec<Above>,
}

/// A folder that contains the data folder, identified by device and inode, whatever path leads there.
#[derive(Debug)]
struct Above {
    device: u64,
    inode: u64,
    /// The path of the data folder below it. Empty if it is the data folder itself.
    home: PathBuf,
}

impl Above {
    fn all(home: &Path) -> io::Result<Vec<Self>> {
        let home = fs::canonicalize(home)?;
        let above = |folder: &Path| {
            let seen = fs::metadata(folder)?;
            let below = home.strip_prefix(folder).unwrap_or(&home).to_owned();
            Ok(Self { device: seen.dev(), inode: seen.ino(), home: below })
        };
        home.ancestors().map(above).collect()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.pool.stop();
        self.link.hang_up();
    }
}

impl NativeBackend {
    /// Creates the backend. Does not start anything yet.
    pub fn new(config: NativeConfig) -> Self {
        let (packages, disk) = (Packages::default(), Arc::default());
        let projects = project::Projects::default();
        let (forked, stage) = (std::sync::Mutex::default(), std::sync::Mutex::default());
        let (running, first, asked) = (Mutex::new(None), Mutex::new(None), Arc::default());
        Self { config, packages, disk, projects, forked, running, first, stage, asked }
    }

    /// Adds Python packages.
    #[must_use]
    pub fn with_packages(self, packages: Packages) -> Self {
        Self { packages, ..self }
    }

    /// Creates a backend for few sandboxes, with a launcher that was forked early: the first starts sooner, but many
    /// are slower.
    pub fn with_launcher(config: NativeConfig, forked: ForkedLauncher) -> Self {
        Self { forked: std::sync::Mutex::new(Some(forked)), ..Self::new(config) }
    }

    /// Creates a backend for many sandboxes whose first ones are created by a launcher that was forked early: they need
    /// not wait for a zygote to warm up, and a zygote that is not needed is not started.
    pub fn with_first(config: NativeConfig, forked: ForkedLauncher) -> Self {
        // With this requirement, the mechanisms must be known before there is a sandbox.
        if config.require_full_isolation {
            return Self::new(config);
        }
        Self { stage: std::sync::Mutex::new(Stage::Begun), ..Self::with_launcher(config, forked) }
    }

    /// Prepares as much as possible before the first request, and begins to warm up a zygote after it: not sooner,
    /// because the two would compete for the processor. The launcher of the first sandboxes ends with the last of them.
    pub async fn prepare(self: &Arc<Self>) {
        if self.stage() == Stage::Warm || self.first().await.is_none() {
            self.set_stage(Stage::Warm);
            return;
        }
        let (backend, asked) = (Arc::downgrade(self), Arc::clone(&self.asked));
        tokio::spawn(async move {
            asked.notified().await;
            let Some(backend) = backend.upgrade().filter(|backend| backend.stage() == Stage::Begun) else { return };
            backend.set_stage(Stage::Warming);
            if let Ok(running) = backend.running().await {
                while running.pool.ready() == 0 && !running.link.is_lost() {
                    tokio::time::sleep(LOOK).await;
                }
            }
            backend.set_stage(Stage::Warm);
            let Some(first) = backend.first.lock().await.clone() else { return };
            drop(backend);
            while !first.link.is_lost() && !first.link.is_idle() {
                tokio::time::sleep(LOOK).await;
            }
            first.link.hang_up();
        });
    }

    fn set_stage(&self, stage: Stage) {
        *self.stage.lock().unwrap_or_else(PoisonError::into_inner) = stage;
    }

    fn stage(&self) -> Stage {
        *self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The launcher of the first sandboxes, if there is one.
    async fn first(&self) -> Option<Arc<Running>> {
        let mut first = self.first.lock().await;
        if first.is_none()
            && let Some(forked) = self.take_forked()
        {
            match self.launch(Some(forked)) {
                Ok(running) => *first = Some(Arc::new(running)),
                Err(error) => tracing::debug!(%error, "cannot use the forked launcher"),
            }
        }
        first.as_ref().filter(|first| !first.link.is_lost()).map(Arc::clone)
    }

    /// Opens a sandbox with the launcher of the first ones. `None` if the zygote is warm, or if that fails.
    async fn open_first(&self, spec: &Spec) -> Option<Sandbox> {
        if self.stage() == Stage::Warm {
            return None;
        }
        if self.running.lock().await.as_ref().is_some_and(|running| running.pool.ready() > 0) {
            return None;
        }
        let first = self.first().await?;
        match self.open_on(&first, spec.clone()).await {
            Ok(sandbox) => Some(sandbox),
            Err(error) => {
                tracing::debug!(%error, "cannot create a sandbox with the forked launcher");
                None
            }
        }
    }

    /// Starts the launcher if it is not running, and returns what it found.
    pub async fn report(&self) -> Result<NativeReport, SandboxError> {
        // A forked launcher would find out only with its first sandbox.
        drop(self.take_forked());
        let running = self.running().await?;
        let started = running.link.started().await?;
        Ok(report(&running.python, &started))
    }

    /// The number of prepared sandboxes.
    pub async fn prepared(&self) -> usize {
        self.running.lock().await.as_ref().map_or(0, |running| running.pool.ready())
    }

    /// The process ID of the launcher, if it is running.
    pub async fn launcher_pid(&self) -> Option<u32> {
        self.running.lock().await.as_ref().map(|running| running.link.launcher_pid())
    }

    async fn running(&self) -> Result<Arc<Running>, SandboxError> {
        let mut slot = self.running.lock().await;
        if let Some(running) = slot.as_ref() {
            if !running.link.is_lost() {
                return Ok(Arc::clone(running));
            }
            if let Some(lost) = slot.take() {
                lost.link.gone().await;
            }
        }
        // The forked launcher may be meant for the first sandboxes only.
        let forked = if self.stage() == Stage::Warm { self.take_forked() } else { None };
        let running = Arc::new(self.launch(forked)?);
        *slot = Some(Arc::clone(&running));
        Ok(running)
    }

    /// The folder of packages, if they fit the interpreter.
    fn environment_for(&self, python: &Path) -> Option<PathBuf> {
        let environment = self.packages.environment.as_ref()?;
        match python::fit(&environment.made_for, python) {
            Ok(()) => Some(environment.folder.clone()),
            Err(reason) => {
                tracing::warn!(
                    "the Python environment is ignored: {reason}; run `coracle env sync` to create one that fits"
                );
                None
            }
        }
    }

    fn take_forked(&self) -> Option<ForkedLauncher> {
        self.forked.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn launch(&self, forked: Option<ForkedLauncher>) -> Result<Running, SandboxError> {
        let config = &self.config;
        let release = rustix::system::uname();
        kernel_version::check(&release.release().to_string_lossy()).map_err(SandboxError::Unavailable)?;
        // With this requirement, the mechanisms must be known before there is a sandbox.
        let forked = forked.filter(|_| !config.require_full_isolation);
        let python = python::find(config.python.as_deref())?;
        let in_home =
            |error: io::Error| SandboxError::Unavailable(format!("data folder {}: {error}", config.home.display()));
        let instance = instance::Instance::claim(&config.home).map_err(in_home)?;
        let guest_dir = guest_files::install(&config.home, &instance.dir, &python.path).map_err(in_home)?;
        let above_home = Above::all(&config.home).map_err(in_home)?;
        let own = python.folders.into_iter().map(|folder| (folder.clone(), folder));
        let environment = self.environment_for(&python.path).map(|folder| (folder, ENVIRONMENT.into()));
        let folders: Vec<_> = own.chain(environment).chain(config.folders.iter().cloned()).collect();
        if let Some(reason) = folders.iter().find_map(|(folder, seen_at)| shows_home(folder, seen_at, &above_home)) {
            instance::Instance::remove(&instance.dir);
            return Err(SandboxError::Unavailable(reason));
        }
        let start = Start {
            instance: instance.id.clone(),
            run_dir: instance.dir.clone(),
            guest_dir,
            python: python.path.clone(),
            folders,
            // For few sandboxes, importing in advance would take longer than it saves.
            preload: (config.preload && forked.is_none()).then(|| self.packages.preload.clone()),
            tmp_bytes: config.limits.tmp_mb * 1_000_000,
            memory_bytes: config.limits.memory_bytes(),
            processes: config.limits.processes,
        };
        let pool = if forked.is_some() { 0 } else { config.pool };
        let link = match forked {
            Some(forked) => Link::adopt(forked, &start, instance),
            None => Link::start(&config.launcher, &start, instance),
        };
        let link = link.map_err(|error| {
            instance::Instance::remove(&start.run_dir);
            SandboxError::Unavailable(format!("cannot start the launcher {}: {error}", config.launcher.display()))
        })?;
        let pool = Pool::start(Arc::clone(&link), pool);
        Ok(Running { link, pool, python: python.path, above_home })
    }
}

fn report(python: &Path, started: &Started) -> NativeReport {
    NativeReport {
        python: python.to_owned(),
        python_version: started.python_version,
        privilege: started.privilege.clone(),
        host_uid: started.host_uid,
        landlock: started.landlock.clone(),
        cgroup: started.cgroup.clone().map(|kind| match kind {
            CgroupKind::Cgroup1 => Mechanism::Cgroup1,
            CgroupKind::Cgroup2 => Mechanism::Cgroup2,
        }),
        own_proc: started.own_proc,
    }
}

/// The problem of a folder for all sandboxes, if it contains the data folder.
fn shows_home(folder: &Path, seen_at: &Path, above_home: &[Above]) -> Option<String> {
    let seen = fs::metadata(folder).ok()?;
    let is_above = above_home.iter().any(|above| (above.device, above.inode) == (seen.dev(), seen.ino()));
    let (folder, seen_at) = (folder.display(), seen_at.display());
    is_above.then(|| format!("code would see Coracle's data folder in {folder}, at {seen_at}: use another folder"))
}

/// The workspace as the server sees it. The launcher must find the same folder.
pub(crate) fn resolve_workspace(workspace: &Path) -> Result<(PathBuf, fs::Metadata), SandboxError> {
    let wrong = |reason: String| SandboxError::Workspace { path: workspace.to_owned(), reason };
    let path = fs::canonicalize(workspace).map_err(|error| wrong(error.to_string()))?;
    let metadata = fs::metadata(&path).map_err(|error| wrong(error.to_string()))?;
    if !metadata.is_dir() {
        return Err(wrong("is not a folder".to_owned()));
    }
    if let Err(errno) = rustix::fs::access(&path, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK) {
        return Err(wrong(format!("is not writable: {errno}")));
    }
    Ok((path, metadata))
}

impl NativeBackend {
    async fn open_on(&self, running: &Running, spec: Spec) -> Result<Sandbox, SandboxError> {
        let (workspace, metadata) = resolve_workspace(&spec.workspace)?;
        let above =
            running.above_home.iter().find(|above| (above.device, above.inode) == (metadata.dev(), metadata.ino()));
        let hidden = match above {
            Some(above) if above.home.as_os_str().is_empty() => {
                let reason = "is Coracle's data folder, which code never sees".to_owned();
                return Err(SandboxError::Workspace { path: spec.workspace, reason });
            }
            above => above.map(|above| Hidden { folder: above.home.clone(), instead: running.link.empty_folder() }),
        };
        let limits = &spec.limits;
        // In a workspace that is already over its limit, code can only delete files.
        let most = disk::Most::of_workspace(limits);
        let over = self.disk.check(&workspace, "the workspace", most, disk::When::Opening, || 0).await;
        let held = self.projects.hold(&workspace, limits).await;
        let file_bytes = if over.is_some() { 0 } else { limits.file_mb * 1_000_000 };
        let bind = Bind {
            workspace: workspace.clone(),
            device: metadata.dev(),
            inode: metadata.ino(),
            servers: spec.servers,
            skills: spec.skills,
            memory_bytes: limits.memory_bytes(),
            processes: limits.processes,
            open_files: limits.open_files,
            file_bytes,
            hidden,
        };
        if self.config.require_full_isolation {
            let lacks = report(&running.python, &running.link.started().await?).lacks();
            if !lacks.is_empty() {
                return Err(SandboxError::NotFull(lacks.join("; ")));
            }
        }
        let prepared = match running.pool.take(&bind).await {
            Some(prepared) if prepared.bound.is_some() => prepared,
            Some(prepared) => {
                let ask = Ask::Bind { slot: prepared.slot, bind };
                running
                    .link
                    .send(&ask)
                    .await
                    .map_err(|error| SandboxError::Unavailable(format!("cannot talk to the launcher: {error}")))?;
                prepared
            }
            None => pool::make(&running.link, bind).await?,
        };
        let report = report(&running.python, &running.link.started().await?);
        let enforced = Enforced { workspace: held, ..report.enforced() };
        self.disk.begin(&prepared.life.artifacts);
        let watched = watch::Watched {
            workspace,
            artifacts: prepared.life.artifacts.clone(),
            limits: limits.clone(),
            over: over.map(|over| over.usage),
            memory: report.cgroup.is_err(),
            ledger: Arc::clone(&self.disk),
            pace: Arc::default(),
        };
        Ok(sandbox::bound(prepared, &running.link, watched, enforced, report.tier()))
    }
}

#[async_trait]
impl Backend for NativeBackend {
    async fn open(&self, spec: Spec) -> Result<Sandbox, SandboxError> {
        if let Some(sandbox) = self.open_first(&spec).await {
            self.asked.notify_one();
            return Ok(sandbox);
        }
        resolve_workspace(&spec.workspace)?;
        let running = self.running().await?;
        self.open_on(&running, spec).await
    }

    async fn shutdown(&self) {
        self.set_stage(Stage::Warm);
        let (first, running) = (self.first.lock().await.take(), self.running.lock().await.take());
        for running in first.into_iter().chain(running) {
            running.pool.stop();
            running.link.hang_up();
            running.link.gone().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Mechanism, NativeReport};

    /// Version 1 of cgroups limits only memory, and that counts as full isolation.
    #[test]
    fn mechanisms_for_memory_and_processes() {
        for (cgroup, memory, processes, tier) in [
            (Ok(Mechanism::Cgroup2), Mechanism::Cgroup2, Mechanism::Cgroup2, "native"),
            (Ok(Mechanism::Cgroup1), Mechanism::Cgroup1, Mechanism::Rlimit, "native"),
            (Err("not here".to_owned()), Mechanism::Watch, Mechanism::Rlimit, "native-partial"),
        ] {
            let report = NativeReport {
                python: "/usr/bin/python3".into(),
                python_version: Some([3, 12, 0]),
                privilege: "root".to_owned(),
                host_uid: 61042,
                landlock: Ok(1),
                cgroup,
                own_proc: true,
            };
            let enforced = report.enforced();
            assert_eq!((enforced.memory, enforced.processes, report.tier()), (memory, processes, tier));
        }
    }
}
