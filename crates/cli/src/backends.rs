//! Creates the backend that the settings ask for.

use crate::variables;
use anyhow::Context;
use coracle_config::{SandboxType, Settings};
use coracle_sandbox::{
    Backend, DockerBackend, DockerConfig, ForkedLauncher, IMAGE, NativeBackend, NativeConfig, Packages,
};
use coracle_types::Limits;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Options of sandboxes.
#[derive(Clone, Debug)]
pub(crate) struct Sandboxes {
    /// Number of prepared sandboxes.
    pub(crate) pool: usize,
    /// Whether to import modules in advance, for a long-lived process.
    pub(crate) preload: bool,
    /// Whether to refuse to run without full isolation.
    pub(crate) require_full_isolation: bool,
    /// Limits that sandboxes are prepared with.
    pub(crate) limits: Limits,
    /// Configured interpreter, if any.
    pub(crate) python: Option<PathBuf>,
    /// Folders of the operator that code may read, with their paths in the sandbox.
    pub(crate) folders: Vec<(PathBuf, PathBuf)>,
    /// Python packages that code can import.
    pub(crate) packages: Packages,
    /// Containers to use instead of namespaces, if any.
    pub(crate) containers: Option<Containers>,
}

/// What the settings say about containers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Containers {
    /// Socket of the engine, if it is named.
    pub(crate) host: Option<String>,
    /// Image that has Python.
    pub(crate) image: String,
    /// Runtime of the engine, if it is named.
    pub(crate) runtime: Option<String>,
    /// Time without a call after which a container is removed.
    pub(crate) idle: Duration,
}

impl Containers {
    /// Containers as the settings describe them, whatever the sandbox type.
    pub(crate) fn described(settings: &Settings) -> Self {
        let execution = &settings.execution;
        Self {
            host: execution.docker.host.clone(),
            image: execution.sandbox_image.clone().unwrap_or_else(|| IMAGE.to_owned()),
            runtime: execution.docker.runtime.clone(),
            idle: Duration::from_secs(execution.docker.idle_seconds),
        }
    }

    /// Containers, if sandboxes are to be containers.
    pub(crate) fn wanted(settings: &Settings) -> Option<Self> {
        (settings.execution.sandbox_type == SandboxType::Docker).then(|| Self::described(settings))
    }
}

/// Creates the backend of a command.
pub(crate) fn backend(sandboxes: &Sandboxes) -> anyhow::Result<Arc<dyn Backend>> {
    Ok(match &sandboxes.containers {
        Some(containers) => docker(sandboxes, containers)?,
        None => native(sandboxes)?,
    })
}

/// Creates the backend of a single command, whose launcher was forked at the start.
pub(crate) fn backend_for_one(sandboxes: &Sandboxes, launcher: ForkedLauncher) -> anyhow::Result<Arc<dyn Backend>> {
    Ok(match &sandboxes.containers {
        Some(containers) => docker(sandboxes, containers)?,
        None => native_for_one(sandboxes, launcher)?,
    })
}

/// Creates the backend of a server. Its first sandboxes may come from a launcher that was forked at the start.
pub(crate) fn backend_with_first(
    sandboxes: &Sandboxes,
    launcher: Option<ForkedLauncher>,
) -> anyhow::Result<Arc<dyn Backend>> {
    Ok(match &sandboxes.containers {
        Some(containers) => docker(sandboxes, containers)?,
        None => native_with_first(sandboxes, launcher)?,
    })
}

/// Creates the Docker backend. It connects to the engine with the first sandbox.
pub(crate) fn docker(sandboxes: &Sandboxes, containers: &Containers) -> anyhow::Result<Arc<DockerBackend>> {
    Ok(Arc::new(DockerBackend::new(DockerConfig {
        home: variables::home()?,
        host: containers.host.clone(),
        image: containers.image.clone(),
        runtime: containers.runtime.clone(),
        program: std::env::current_exe().context("cannot find this program")?,
        folders: sandboxes.folders.clone(),
        environment: sandboxes.packages.environment.clone(),
        preload: sandboxes.packages.preload.clone(),
        idle: containers.idle,
        require_full_isolation: sandboxes.require_full_isolation,
        limits: sandboxes.limits.clone(),
    })))
}

/// Creates the native backend.
pub(crate) fn native(sandboxes: &Sandboxes) -> anyhow::Result<Arc<NativeBackend>> {
    Ok(Arc::new(NativeBackend::new(native_config(sandboxes)?).with_packages(sandboxes.packages.clone())))
}

/// Creates the native backend of a single command, whose launcher was forked at the start.
fn native_for_one(sandboxes: &Sandboxes, launcher: ForkedLauncher) -> anyhow::Result<Arc<NativeBackend>> {
    let backend = NativeBackend::with_launcher(native_config(sandboxes)?, launcher);
    Ok(Arc::new(backend.with_packages(sandboxes.packages.clone())))
}

/// Creates the native backend of a server. A launcher that was forked at the start creates the first sandboxes, unless
/// modules must be imported in advance, which only a zygote does.
fn native_with_first(sandboxes: &Sandboxes, launcher: Option<ForkedLauncher>) -> anyhow::Result<Arc<NativeBackend>> {
    let Some(launcher) = launcher.filter(|_| sandboxes.packages.preload.is_empty()) else { return native(sandboxes) };
    let backend = NativeBackend::with_first(native_config(sandboxes)?, launcher);
    let backend = Arc::new(backend.with_packages(sandboxes.packages.clone()));
    let preparing = Arc::clone(&backend);
    tokio::spawn(async move { preparing.prepare().await });
    Ok(backend)
}

fn native_config(sandboxes: &Sandboxes) -> anyhow::Result<NativeConfig> {
    Ok(NativeConfig {
        home: variables::home()?,
        launcher: std::env::current_exe().context("cannot find this program")?,
        python: sandboxes.python.clone(),
        pool: sandboxes.pool,
        preload: sandboxes.preload,
        require_full_isolation: sandboxes.require_full_isolation,
        folders: sandboxes.folders.clone(),
        limits: sandboxes.limits.clone(),
    })
}
