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
mod link;
mod messages;
mod output;
mod pool;
mod process;
mod project;
mod python;
mod sandbox;
mod watch;

pub use disk::{Usage as FolderUsage, remove as remove_folder, usage as folder_usage};
pub use kernel_version::{OLDEST_KERNEL, kernel_version};
pub use launcher::{ForkedLauncher, fork_launcher, launcher_main};
pub use python::{PythonError, fits, interpreter};

use crate::{Backend, Sandbox, SandboxError, Spec};
use async_trait::async_trait;
use coracle_types::{Enforced, Limits, Mechanism, PythonInterpreter};
use link::Link;
use messages::{Ask, Bind, CgroupKind, Start, Started};
use pool::Pool;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use tokio::sync::Mutex;

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
}

/// One launcher and what hangs on it.
#[derive(Debug)]
struct Running {
    link: Arc<Link>,
    pool: Arc<Pool>,
    python: PathBuf,
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
        Self { config, packages, disk, projects, forked: std::sync::Mutex::default(), running: Mutex::new(None) }
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
        let running = Arc::new(self.launch()?);
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

    fn launch(&self) -> Result<Running, SandboxError> {
        let config = &self.config;
        let release = rustix::system::uname();
        kernel_version::check(&release.release().to_string_lossy()).map_err(SandboxError::Unavailable)?;
        // What is enforced must be known before there is a sandbox, if it decides whether there is to be one.
        let forked = self.take_forked().filter(|_| !config.require_full_isolation);
        let python = python::find(config.python.as_deref())?;
        let in_home =
            |error: io::Error| SandboxError::Unavailable(format!("data folder {}: {error}", config.home.display()));
        let instance = instance::Instance::claim(&config.home).map_err(in_home)?;
        let guest_dir = guest_files::install(&config.home, &instance.dir, &python.path).map_err(in_home)?;
        let own = python.folders.into_iter().map(|folder| (folder.clone(), folder));
        let environment = self.environment_for(&python.path).map(|folder| (folder, ENVIRONMENT.into()));
        let start = Start {
            instance: instance.id.clone(),
            run_dir: instance.dir.clone(),
            guest_dir,
            python: python.path.clone(),
            folders: own.chain(environment).chain(config.folders.iter().cloned()).collect(),
            preload: config.preload.then(|| self.packages.preload.clone()),
            tmp_bytes: config.limits.tmp_mb * 1_000_000,
            memory_bytes: config.limits.memory_bytes(),
            processes: config.limits.processes,
        };
        let link = match forked {
            Some(forked) => Link::adopt(forked, &start, instance),
            None => Link::start(&config.launcher, &start, instance),
        };
        let link = link.map_err(|error| {
            instance::Instance::remove(&start.run_dir);
            SandboxError::Unavailable(format!("start the launcher {}: {error}", config.launcher.display()))
        })?;
        let pool = Pool::start(Arc::clone(&link), config.pool);
        Ok(Running { link, pool, python: python.path })
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

#[async_trait]
impl Backend for NativeBackend {
    async fn open(&self, spec: Spec) -> Result<Sandbox, SandboxError> {
        let (workspace, metadata) = look_at(&spec.workspace)?;
        let running = self.running().await?;
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
        };
        Ok(sandbox::bound(prepared, &running.link, watched, enforced, report.tier()))
    }

    async fn shutdown(&self) {
        if let Some(running) = self.running.lock().await.take() {
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
