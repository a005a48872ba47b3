//! Coracle on the Docker backend, beside `docker run` and `docker exec`.

use crate::setup::Setup;
use crate::timing::timed;
use anyhow::Context;
use coracle_engine::{Engine, EngineConfig, Request};
use coracle_sandbox::{DockerBackend, DockerConfig, IMAGE};
use coracle_store::MemoryStore;
use coracle_types::{Language, Limits, UserId};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Which calls are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Calls {
    /// Each by a user who has no container.
    First,
    /// All by one user.
    Further,
}

/// Time without a call after which a container is removed, so that those of first calls do not pile up.
const IDLE_AFTER_FIRST: Duration = Duration::from_secs(1);
const IDLE: Duration = Duration::from_hours(1);

/// The pause before a further call, in which the agent prepares the next sandbox: a caller needs longer to think.
const THINKING: Duration = Duration::from_millis(20);

/// An engine on the Docker backend.
#[derive(Debug)]
pub(super) struct Containers {
    engine: Engine,
    calls: Calls,
    folder: PathBuf,
    /// Number of the user.
    user: u32,
}

impl Containers {
    pub(super) async fn start(setup: &Setup, folder: &Path, calls: Calls, image: Option<&str>) -> anyhow::Result<Self> {
        let backend = Arc::new(DockerBackend::new(DockerConfig {
            home: setup.home.clone(),
            host: setup.engine.clone(),
            image: image.unwrap_or(IMAGE).to_owned(),
            runtime: None,
            program: std::env::current_exe().context("cannot find this program")?,
            folders: Vec::new(),
            environment: None,
            preload: Vec::new(),
            idle: if calls == Calls::First { IDLE_AFTER_FIRST } else { IDLE },
            require_full_isolation: false,
            limits: Limits::default(),
        }));
        backend.report().await?;
        let config = EngineConfig { workspaces: folder.join("workspaces"), session_idle: IDLE };
        let engine = Engine::new(config, backend, Arc::new(MemoryStore::new()), None);
        Ok(Self { engine, calls, folder: folder.to_owned(), user: 0 })
    }

    /// Measures code from the request to the response.
    pub(super) async fn time(&mut self, code: &str) -> anyhow::Result<f64> {
        match self.calls {
            Calls::First => self.user += 1,
            Calls::Further => tokio::time::sleep(THINKING).await,
        }
        let workspace = self.folder.join(self.user.to_string());
        std::fs::create_dir_all(&workspace).context("cannot create a workspace")?;
        let mut request = Request::new(UserId::local(), Language::Python, code);
        request.workspace = Some(workspace);
        let (time, execution) = timed(Box::pin(self.engine.execute(request))).await;
        match execution.failure {
            None => Ok(time),
            Some(failure) => anyhow::bail!("{}", failure.error),
        }
    }

    pub(super) async fn stop(&self) {
        self.engine.shutdown().await;
    }
}
