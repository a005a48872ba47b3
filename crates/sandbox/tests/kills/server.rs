//! A busy server in a separate process: this test program, started again.

use coracle_protocol::FromGuest;
use coracle_sandbox::{Backend, Cause, NativeBackend, NativeConfig, Network, Sandbox, SandboxError, Spec};
use coracle_testing::guest::answer_to;
use coracle_testing::harness::{As, Coracle, for_everybody};
use coracle_types::Limits;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// Data folder and launcher of the server.
const HOME: &str = "CORACLE_HOME";
const LAUNCHER: &str = "CORACLE_TEST_LAUNCHER";

/// Number of prepared sandboxes of the server.
const POOL: usize = 4;

/// Programs that run repeatedly: success, a kill with many children and daemons, hostile folders, a sandbox that is kept,
/// and a drop.
const PROGRAMS: [(&str, &str, u64); 5] = [
    ("python", "sum(range(1000))", 20_000),
    (
        "bash",
        "for i in 1 2 3; do sleep 60 & done; (setsid sleep 60 &); (setsid nohup sleep 60 >/dev/null 2>&1 &); wait",
        400,
    ),
    (
        "python",
        "import os\nos.makedirs('/artifacts/a/b/c/d')\nfor f in ('/artifacts/a/b/c', '/artifacts/a/b'): os.chmod(f, 0)\nimport time; time.sleep(0.2)",
        20_000,
    ),
    ("python", "n = globals().get('n', 0) + 1", 20_000),
    ("bash", "trap '' TERM HUP; while :; do sleep 0.05; done", 20_000),
];

/// Path of `sandboxed` where every user can run it.
pub(crate) fn sandboxed() -> &'static Path {
    static COPY: OnceLock<PathBuf> = OnceLock::new();
    COPY.get_or_init(|| for_everybody(Path::new(env!("CARGO_BIN_EXE_sandboxed")), "sandboxed"))
}

/// `sandboxed` as this user, with a data folder and a workspace.
pub(crate) fn place(who: As) -> Coracle {
    Coracle::running(sandboxed(), who)
}

/// Runs code with another instance, which must succeed.
pub(crate) fn next(coracle: &Coracle, what: &str) {
    let output = coracle.command().args(["-c", "print(6*7)"]).arg(coracle.workspace()).output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    assert_eq!(report["stdout"], "42\n", "{what}: the next execution: {output:?}");
}

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
        let model = coracle.command();
        let mut words: Vec<_> = std::iter::once(model.get_program()).chain(model.get_args()).collect();
        // Uses the same way to change the user as the program, with this program in its place.
        words.pop();
        words.push(this_program().as_os_str());
        let (program, arguments) = words.split_first().unwrap();
        let mut child = Command::new(program)
            .args(arguments)
            .args(["--exact", "server::the_server_itself", "--nocapture", "--test-threads=1"])
            .env(HOME, coracle.home())
            .env(LAUNCHER, sandboxed())
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

/// Backend like the server's.
pub(crate) fn backend(home: &Path, launcher: &Path, pool: usize) -> Arc<NativeBackend> {
    Arc::new(NativeBackend::new(NativeConfig {
        home: home.to_owned(),
        launcher: launcher.to_owned(),
        python: None,
        pool,
        preload: false,
        require_full_isolation: false,
        folders: Vec::new(),
        limits: Limits::default(),
    }))
}

/// Opens a sandbox with a workspace in the data folder.
pub(crate) async fn open(backend: &NativeBackend, home: &Path) -> Result<Sandbox, SandboxError> {
    let workspace = home.join("workspaces");
    fs::create_dir_all(&workspace).unwrap();
    backend
        .open(Spec { workspace, servers: None, skills: None, limits: Limits::default(), network: Network::Off })
        .await
}

/// Runs one of the programs in a sandbox, which is kept if there is a slot for it. Returns a line about the outcome.
async fn attempt(
    backend: &NativeBackend,
    home: &Path,
    worker: usize,
    round: u64,
    kept: Option<&mut Option<Sandbox>>,
) -> String {
    let (language, code, wall_ms) = PROGRAMS[worker % PROGRAMS.len()];
    let mut own = None;
    let slot = kept.unwrap_or(&mut own);
    if slot.is_none() {
        match open(backend, home).await {
            Ok(sandbox) => *slot = Some(sandbox),
            Err(error) => return format!("refused worker {worker}: {error}"),
        }
    }
    let Some(sandbox) = slot else { return String::new() };
    let answer = tokio::time::timeout(Duration::from_millis(wall_ms), answer_to(sandbox, round, language, code)).await;
    let line = match answer {
        Ok(Some(FromGuest::Done { ok: true, .. })) => return "ok".to_owned(),
        Ok(Some(answer)) => format!("failed worker {worker}: {answer:?}"),
        Err(_) => {
            sandbox.control.kill();
            sandbox.control.exit().await;
            format!("timeout worker {worker}")
        }
        Ok(None) => {
            let exit = sandbox.control.exit().await;
            let lost = exit.causes.iter().any(|cause| matches!(cause, Cause::Lost(_)));
            format!("{} worker {worker}: {exit:?}", if lost { "lost" } else { "ended" })
        }
    };
    *slot = None;
    line
}

async fn work(backend: Arc<NativeBackend>, home: PathBuf, worker: usize) {
    let mut rng = fastrand::Rng::with_seed(worker as u64);
    let mut kept = None;
    for round in 1.. {
        let patience = if worker == 4 { Duration::from_millis(rng.u64(..300)) } else { Duration::from_mins(1) };
        let slot = (worker == 3).then_some(&mut kept);
        let line = tokio::time::timeout(patience, attempt(&backend, &home, worker, round, slot)).await;
        // If standard output is closed, the server is about to end.
        let _ = writeln!(std::io::stdout(), "{}", line.unwrap_or_else(|_| "dropped".to_owned()));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Not a test: the program that [`Server::start`] starts. Ends with its standard input.
#[test]
fn the_server_itself() {
    let (Some(launcher), Some(home)) = (std::env::var_os(LAUNCHER), std::env::var_os(HOME)) else { return };
    let home = PathBuf::from(home);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let backend = backend(&home, Path::new(&launcher), POOL);
        backend.report().await.unwrap();
        println!("\nstarted");
        let start = |worker| tokio::spawn(work(Arc::clone(&backend), home.clone(), worker));
        let workers: Vec<_> = (0..PROGRAMS.len()).map(start).collect();
        let _ = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await;
        for worker in workers {
            worker.abort();
            let _ = worker.await;
        }
        backend.shutdown().await;
    });
}
