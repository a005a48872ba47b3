//! Users are isolated: data, processes and memory of one are invisible to another, at the same time and afterwards.

use coracle_engine::{Engine, EngineConfig, Request};
use coracle_sandbox::{NativeBackend, NativeConfig};
use coracle_store::MemoryStore;
use coracle_types::{Execution, Language, Limits, SessionId, UserId};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Server with two prepared sandboxes, shared by users.
struct Server {
    engine: Engine,
    _home: TempDir,
}

impl Server {
    fn start() -> Self {
        let home = TempDir::new().unwrap();
        let config = NativeConfig {
            home: home.path().to_owned(),
            launcher: coracle_testing::harness::built(),
            python: None,
            pool: 2,
            preload: true,
            require_full_isolation: false,
            folders: Vec::new(),
            limits: Limits::default(),
        };
        let backend = Arc::new(NativeBackend::new(config));
        let config = EngineConfig { workspaces: home.path().join("workspaces"), session_idle: Duration::from_mins(10) };
        Self { engine: Engine::new(config, backend, Arc::new(MemoryStore::new()), None), _home: home }
    }

    /// Runs code in a session.
    async fn in_session(&self, user: &str, code: &str) -> Value {
        // All users use the same name, which gives no access to sessions of others.
        self.run(user, Some(SessionId::new("work").unwrap()), code).await
    }

    /// Runs code in an unused sandbox.
    async fn fresh(&self, user: &str, code: &str) -> Value {
        self.run(user, None, code).await
    }

    async fn run(&self, user: &str, session: Option<SessionId>, code: &str) -> Value {
        let mut request = Request::new(UserId::new(user).unwrap(), Language::Python, code);
        request.session = session;
        let execution: Execution = self.engine.execute(request).await;
        assert!(execution.success, "{user}: {execution:#?}");
        execution.result.unwrap_or_default()
    }
}

fn plant(mark: &str) -> String {
    format!("mark = {mark:?}\n{}", include_str!("canaries/plant.py"))
}

fn look(mark: &str) -> String {
    let backwards: String = mark.chars().rev().collect();
    format!("backwards = {backwards:?}\n{}", include_str!("canaries/look.py"))
}

/// Text that is unique on this machine.
fn mark(user: &str) -> String {
    format!("canary-of-{user}-{}", std::process::id())
}

/// Number of processes on the host with this text in their arguments.
fn processes_with(mark: &str) -> usize {
    let lines =
        fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| String::from_utf8_lossy(line).contains(mark)).count()
}

const NOTHING: [&str; 0] = [];
const NAMED_WITHIN: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_users_cannot_see_each_other() {
    let server = Server::start();
    let users = ["alice", "bob"];
    for user in users {
        server.in_session(user, &plant(&mark(user))).await;
    }
    assert_eq!(server.engine.live_sessions(), 2);
    for user in users {
        // The process changes its name a moment after its start.
        let begun = Instant::now();
        while processes_with(&mark(user)) != 1 {
            assert!(begun.elapsed() < NAMED_WITHIN, "the process of {user} is missing");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    for (user, other) in [("alice", "bob"), ("bob", "alice")] {
        let others = server.in_session(user, &look(&mark(other))).await;
        assert_eq!(others["found"], serde_json::json!(NOTHING), "{user} sees the canary of {other}");
        assert_eq!(others["timing"], serde_json::json!(NOTHING), "{user} can tell how busy {other} is");
        let own = server.in_session(user, &look(&mark(user))).await;
        let found: Vec<String> = serde_json::from_value(own["found"].clone()).unwrap();
        for place in [
            "built-in",
            "content in /artifacts",
            "content in /tmp",
            "content in /workspace",
            "descriptor",
            "environment",
            "module",
            "name in /artifacts",
            "name in /tmp",
            "name in /workspace",
            "thread",
            "variable",
        ] {
            assert!(found.iter().any(|name| name == place), "{user} does not see the own canary ({place}): {found:?}");
        }
        // The interpreter and the sleeping process; the other user has as many.
        assert_eq!(own["processes"], 2, "{user}: {own}");
    }
    server.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn later_users_find_nothing() {
    let server = Server::start();
    let spoil = include_str!("canaries/spoil.py");
    // More rounds than prepared sandboxes, so that later sandboxes are forked after the first run.
    for round in 0..4 {
        let alice = mark(&format!("alice-{round}"));
        server.fresh("alice", &format!("{}\n{spoil}", plant(&alice))).await;
        let code = "import json, os, builtins\n\
            [sorted([2, 1]), list(range(2)), json.loads('3'), os.getcwd(), hasattr(builtins, 'canary')]";
        assert_eq!(
            server.fresh("bob", code).await,
            serde_json::json!([[1, 2], [0, 1], 3, "/workspace", false]),
            "round {round}"
        );
        let seen = server.fresh("bob", &look(&alice)).await;
        assert_eq!(
            (&seen["found"], &seen["processes"]),
            (&serde_json::json!(NOTHING), &serde_json::json!(1)),
            "round {round}"
        );
        assert_eq!(processes_with(&alice), 0, "round {round}: a process has outlived its sandbox");
        // Only her files are kept, for her; they are also visible in /proc through the working directory.
        let seen = server.fresh("alice", &look(&alice)).await;
        let places = ["content in /workspace", "name in /proc", "name in /workspace"];
        assert_eq!(seen["found"], serde_json::json!(places), "round {round}");
    }
    server.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sandboxes_have_different_random_numbers() {
    let server = Server::start();
    let mut drawn: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for round in 0..6 {
        let user = if round % 2 == 0 { "alice" } else { "bob" };
        let values = server.fresh(user, include_str!("canaries/random.py")).await;
        for (name, value) in values.as_object().unwrap() {
            drawn.entry(name.clone()).or_default().push(value.to_string());
        }
    }
    for (name, values) in &drawn {
        let distinct: std::collections::BTreeSet<_> = values.iter().collect();
        assert_eq!(distinct.len(), values.len(), "{name}: {values:?}");
    }
    // Control: with the same seed the numbers are equal, so the seeds differ.
    let seeded = "import random\nrandom.seed(1)\nrandom.random()";
    assert_eq!(server.fresh("alice", seeded).await, server.fresh("bob", seeded).await);
    server.engine.shutdown().await;
}

#[test]
fn all_of_it_as_an_ordinary_user() {
    coracle_testing::ordinary_user::run_tests_except(module_path!(), &["all_of_it_as_an_ordinary_user"]);
}
