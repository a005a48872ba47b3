//! Sandboxes out of Linux namespaces: a launcher process, a warmed Python, and a pool of prepared children.
//!
//! Reading order: `pool.rs` (what the server keeps ready), `link.rs` (how it talks to the launcher), `launcher.rs` (the
//! process that makes sandboxes), `launcher/confinement.rs` (what is done to each).

mod cgroup;
mod disk;
mod guest_files;
mod instance;
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
pub use launcher::{ForkedLauncher, fork_launcher, hear_of_children, launcher_main};

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

/// The argument that makes a program which embeds this crate the launcher: it must then call [`launcher_main`].
pub const LAUNCHER_ARGUMENT: &str = "__launcher";

/// How the native backend is set up.
#[derive(Clone, Debug)]
pub struct NativeConfig {
    /// The data folder.
    pub home: PathBuf,
    /// The program that is started as the launcher; normally the running one.
    pub launcher: PathBuf,
    /// An interpreter to use instead of the one that is found.
    pub python: Option<PathBuf>,
    /// Prepared sandboxes to keep; zero makes each on demand.
    pub pool: usize,
    /// Import what a long-lived server wants imported.
    pub preload: bool,
    /// Refuse to run with less than the kernel's own limits on everything that it can limit.
    pub require_full_isolation: bool,
    /// Folders of the host that every sandbox sees, read-only, and where: `/skills`, `/tools`.
    pub folders: Vec<(PathBuf, PathBuf)>,
    /// What sandboxes are prepared with; an execution may ask for other limits, except of `/tmp`.
    pub limits: Limits,
}

/// Python packages for all sandboxes, beside those that the interpreter has itself.
#[derive(Clone, Debug, Default)]
pub struct Packages {
    /// A folder of them.
    pub environment: Option<Environment>,
    /// Modules that a long-lived backend imports in advance, so that they cost a sandbox nothing.
    pub preload: Vec<String>,
}

/// A folder of packages that sandboxes see, read-only, at `/environment`.
#[derive(Clone, Debug)]
pub struct Environment {
    /// The folder.
    pub folder: PathBuf,
    /// The interpreter that they are for; with one that they do not fit, sandboxes do without.
    pub made_for: PythonInterpreter,
}

/// Where sandboxes see the packages of an environment; `paths.py` of the guest knows the same.
const ENVIRONMENT: &str = "/environment";

/// So many modules can be imported in advance: the zygote tells of each by one bit which could not.
pub const MOST_PRELOADED: usize = 64;

/// What the backend found out about this machine by trying.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativeReport {
    /// The interpreter.
    pub python: PathBuf,
    /// Its version, if it has been asked.
    pub python_version: Option<[u32; 3]>,
    /// `root` or `ordinary`.
    pub privilege: String,
    /// The host's user id that code runs as.
    pub host_uid: u32,
    /// The version of Landlock's interface, or why there is none.
    pub landlock: Result<u32, String>,
    /// The cgroup that limits the memory of a tree, or why there is none.
    pub cgroup: Result<Mechanism, String>,
    /// Each sandbox has a `/proc` of its own.
    pub own_proc: bool,
}

impl NativeReport {
    /// What keeps this machine from full isolation.
    pub fn lacks(&self) -> Vec<String> {
        let mut lacks = Vec::new();
        if let Err(reason) = &self.landlock {
            lacks.push(format!("Landlock ({reason})"));
        }
        if let Err(reason) = &self.cgroup {
            lacks.push(format!("a cgroup for memory ({reason})"));
        }
        if !self.own_proc {
            lacks.push("a /proc of its own".to_owned());
        }
        lacks
    }

    /// For [`LimitsReport::tier`](coracle_types::LimitsReport).
    pub fn tier(&self) -> &'static str {
        if self.lacks().is_empty() { "native" } else { "native-partial" }
    }

    fn enforced(&self) -> Enforced {
        Enforced {
            wall: Mechanism::Host,
            memory: self.cgroup.clone().unwrap_or(Mechanism::Watch),
            processes: match self.cgroup {
                Ok(Mechanism::Cgroup2) => Mechanism::Cgroup2,
                // Set in a user namespace of the sandbox's own, it holds for the whole tree.
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

/// Makes sandboxes out of namespaces. The launcher starts with the first sandbox, and again if it was killed.
#[derive(Debug)]
pub struct NativeBackend {
    config: NativeConfig,
    packages: Packages,
    disk: Arc<disk::Ledger>,
    projects: project::Projects,
    /// For the first sandbox, if there is one.
    forked: std::sync::Mutex<Option<ForkedLauncher>>,
    running: Mutex<Option<Arc<Running>>>,
    /// What makes sandboxes until the zygote of `running` is warm.
    first: Mutex<Option<Arc<Running>>>,
    stage: std::sync::Mutex<Stage>,
    /// Somebody has asked for a sandbox.
    asked: Arc<Notify>,
}

/// How far a server has come that makes its first sandboxes in another way than the later ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// Nobody has asked for a sandbox yet.
    Begun,
    /// The zygote warms up.
    Warming,
    /// There is one way only.
    #[default]
    Warm,
}

/// So often is looked whether the zygote is warm, and whether the first sandboxes have ended.
const LOOK: std::time::Duration = std::time::Duration::from_millis(20);

/// One launcher and what hangs on it.
#[derive(Debug)]
struct Running {
    link: Arc<Link>,
    pool: Arc<Pool>,
    python: PathBuf,
    /// Folders that the data folder lies in, and where in them it is.
    above_home: Vec<Above>,
}

/// A folder that the data folder lies in, told by its identity, whatever path leads there.
#[derive(Debug)]
struct Above {
    device: u64,
    inode: u64,
    /// Empty: it is the data folder itself.
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
    /// Nothing is started yet.
    pub fn new(config: NativeConfig) -> Self {
        let (packages, disk) = (Packages::default(), Arc::default());
        let projects = project::Projects::default();
        let (forked, stage) = (std::sync::Mutex::default(), std::sync::Mutex::default());
        let (running, first, asked) = (Mutex::new(None), Mutex::new(None), Arc::default());
        Self { config, packages, disk, projects, forked, running, first, stage, asked }
    }

    /// The same with packages.
    #[must_use]
    pub fn with_packages(self, packages: Packages) -> Self {
        Self { packages, ..self }
    }

    /// For few sandboxes, made by a launcher that was forked at the start: sooner there, but slower for many.
    pub fn with_launcher(config: NativeConfig, forked: ForkedLauncher) -> Self {
        Self { forked: std::sync::Mutex::new(Some(forked)), ..Self::new(config) }
    }

    /// For many sandboxes, of which the first are made by a launcher that was forked at the start: nobody waits for a
    /// zygote to warm up, and one that nobody needs is not started.
    pub fn with_first(config: NativeConfig, forked: ForkedLauncher) -> Self {
        // What is enforced must be known before there is a sandbox, if it decides whether there is to be one.
        if config.require_full_isolation {
            return Self::new(config);
        }
        Self { stage: std::sync::Mutex::new(Stage::Begun), ..Self::with_launcher(config, forked) }
    }

    /// Gets as far as can be before anybody asks for a sandbox, and begins to warm up a zygote when somebody has: not
    /// sooner, since the two would compete for the processor. What made the first sandboxes ends with the last of them.
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

    /// What makes the first sandboxes, if that is to be had.
    async fn first(&self) -> Option<Arc<Running>> {
        let mut first = self.first.lock().await;
        if first.is_none()
            && let Some(forked) = self.take_forked()
        {
            match self.launch(Some(forked)) {
                Ok(running) => *first = Some(Arc::new(running)),
                Err(error) => tracing::debug!(%error, "the first sandboxes are made as the later ones"),
            }
        }
        first.as_ref().filter(|first| !first.link.is_lost()).map(Arc::clone)
    }

    /// A sandbox from what makes the first ones; none if the usual way is open or the only one.
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
                tracing::debug!(%error, "a first sandbox is made as the later ones");
                None
            }
        }
    }

    /// Starts the launcher if it is not running, and says what it found.
    pub async fn report(&self) -> Result<NativeReport, SandboxError> {
        // One for few sandboxes finds out with the first of them.
        drop(self.take_forked());
        let running = self.running().await?;
        let started = running.link.started().await?;
        Ok(report(&running.python, &started))
    }

    /// How many sandboxes wait prepared.
    pub async fn prepared(&self) -> usize {
        self.running.lock().await.as_ref().map_or(0, |running| running.pool.ready())
    }

    /// The process id of the launcher, if it runs.
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
        // The forked one may be meant for the first sandboxes only.
        let forked = if self.stage() == Stage::Warm { self.take_forked() } else { None };
        let running = Arc::new(self.launch(forked)?);
        *slot = Some(Arc::clone(&running));
        Ok(running)
    }

    /// The folder of packages, if they fit.
    fn environment_for(&self, python: &Path) -> Option<PathBuf> {
        let environment = self.packages.environment.as_ref()?;
        match python::fit(&environment.made_for, python) {
            Ok(()) => Some(environment.folder.clone()),
            Err(reason) => {
                tracing::warn!(
                    "the Python environment is passed over: {reason}; `coracle env sync` makes one that fits"
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
        // What is enforced must be known before there is a sandbox, if it decides whether there is to be one.
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
            // For few sandboxes it would take longer than it saves.
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
            SandboxError::Unavailable(format!("start the launcher {}: {error}", config.launcher.display()))
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

/// What is wrong with a folder that all sandboxes are to see, if the data folder lies in it.
fn shows_home(folder: &Path, seen_at: &Path, above_home: &[Above]) -> Option<String> {
    let seen = fs::metadata(folder).ok()?;
    let is_above = above_home.iter().any(|above| (above.device, above.inode) == (seen.dev(), seen.ino()));
    let (folder, seen_at) = (folder.display(), seen_at.display());
    is_above.then(|| format!("code would see {folder} at {seen_at}, and with it Coracle's data folder: name another"))
}

/// The workspace as the server sees it; the launcher must find the same folder.
fn look_at(workspace: &Path) -> Result<(PathBuf, fs::Metadata), SandboxError> {
    let wrong = |reason: String| SandboxError::Workspace { path: workspace.to_owned(), reason };
    let path = fs::canonicalize(workspace).map_err(|error| wrong(error.to_string()))?;
    let metadata = fs::metadata(&path).map_err(|error| wrong(error.to_string()))?;
    if !metadata.is_dir() {
        return Err(wrong("is not a folder".to_owned()));
    }
    if let Err(errno) = rustix::fs::access(&path, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK) {
        return Err(wrong(format!("cannot be written: {errno}")));
    }
    Ok((path, metadata))
}

impl NativeBackend {
    async fn open_on(&self, running: &Running, spec: Spec) -> Result<Sandbox, SandboxError> {
        let (workspace, metadata) = look_at(&spec.workspace)?;
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
        // In a workspace that is already too full, only deleting works.
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
                    .map_err(|error| SandboxError::Unavailable(format!("the launcher: {error}")))?;
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
        look_at(&spec.workspace)?;
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

    /// Version 1 of cgroups holds memory alone, and that is full isolation.
    #[test]
    fn what_holds_memory_and_processes() {
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
