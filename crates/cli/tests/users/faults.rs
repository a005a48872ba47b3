//! Faults: a full disk, a locked, damaged or newer database, a missing or wrong master key, a read-only data folder,
//! few descriptors or processes, an unwritable standard error, two servers on one folder. Each one is reported with its
//! file and its fix, `/readyz` reflects it, acknowledged work is kept, and the server recovers without a restart.

use coracle_store::{Home, KeySource, Owner, SqliteStore, Store};
use coracle_testing::each_user;
use coracle_testing::harness::{As, Coracle};
use coracle_testing::wait::eventually;
use coracle_types::Secret;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Time limit of a response on a busy machine.
const PATIENCE: Duration = Duration::from_mins(2);

/// `coracle up` without users.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(coracle: &Coracle) -> Self {
        let mut command = coracle.command();
        command.args(["up", "--port", "0"]).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut text = String::new();
        while !text.contains("http://") {
            assert!(said.read_line(&mut text).unwrap() > 0, "the server does not serve: {text}");
        }
        let address = text.split_once("http://").unwrap().1.split(['/', '\n', ' ']).next().unwrap().to_owned();
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        Self { child, address }
    }

    fn ask(&self, method: &str, path: &str, body: &[u8]) -> (u16, String) {
        ask(&self.address, method, path, body).unwrap()
    }

    fn ready(&self) -> (u16, String) {
        self.ask("GET", "/readyz", b"")
    }

    /// Waits for a status, because the answer may be cached for half a second.
    fn comes_to(&self, status: u16, text: &str) {
        eventually(&format!("/readyz says {status} {text}"), || self.ready() == (status, text.to_owned()));
    }

    fn run(&self, code: &str, session: Option<&str>) -> Value {
        let body = json!({ "code": code, "session": session }).to_string();
        let (status, text) = self.ask("POST", "/api/executions", body.as_bytes());
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{status} {error}: {text}"))
    }

    fn succeeds(&self, code: &str, session: Option<&str>) -> Value {
        let execution = self.run(code, session);
        assert_eq!(execution["success"], true, "{execution:#}");
        execution
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_raw(self.child.id().cast_signed()).unwrap(), Signal::INT);
        let begun = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            if begun.elapsed() > PATIENCE {
                self.child.kill().unwrap();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn ask(address: &str, method: &str, path: &str, body: &[u8]) -> std::io::Result<(u16, String)> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(&[head.as_bytes(), body].concat())?;
    let mut whole = String::new();
    stream.read_to_string(&mut whole)?;
    let cut = || std::io::Error::other(whole.clone());
    let (head, text) = whole.split_once("\r\n\r\n").ok_or_else(cut)?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(cut)?;
    Ok((status, text.to_owned()))
}

/// Gives this thread and its children their own mounts. Returns `false`, with a message, if that is not permitted.
fn mounts_of_its_own() -> bool {
    use rustix::mount::{MountPropagationFlags, mount_change};
    if !rustix::process::geteuid().is_root() {
        coracle_testing::skip::skip("a small disk: only root can mount one");
        return false;
    }
    #[expect(deprecated, reason = "only mounts are unshared, not descriptors")]
    rustix::thread::unshare(rustix::thread::UnshareFlags::NEWNS).unwrap();
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).unwrap();
    true
}

/// Makes the data folder a file system of this size.
fn small_disk(folder: &Path, bytes: u64) {
    let options = std::ffi::CString::new(format!("size={bytes}")).unwrap();
    rustix::mount::mount("tmpfs", folder, "tmpfs", rustix::mount::MountFlags::empty(), options.as_c_str()).unwrap();
}

/// Uses up all free space.
fn fill(path: &Path) {
    let mut file = fs::File::create(path).unwrap();
    let full = std::iter::repeat_with(|| file.write_all(&[0; 4096])).find_map(Result::err).unwrap();
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn doctor(coracle: &Coracle) -> Vec<Value> {
    let output = coracle.command().args(["doctor", "--json"]).output().unwrap();
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let checks = found["data"].as_array().unwrap().clone();
    let failed = checks.iter().any(|check| check["outcome"] == "failed");
    assert!(!failed || output.status.code() == Some(1), "{found:#}");
    checks
}

fn outcome(checks: &[Value], name: &str) -> (String, String) {
    let check = checks.iter().find(|check| check["name"] == name).unwrap_or_else(|| panic!("{name}: {checks:#?}"));
    (check["outcome"].as_str().unwrap().to_owned(), check.to_string())
}

#[test]
fn the_disk_is_full() {
    if !mounts_of_its_own() {
        return;
    }
    let coracle = Coracle::new(As::Root);
    let home = coracle.home();
    small_disk(&home, 64 << 20);
    fs::write(home.join("coracle.yaml"), format!("log: {{file: {}, level: info}}\n", home.join("log").display()))
        .unwrap();
    let server = Server::start(&coracle);
    server.succeeds("kept = 'before'", Some("work"));
    server.comes_to(200, "ok");
    fill(&home.join("ballast"));

    // The store, and with it the session log.
    let long = format!("text = '{}'\n1", "x".repeat(200_000));
    for _ in 0..6 {
        let refused = server.run(&long, Some("work"));
        let error = refused["error"].as_str().unwrap_or_else(|| panic!("{refused:#}"));
        assert!(error.contains("coracle.db") && error.contains("no space"), "{error}");
        assert!(refused["hint"].as_str().unwrap().contains("free some space"), "{refused:#}");
    }
    server.comes_to(503, "store_full");
    assert_eq!(server.ask("GET", "/health", b"").0, 200);
    // Runs without a session continue, and say that they are not recorded.
    let fresh = server.run("6 * 7", None);
    if fresh["success"] == true {
        assert_eq!(fresh["result"], 42);
        assert!(
            fresh["warnings"].to_string().contains("list of executions") || fresh["warnings"].is_null(),
            "{fresh:#}"
        );
    } else {
        // A sandbox needs some space as well.
        assert!(fresh["error"].to_string().contains("space"), "{fresh:#}");
    }
    // The workspace.
    let (status, text) = server.ask("PUT", "/api/workspace/file?path=new.txt", &vec![b'x'; 100_000]);
    assert_eq!(status, 507, "{text}");
    assert!(text.contains("disk_full") && !text.contains("workspace_mb"), "{text}");
    // A backup to the full disk.
    let backup = home.join("backup.tar");
    let refused = coracle.command().arg("backup").arg(&backup).output().unwrap();
    assert!(!refused.status.success(), "{refused:?}");
    assert!(said(&refused).contains(home.to_str().unwrap()) && said(&refused).contains("space"), "{}", said(&refused));
    assert!(!backup.exists());

    fs::remove_file(home.join("ballast")).unwrap();
    // At once and every time: no connection remembers the fault.
    for _ in 0..12 {
        let again = server.succeeds("kept", Some("work"));
        assert_eq!(again["result"], "before", "the session is the same");
        assert_ne!(again["session_restarted"], true, "{again:#}");
    }
    let artifact = server.succeeds("open('/artifacts/a.txt', 'w').write('a')", Some("work"));
    assert_eq!(artifact["artifacts"].as_array().unwrap().len(), 1, "{artifact:#}");
    server.comes_to(200, "ok");
    assert_eq!(server.ask("PUT", "/api/workspace/file?path=new.txt", b"x").0 / 100, 2);
    let done = coracle.command().arg("backup").arg(&backup).output().unwrap();
    assert!(done.status.success() && backup.exists(), "{}", said(&done));
    // Answered executions are in the list, including those that could not be written at first.
    if let Some(id) = fresh["execution_id"].as_str().filter(|_| fresh["success"] == true) {
        eventually("the execution is in the list", || server.ask("GET", "/api/executions", b"").1.contains(id));
    }
}

/// Another process that holds a write lock on the database.
struct Holder(Child);

impl Holder {
    fn new(coracle: &Coracle) -> Self {
        let code = "import sqlite3, sys\ndb = sqlite3.connect(sys.argv[1], isolation_level=None)\n\
                    db.execute('BEGIN IMMEDIATE')\nprint('held', flush=True)\nsys.stdin.read()";
        let database = Home::new(coracle.home()).database();
        let mut command = Command::new("python3");
        command.args(["-c", code]).arg(database).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "held\n");
        Self(child)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        self.0.wait().unwrap();
    }
}

#[test]
fn the_database_is_locked() {
    let coracle = Coracle::new(As::current());
    let server = Server::start(&coracle);
    server.succeeds("kept = 1", Some("work"));
    let held = Holder::new(&coracle);
    // Answered while the lock is held, without waiting for it.
    let refused = server.run("kept", Some("work"));
    assert!(refused["error"].as_str().unwrap().contains("coracle.db"), "{refused:#}");
    assert!(refused["hint"].as_str().unwrap().contains("fuser"), "{refused:#}");
    let fresh = server.succeeds("6 * 7", None);
    assert!(fresh["warnings"].to_string().contains("list of executions"), "{fresh:#}");
    server.comes_to(503, "store_locked");
    drop(held);
    eventually("the session goes on", || server.run("kept", Some("work"))["result"] == 1);
    server.comes_to(200, "ok");
    let id = fresh["execution_id"].as_str().unwrap();
    eventually("the execution is in the list", || server.ask("GET", "/api/executions", b"").1.contains(id));
}

each_user!(the_database_is_damaged_or_newer);
fn the_database_is_damaged_or_newer(who: As) {
    let coracle = Coracle::new(who);
    let database = Home::new(coracle.home()).database();
    drop(Server::start(&coracle));
    assert_eq!(outcome(&doctor(&coracle), "database").0, "ok");
    let sound = fs::read(&database).unwrap();
    let mut newer = sound.clone();
    newer[60..64].copy_from_slice(&1000_u32.to_be_bytes());
    let mut damaged = sound.clone();
    let half = damaged.len() / 2;
    damaged[half..].fill(0x5a);
    let cases = [(&newer, "schema version 1000", true), (&damaged, "damaged", false), (&vec![b'x'; 5_000], "", true)];
    for (content, word, by_exec) in cases {
        fs::write(&database, content).unwrap();
        let up = coracle.command().args(["up", "--port", "0"]).output().unwrap();
        assert!(!up.status.success(), "as {who:?}");
        let text = said(&up);
        assert!(
            text.contains("coracle.db") && text.contains("hint: ") && text.contains(word) || word == "damaged",
            "{text}"
        );
        let exec = coracle.exec(&["-c", "print(1)"]);
        assert_eq!(exec.status.success(), !by_exec, "{}", said(&exec));
        assert_eq!(by_exec, said(&exec).contains("coracle.db"), "{}", said(&exec));
    }
    // doctor starts a sandbox of every kind, so one run is enough.
    let (found, text) = outcome(&doctor(&coracle), "database");
    assert!(found == "failed" && text.contains("coracle.db"), "{text}");
    fs::write(&database, &sound).unwrap();
    assert!(coracle.exec(&["-c", "print(1)"]).status.success());
    Server::start(&coracle).comes_to(200, "ok");
}

#[test]
fn the_master_key_is_missing_or_wrong() {
    let coracle = Coracle::new(As::current());
    let home = Home::new(coracle.home());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = SqliteStore::open(&home, KeySource::File).await.unwrap();
        store.put_secret(&Owner::Shared, "token", &Secret::new("s")).await.unwrap();
        store.close().await;
    });
    let server = Server::start(&coracle);
    server.comes_to(200, "ok");
    assert_eq!(outcome(&doctor(&coracle), "master key").0, "ok");
    let right = fs::read(home.master_key()).unwrap();
    fs::write(home.master_key(), "00".repeat(32)).unwrap();
    server.comes_to(503, "key_wrong");
    fs::remove_file(home.master_key()).unwrap();
    server.comes_to(503, "key_missing");
    let (found, text) = outcome(&doctor(&coracle), "master key");
    assert!(found == "failed" && text.contains("master.key") && text.contains("put the right key back"), "{text}");
    assert_eq!(server.succeeds("1", None)["result"], 1, "code needs no key");
    fs::write(home.master_key(), right).unwrap();
    fs::set_permissions(home.master_key(), std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    server.comes_to(200, "ok");
}

#[test]
fn the_data_folder_is_read_only() {
    use rustix::mount::{MountFlags, mount_bind, mount_remount};
    if !mounts_of_its_own() {
        return;
    }
    let coracle = Coracle::new(As::Root);
    let home = coracle.home();
    mount_bind(&home, &home).unwrap();
    mount_remount(&home, MountFlags::BIND | MountFlags::RDONLY, c"").unwrap();
    for words in
        [&["up", "--port", "0"][..], &["exec", "-c", "print(1)"], &["exec", "--session", "s", "-c", "print(1)"]]
    {
        let refused = coracle.command().args(words).output().unwrap();
        assert!(!refused.status.success(), "{words:?}");
        let text = said(&refused);
        assert!(text.contains(home.to_str().unwrap()) && text.contains("hint: "), "{words:?}: {text}");
    }
    assert_eq!(outcome(&doctor(&coracle), "data folder").0, "failed");
    mount_remount(&home, MountFlags::BIND, c"").unwrap();
    assert!(coracle.exec(&["-c", "print(1)"]).status.success());
    Server::start(&coracle).comes_to(200, "ok");
}

each_user!(there_are_few_descriptors);
fn there_are_few_descriptors(who: As) {
    let few = Coracle::behind(who, &["prlimit", "--nofile=64:64"]);
    let refused = few.command().args(["up", "--port", "0"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2), "as {who:?}: {}", said(&refused));
    assert!(said(&refused).contains("64") && said(&refused).contains("ulimit -n"), "{}", said(&refused));

    let coracle = Coracle::behind(who, &["prlimit", "--nofile=256:256"]);
    let server = Server::start(&coracle);
    let (mut lived, mut refused) = (0, None);
    for number in 0..60 {
        let session = format!("s{number}");
        let execution = server.run("x = 1", Some(&session));
        if execution["success"] == true {
            lived += 1;
        } else {
            refused = Some(execution);
            break;
        }
    }
    let refused = refused.unwrap_or_else(|| panic!("as {who:?}: {lived} sessions live with 256 descriptors"));
    assert!(lived >= 10, "as {who:?}: {lived}: {refused:#}");
    assert!(refused["error"].as_str().unwrap().contains("open files"), "as {who:?}: {refused:#}");
    assert!(refused["hint"].as_str().unwrap().contains("ulimit -n"), "as {who:?}: {refused:#}");
    // Connections are accepted, and live sessions continue.
    server.comes_to(200, "ok");
    assert_eq!(server.succeeds("x", Some("s0"))["result"], 1);
}

#[test]
fn a_command_has_few_descriptors_or_processes() {
    for (limit, word) in [("--nofile=64:64", "ulimit -n"), ("--nproc=2:2", "ulimit -u")] {
        let coracle = Coracle::behind(As::Ordinary, &["prlimit", limit]);
        let refused = coracle.exec(&["-c", "print(1)"]);
        assert!(!refused.status.success(), "{limit}: {refused:?}");
        assert!(said(&refused).contains(word), "{limit}: {}", said(&refused));
    }
    let enough = Coracle::behind(As::Ordinary, &["prlimit", "--nofile=256:256", "--nproc=4096:4096"]);
    assert!(enough.exec(&["-c", "print(1)"]).status.success());
}

each_user!(standard_error_cannot_be_written);
fn standard_error_cannot_be_written(who: As) {
    let coracle = Coracle::new(who);
    let full = || Stdio::from(fs::OpenOptions::new().write(true).open("/dev/full").unwrap());
    let exec = coracle.command().args(["exec", "-c", "print(6 * 7)"]).stderr(full()).output().unwrap();
    assert_eq!((exec.status.code(), exec.stdout.as_slice()), (Some(0), &b"42\n"[..]), "as {who:?}");
    let failed = coracle.command().args(["exec", "-c", "1 / 0"]).stderr(full()).output().unwrap();
    assert_eq!(failed.status.code(), Some(1), "as {who:?}");
    // A port that was free a moment ago.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut command = coracle.command();
    command.args(["up", "--port", &port.to_string()]).env("CORACLE_LOG", "info").stdout(Stdio::null());
    let child = command.stderr(full()).spawn().unwrap();
    let server = Server { child, address: format!("127.0.0.1:{port}") };
    eventually("the server serves", || ask(&server.address, "GET", "/readyz", b"").is_ok());
    server.succeeds("print('x')", Some("work"));
    server.comes_to(200, "ok");
}

#[test]
fn two_servers_cannot_share_a_data_folder() {
    let coracle = Coracle::new(As::current());
    let first = Server::start(&coracle);
    let second = coracle.command().args(["up", "--port", "0"]).output().unwrap();
    assert!(!second.status.success());
    assert!(said(&second).contains(&first.address) && said(&second).contains("CORACLE_HOME"), "{}", said(&second));
    // A command shares files and log, and the server reports it.
    first.succeeds("x = 1", Some("work"));
    assert!(coracle.exec(&["--session", "work", "-c", "x = 2"]).status.success());
    let after = first.succeeds("x", Some("work"));
    assert_eq!(after["result"], 1);
    assert!(after["warnings"].to_string().contains("ran in another coracle process"), "{after:#}");
    assert!(
        first.succeeds("x", Some("work"))["warnings"].is_null()
            || first.succeeds("x", Some("work"))["warnings"] == json!([])
    );
    drop(first);
    Server::start(&coracle).comes_to(200, "ok");
}
