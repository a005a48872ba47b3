//! A backend on the tests' own engine.

use coracle_protocol::FromGuest;
use coracle_sandbox::{Backend, DockerBackend, DockerConfig, Sandbox, Spec};
use coracle_testing::engine::{Engine, IMAGE};
use coracle_testing::guest::answer_to;
use coracle_testing::harness::for_everybody;
use coracle_testing::wait::PATIENCE;
use coracle_types::Limits;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Path of `sandboxed` where every user can run it.
pub(crate) fn program() -> &'static Path {
    static COPY: OnceLock<PathBuf> = OnceLock::new();
    COPY.get_or_init(|| for_everybody(Path::new(env!("CARGO_BIN_EXE_sandboxed")), "sandboxed"))
}

pub(crate) fn config(engine: &Engine, home: &Path) -> DockerConfig {
    DockerConfig {
        home: home.to_owned(),
        host: Some(engine.host()),
        image: IMAGE.to_owned(),
        runtime: None,
        program: program().to_owned(),
        folders: Vec::new(),
        environment: None,
        preload: Vec::new(),
        idle: Duration::from_mins(5),
        require_full_isolation: true,
        limits: Limits::default(),
    }
}

/// An engine that is shared with other tests, and a folder for one of them.
pub(crate) struct Lab {
    pub(crate) engine: Arc<Engine>,
    pub(crate) folder: TempDir,
}

impl Lab {
    /// `None` if there is no engine here, which was reported.
    pub(crate) fn new() -> Option<Self> {
        Some(Self { engine: Engine::shared(program())?, folder: TempDir::new().unwrap() })
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    pub(crate) fn config(&self) -> DockerConfig {
        config(&self.engine, &self.home())
    }

    pub(crate) fn backend(&self) -> DockerBackend {
        DockerBackend::new(self.config())
    }

    /// The spec of a user's call.
    pub(crate) fn spec(&self, user: &str) -> Spec {
        let workspace = self.folder.path().join(user);
        std::fs::create_dir_all(&workspace).unwrap();
        Spec { workspace, servers: None, skills: None, limits: Limits::default() }
    }
}

/// The value of Python code that must succeed.
pub(crate) async fn python(sandbox: &mut Sandbox, id: u64, code: &str) -> Value {
    match answer_to(sandbox, id, "python", code).await {
        Some(FromGuest::Done { ok: true, result, .. }) => result,
        other => panic!("{code}: {other:?}"),
    }
}

/// Opens a sandbox and runs something in it.
pub(crate) async fn call(backend: &DockerBackend, spec: &Spec) -> Sandbox {
    let mut sandbox = backend.open(spec.clone()).await.unwrap();
    assert_eq!(python(&mut sandbox, 1, "6 * 7").await, 42);
    sandbox
}

/// Waits for a condition to become true.
pub(crate) async fn eventually(what: &str, mut is_true: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !is_true().await {
        assert!(begun.elapsed() < PATIENCE, "never came true: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
