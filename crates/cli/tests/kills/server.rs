//! A busy server in a separate process: this test program, started again.

use coracle_engine::{Engine, EngineConfig, Request};
use coracle_sandbox::{NativeBackend, NativeConfig};
use coracle_store::MemoryStore;
use coracle_testing::harness::{As, Coracle, for_everybody};
use coracle_types::{Language, Limits, SessionId, UserId};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

const LAUNCHER: &str = "CORACLE_TEST_LAUNCHER";

/// Number of prepared sandboxes of the server.
pub(crate) const POOL: usize = 4;

/// Programs that run repeatedly: success, a kill with many children and daemons, hostile folders, a session, and a
/// drop.
const PROGRAMS: [(Language, &str, u64); 5] = [
    (Language::Python, "sum(range(1000))", 20_000),
    (
        Language::Bash,
        "for i in 1 2 3; do sleep 60 & done; (setsid sleep 60 &); (setsid nohup sleep 60 >/dev/null 2>&1 &); wait",
        400,
    ),
    (
        Language::Python,
        "import os\nos.makedirs('/artifacts/a/b/c/d')\nfor f in ('/artifacts/a/b/c', '/artifacts/a/b'): os.chmod(f, 0)\nimport time; time.sleep(0.2)",
        20_000,
    ),
    (Language::Python, "n = globals().get('n', 0) + 1", 20_000),
    (Language::Bash, "trap '' TERM HUP; while :; do sleep 0.05; done", 20_000),
];

/// Copy of this program that an ordinary user can run.
fn this_program() -> &'static Path {
    static COPY: OnceLock<PathBuf> = OnceLock::new();
    COPY.get_or_init(|| for_everybody(&std::env::current_exe().unwrap(), "server"))
}

/// Running server and its output.
pub(crate) struct Server {
    pub(crate) child: Child,
    said: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Starts a server on the data folder of `coracle`.
    pub(crate) fn start(coracle: &Coracle) -> Self {
        // Uses the same way to change the user as the program, with this program in its place.
        let model = coracle.command();
        let mut words: Vec<_> = std::iter::once(model.get_program()).chain(model.get_args()).collect();
        let launcher = words.pop().unwrap().to_owned();
        words.push(this_program().as_os_str());
        let (program, arguments) = words.split_first().unwrap();
        let mut child = Command::new(program)
            .args(arguments)
            .args(["--exact", "server::the_server_itself", "--nocapture", "--test-threads=1"])
            .env("CORACLE_HOME", coracle.home())
            .env(LAUNCHER, launcher)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let said = Arc::new(Mutex::new(Vec::new()));
        let (out, book) = (BufReader::new(child.stdout.take().unwrap()), Arc::clone(&said));
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                book.lock().unwrap().push(line);
            }
        });
        Self { child, said }
    }

    /// Number of lines so far.
    pub(crate) fn lines(&self) -> usize {
        self.said.lock().unwrap().len()
    }

    /// Lines after the first `from`.
    pub(crate) fn since(&self, from: usize) -> Vec<String> {
        self.said.lock().unwrap()[from..].to_vec()
    }

    /// Waits for this number of lines after `from` that start with `word`.
    pub(crate) fn says(&mut self, word: &str, times: usize, from: usize) {
        let begun = Instant::now();
        while self.since(from).iter().filter(|line| line.starts_with(word)).count() < times {
            let waited = begun.elapsed() < Duration::from_secs(30);
            assert!(waited && self.child.try_wait().unwrap().is_none(), "no {word:?} but {:#?}", self.since(from));
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Ends the server normally.
    pub(crate) fn end(&mut self) -> ExitStatus {
        drop(self.child.stdin.take());
        self.child.wait().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Engine like the server's.
pub(crate) fn engine(home: &Path, launcher: &Path, pool: usize) -> (Engine, Arc<NativeBackend>) {
    let backend = Arc::new(NativeBackend::new(NativeConfig {
        home: home.to_owned(),
        launcher: launcher.to_owned(),
        python: None,
        pool,
        preload: false,
        require_full_isolation: false,
        folders: Vec::new(),
        limits: Limits::default(),
    }));
    let config = EngineConfig { workspaces: home.join("workspaces"), session_idle: Duration::from_mins(1) };
    (Engine::new(config, backend.clone(), Arc::new(MemoryStore::new()), None), backend)
}

async fn work(engine: Engine, worker: usize) {
    let (language, code, wall_ms) = PROGRAMS[worker % PROGRAMS.len()];
    let mut rng = fastrand::Rng::with_seed(worker as u64);
    loop {
        let mut request = Request::new(UserId::local(), language, code);
        request.limits.wall_ms = wall_ms;
        request.session = (worker == 3).then(|| SessionId::new("kept").unwrap());
        let patience = if worker == 4 { Duration::from_millis(rng.u64(..300)) } else { Duration::from_mins(1) };
        let line = match tokio::time::timeout(patience, engine.execute(request)).await {
            Err(_) => "dropped".to_owned(),
            Ok(execution) => match execution.failure {
                None => "ok".to_owned(),
                Some(failure) => format!("{} worker {worker}: {}", failure.error_code, failure.error),
            },
        };
        // If standard output is closed, the server is about to end.
        let _ = writeln!(std::io::stdout(), "{line}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Not a test: the program that [`Server::start`] starts. Ends with its standard input.
#[test]
fn the_server_itself() {
    let (Some(launcher), Some(home)) = (std::env::var_os(LAUNCHER), std::env::var_os("CORACLE_HOME")) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let (engine, backend) = engine(Path::new(&home), Path::new(&launcher), POOL);
        backend.report().await.unwrap();
        println!("\nstarted");
        let workers: Vec<_> = (0..PROGRAMS.len()).map(|worker| tokio::spawn(work(engine.clone(), worker))).collect();
        let _ = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await;
        for worker in workers {
            worker.abort();
            let _ = worker.await;
        }
        engine.shutdown().await;
    });
}

/// Path of the launcher for `coracle`'s user.
pub(crate) fn launcher(coracle: &Coracle) -> PathBuf {
    let command = coracle.command();
    let last = command.get_args().last().unwrap_or(command.get_program());
    assert!(coracle.who == As::Ordinary || command.get_args().len() == 0);
    PathBuf::from(last)
}
