//! Servers, daemons and containers that are killed at any moment: nothing is left behind, and no work is lost that was
//! acknowledged.

use crate::lab::{call, config, eventually, program, python};
use coracle_sandbox::{Backend, DockerBackend, DockerConfig, Spec};
use coracle_testing::engine::Engine;
use coracle_testing::kills::rounds;
use coracle_types::Limits;
use fastrand::Rng;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Variables of the server that the test starts: the engine's address, and a folder for its files.
const HOST: &str = "CORACLE_TEST_DOCKER_HOST";
const HOME: &str = "CORACLE_TEST_DOCKER_HOME";

/// Not a test: the program that is killed. Each line is the number of a file that it says to have written.
#[test]
fn the_server_itself() {
    let (Some(host), Some(folder)) = (std::env::var_os(HOST), std::env::var_os(HOME)) else { return };
    let folder = PathBuf::from(folder);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let backend = DockerBackend::new(DockerConfig {
            home: folder.join("home"),
            host: host.into_string().ok(),
            image: coracle_testing::engine::IMAGE.to_owned(),
            runtime: None,
            program: program().to_owned(),
            folders: Vec::new(),
            environment: None,
            preload: Vec::new(),
            idle: Duration::from_mins(5),
            require_full_isolation: false,
            limits: Limits::default(),
        });
        let spec = Spec { workspace: folder.join("workspace"), servers: None, skills: None, limits: Limits::default() };
        let work = async {
            let first = std::fs::read_dir(&spec.workspace).map_or(0, Iterator::count);
            for number in first.. {
                let code = format!("with open('/workspace/{number}', 'w') as file: file.write('{number}')\n6 * 7");
                let outcome = match backend.open(spec.clone()).await {
                    Ok(mut sandbox) => {
                        match coracle_testing::guest::answer_to(&mut sandbox, 1, "python", &code).await {
                            Some(coracle_protocol::FromGuest::Done { ok: true, .. }) => format!("done {number}"),
                            other => format!("failed {other:?}"),
                        }
                    }
                    Err(error) => format!("refused {error}"),
                };
                // If standard output is closed, the server is about to end.
                let _ = writeln!(std::io::stdout(), "{}", outcome.replace('\n', " "));
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let ended = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()));
        tokio::select! { () = work => {} _ = ended => {} }
        backend.shutdown().await;
    });
}

/// A server in a process of its own.
struct Server {
    child: Child,
    /// The numbers that it has acknowledged.
    done: Arc<Mutex<Vec<u64>>>,
}

impl Server {
    fn start(engine: &Engine, folder: &Path) -> Self {
        std::fs::create_dir_all(folder.join("workspace")).unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "kills::the_server_itself", "--nocapture"])
            .env(HOST, engine.host())
            .env(HOME, folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let done = Arc::new(Mutex::new(Vec::new()));
        let (lines, heard) = (BufReader::new(child.stdout.take().unwrap()).lines(), Arc::clone(&done));
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                match line.strip_prefix("done ").and_then(|number| number.parse().ok()) {
                    Some(number) => heard.lock().unwrap().push(number),
                    None => println!("server: {line}"),
                }
            }
        });
        Self { child, done }
    }

    fn done(&self) -> Vec<u64> {
        self.done.lock().unwrap().clone()
    }

    /// Waits until it has acknowledged so much more.
    async fn wait_for_work(&self, count: usize) {
        let before = self.done().len();
        eventually("the server works", async || self.done().len() >= before + count).await;
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_left_of_what_is_killed() {
    let Some(engine) = Engine::start(program()) else { return };
    let mut rng = Rng::with_seed(7);
    for round in 0..rounds() {
        let folder = tempfile::tempdir().unwrap();
        let mut server = Server::start(&engine, folder.path());
        server.wait_for_work(1 + rng.usize(..3)).await;
        tokio::time::sleep(Duration::from_millis(rng.u64(..50))).await;
        match round % 3 {
            // The agent notices that the server is gone, and the engine removes the container.
            0 => {}
            1 => {
                for id in engine.containers() {
                    engine.docker(&["kill", &id]);
                }
                server.wait_for_work(2).await;
            }
            _ => {
                engine.kill_and_restart();
                server.wait_for_work(2).await;
            }
        }
        server.kill();
        engine.wait_for_containers(0);
        for number in server.done() {
            let written = std::fs::read_to_string(folder.path().join("workspace").join(number.to_string()));
            assert_eq!(written.ok(), Some(number.to_string()), "round {round}: acknowledged and lost");
        }
        // The next server removes what is left in the data folder.
        let backend = DockerBackend::new(config(&engine, &folder.path().join("home")));
        let workspace = folder.path().join("workspace");
        drop(call(&backend, &Spec { workspace, servers: None, skills: None, limits: Limits::default() }).await);
        backend.shutdown().await;
        let left: Vec<_> = std::fs::read_dir(folder.path().join("home/run"))
            .unwrap()
            .flatten()
            .map(|entry| entry.file_name())
            .collect();
        assert_eq!(left, [".lock"], "round {round}");
    }
}

/// A container whose server died before it could be started is removed by the next server. Those of living servers,
/// and those of others, are left alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orphans_are_swept_at_the_next_start() {
    let Some(engine) = Engine::start(program()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let workspace = folder.path().join("workspace");
    std::fs::create_dir(&workspace).unwrap();
    let spec = Spec { workspace, servers: None, skills: None, limits: Limits::default() };
    let living = DockerBackend::new(config(&engine, &folder.path().join("living")));
    let mut alive = call(&living, &spec).await;
    let own = living.containers().await.remove(0);
    let label = engine.docker(&["inspect", "--format", "{{index .Config.Labels \"dev.coracle.server\"}}", &own]);
    let dead = label.rsplit_once('/').unwrap().0.to_owned() + "/1";
    let create = |label: &str| {
        engine.docker(&["create", "--label", label, "--network", "none", coracle_testing::engine::IMAGE, "sleep", "99"])
    };
    let orphan = create(&format!("dev.coracle.server={dead}"));
    let of_others = create("of=others");
    let next = DockerBackend::new(config(&engine, &folder.path().join("next")));
    assert_eq!(next.report().await.unwrap().swept, 1);
    let left = engine.containers();
    assert!(!left.contains(&orphan) && left.contains(&of_others) && left.contains(&own), "{left:?}");
    assert_eq!(python(&mut alive, 2, "'alive'").await, "alive");
    next.shutdown().await;
    drop(alive);
    living.shutdown().await;
    engine.docker(&["rm", &of_others]);
    engine.wait_for_containers(0);
}
