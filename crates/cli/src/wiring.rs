//! Joins backend and engine.

use crate::environment;
use anyhow::Context;
use coracle_engine::{Engine, EngineConfig};
use coracle_sandbox::{ForkedLauncher, NativeBackend, NativeConfig};
use coracle_types::Limits;
use std::sync::Arc;
use std::time::Duration;

/// An interpreter of a session that nobody uses ends after this time.
const SESSION_IDLE: Duration = Duration::from_mins(30);

/// How sandboxes are kept.
#[derive(Clone, Debug)]
pub(crate) struct Sandboxes {
    /// Prepared ones to keep.
    pub(crate) pool: usize,
    /// Import what a long-lived process wants imported.
    pub(crate) preload: bool,
    /// Refuse to run with less than full isolation.
    pub(crate) require_full_isolation: bool,
    /// What they are prepared with.
    pub(crate) limits: Limits,
}

/// The native backend as the environment says.
pub(crate) fn native(sandboxes: &Sandboxes) -> anyhow::Result<Arc<NativeBackend>> {
    Ok(Arc::new(NativeBackend::new(native_config(sandboxes)?)))
}

/// The same for one command, whose launcher was forked at its start.
pub(crate) fn native_for_one(sandboxes: &Sandboxes, launcher: ForkedLauncher) -> anyhow::Result<Arc<NativeBackend>> {
    Ok(Arc::new(NativeBackend::with_launcher(native_config(sandboxes)?, launcher)))
}

fn native_config(sandboxes: &Sandboxes) -> anyhow::Result<NativeConfig> {
    Ok(NativeConfig {
        home: environment::home()?,
        launcher: std::env::current_exe().context("find this program")?,
        python: environment::python(),
        pool: sandboxes.pool,
        preload: sandboxes.preload,
        require_full_isolation: sandboxes.require_full_isolation,
        limits: sandboxes.limits.clone(),
    })
}

/// An engine on a backend.
pub(crate) fn engine(backend: Arc<NativeBackend>) -> anyhow::Result<Engine> {
    Ok(Engine::new(EngineConfig { home: environment::home()?, session_idle: SESSION_IDLE }, backend))
}
