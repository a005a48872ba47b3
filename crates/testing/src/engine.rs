//! A container engine of the tests' own: a Docker daemon with its own data folder and socket, and an image that is made
//! from the programs of this machine.

use crate::skip::skip;
use coracle_sandbox::{ImageParts, build_image};
use serde_json::json;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The name of the image.
pub const IMAGE: &str = "coracle-tests:latest";

/// The maximum time for the daemon to start and to stop.
const PATIENCE: Duration = Duration::from_secs(60);

/// A daemon. It is stopped when the last test that uses it ends.
pub struct Engine {
    folder: TempDir,
    child: Mutex<Child>,
    /// Whether it can run gVisor.
    pub has_gvisor: bool,
}

static SHARED: Mutex<Weak<Engine>> = Mutex::new(Weak::new());

fn find(program: &str) -> Option<PathBuf> {
    let found =
        ["/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"].map(|folder| Path::new(folder).join(program));
    found.into_iter().find(|path| path.is_file())
}

impl Engine {
    /// The daemon that the tests of one process share, with an image for `program`. `None` if there can be none here,
    /// which is reported.
    pub fn shared(program: &Path) -> Option<Arc<Self>> {
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(engine) = shared.upgrade() {
            return Some(engine);
        }
        let engine = Arc::new(Self::start(program)?);
        *shared = Arc::downgrade(&engine);
        Some(engine)
    }

    /// A daemon for one test, which may kill it.
    pub fn start(program: &Path) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            skip("the Docker backend: only root can start a Docker daemon for the tests");
            return None;
        }
        if find("dockerd").is_none() || find("docker").is_none() {
            skip("the Docker backend: `dockerd` is missing (Debian package `docker.io`)");
            return None;
        }
        let gvisor = find("runsc");
        if gvisor.is_none() {
            skip("the Docker backend with gVisor: `runsc` is missing (Debian package `runsc`)");
        }
        let folder = TempDir::new().unwrap();
        let mut settings = json!({});
        if let Some(runsc) = &gvisor {
            // Neither a network nor a cgroup of its own: containers have none, and the machine may not allow it.
            let arguments = ["--network=none", "--platform=ptrace", "--ignore-cgroups"];
            settings["runtimes"] = json!({ "runsc": { "path": runsc, "runtimeArgs": arguments } });
        }
        fs::write(folder.path().join("daemon.json"), settings.to_string()).unwrap();
        let child = Mutex::new(daemon(folder.path()));
        let engine = Self { folder, child, has_gvisor: gvisor.is_some() };
        engine.wait_until_it_answers();
        let (host, parts) = (engine.host(), ImageParts { program: Some(program.to_owned()), ..ImageParts::default() });
        let folder = engine.folder.path().to_owned();
        // In a thread of its own, because the caller may be in a runtime.
        let built = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(build_image(Some(&host), IMAGE, parts, &folder))
        });
        built.join().unwrap().unwrap();
        Some(engine)
    }

    /// The address, like `DOCKER_HOST`.
    pub fn host(&self) -> String {
        format!("unix://{}", self.folder.path().join("socket").display())
    }

    /// Runs `docker` and returns what it prints. It must succeed.
    pub fn docker(&self, arguments: &[&str]) -> String {
        let told = Command::new("docker").args(["-H", &self.host()]).args(arguments).output().unwrap();
        assert!(told.status.success(), "docker {arguments:?}: {}", String::from_utf8_lossy(&told.stderr));
        String::from_utf8(told.stdout).unwrap().trim().to_owned()
    }

    /// The IDs of all containers, also of stopped ones.
    pub fn containers(&self) -> Vec<String> {
        self.docker(&["ps", "--all", "--quiet", "--no-trunc"]).lines().map(str::to_owned).collect()
    }

    /// Waits until there are exactly so many containers.
    #[track_caller]
    pub fn wait_for_containers(&self, count: usize) {
        let begun = Instant::now();
        loop {
            let found = self.containers();
            if found.len() == count {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "{} containers instead of {count}: {found:?}", found.len());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Kills the daemon and starts it again.
    pub fn kill_and_restart(&self) {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        child.kill().unwrap();
        child.wait().unwrap();
        let _ = fs::remove_file(self.folder.path().join("pid"));
        *child = daemon(self.folder.path());
        drop(child);
        self.wait_until_it_answers();
    }

    fn wait_until_it_answers(&self) {
        let begun = Instant::now();
        loop {
            let answer = Command::new("docker").args(["-H", &self.host(), "info"]).output().unwrap();
            if answer.status.success() && String::from_utf8_lossy(&answer.stdout).contains("Server Version") {
                return;
            }
            let ended = self.child.lock().unwrap_or_else(PoisonError::into_inner).try_wait().unwrap();
            let log = || fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
            assert!(ended.is_none() && begun.elapsed() < PATIENCE, "dockerd does not start: {ended:?}\n{}", log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn daemon(folder: &Path) -> Child {
    let at = |name: &str| folder.join(name);
    let log = File::options().create(true).append(true).open(at("log")).unwrap();
    Command::new(find("dockerd").unwrap())
        .arg("--config-file")
        .arg(at("daemon.json"))
        .arg("--data-root")
        .arg(at("data"))
        .arg("--exec-root")
        .arg(at("exec"))
        .arg("--pidfile")
        .arg(at("pid"))
        .args(["-H", &format!("unix://{}", at("socket").display())])
        // No change to the machine's network.
        .args(["--bridge=none", "--iptables=false", "--ip-forward=false"])
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap()
}

impl Drop for Engine {
    fn drop(&mut self) {
        let child = self.child.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(pid) = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let begun = Instant::now();
        while child.try_wait().is_ok_and(|ended| ended.is_none()) {
            if begun.elapsed() > PATIENCE {
                let _ = child.kill();
                let _ = child.wait();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
