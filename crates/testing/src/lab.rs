//! An engine on the native backend in the test process, for options that `coracle exec` lacks.

use coracle_engine::{Engine, EngineConfig, Request};
use coracle_sandbox::{NativeBackend, NativeConfig};
use coracle_store::{MemoryStore, Store};
use coracle_types::{ErrorCode, Execution, Language, Limits, SessionId, UserId};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// Time limit of an execution; a longer one hangs.
const HARD: Duration = Duration::from_secs(90);

/// Engine with its own data folder.
pub struct Lab {
    /// The engine.
    pub engine: Engine,
    /// Its backend.
    pub backend: Arc<NativeBackend>,
    /// Data folder.
    pub home: TempDir,
    /// Limits of prepared sandboxes and of requests.
    pub limits: Limits,
}

impl Lab {
    /// Creates an engine. Sandboxes are prepared with these limits, and executions request the same.
    pub fn new(limits: Limits, pool: usize, session_idle: Duration) -> Self {
        Self::with_python(None, limits, pool, session_idle)
    }

    /// Creates an engine with this interpreter.
    pub fn with_python(python: Option<PathBuf>, limits: Limits, pool: usize, session_idle: Duration) -> Self {
        Self::made(TempDir::new().unwrap(), Arc::new(MemoryStore::new()), python, limits, pool, session_idle)
    }

    /// Creates an engine on an existing data folder and store.
    pub fn on(home: TempDir, store: Arc<dyn Store>, limits: Limits, pool: usize) -> Self {
        Self::made(home, store, None, limits, pool, Duration::from_mins(10))
    }

    fn made(
        home: TempDir,
        store: Arc<dyn Store>,
        python: Option<PathBuf>,
        limits: Limits,
        pool: usize,
        session_idle: Duration,
    ) -> Self {
        let config = NativeConfig {
            home: home.path().to_owned(),
            launcher: crate::harness::built(),
            python,
            pool,
            preload: false,
            require_full_isolation: false,
            folders: Vec::new(),
            limits: limits.clone(),
        };
        let backend = Arc::new(NativeBackend::new(config));
        let config = EngineConfig { workspaces: home.path().join("workspaces"), session_idle };
        let engine = Engine::new(config, Arc::<NativeBackend>::clone(&backend), store, None);
        Self { engine, backend, home, limits }
    }

    /// Request of one user, without a session.
    pub fn request(&self, language: Language, code: &str) -> Request {
        let mut request = Request::new(UserId::new("ada").unwrap(), language, code);
        request.limits = self.limits.clone();
        request
    }

    /// Request in a session of that user.
    pub fn in_session(&self, session: &str, language: Language, code: &str) -> Request {
        let mut request = self.request(language, code);
        request.session = Some(SessionId::new(session).unwrap());
        request
    }

    /// Runs a request; panics if it hangs.
    pub async fn execute(&self, request: Request) -> Execution {
        let code = request.code.clone();
        let executed = tokio::time::timeout(HARD, self.engine.execute(request)).await;
        let executed = executed.unwrap_or_else(|elapsed| panic!("hangs ({elapsed}): {code}"));
        self.engine.settled().await;
        executed
    }

    /// Runs Python without a session.
    pub async fn python(&self, code: &str) -> Execution {
        self.execute(self.request(Language::Python, code)).await
    }

    /// Shuts down, and returns the data folder.
    pub async fn close_for_next(self) -> TempDir {
        tokio::time::timeout(HARD, self.engine.shutdown()).await.expect("the engine shuts down");
        self.home
    }

    /// Shuts down, and checks that nothing is left.
    pub async fn close(self) {
        tokio::time::timeout(HARD, self.engine.shutdown()).await.expect("the engine shuts down");
        let left = crate::outcome::left_in_run(self.home.path());
        assert_eq!(left, Vec::<String>::new());
        assert_eq!(crate::outcome::processes_in(self.home.path()), Vec::<String>::new());
    }
}

/// Error code of an execution that failed.
pub fn error_code(execution: &Execution) -> Option<ErrorCode> {
    execution.failure.as_ref().map(|failure| failure.error_code)
}
