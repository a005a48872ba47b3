//! The life cycle of a connection: its start, owner, handshake and end.

use crate::faults::logged;
use crate::lab::{arguments, call, eventually, is_alive, rogue, said, server, upstream, user};
use coracle_types::{Scope, Secret, ServerSpec, Transport};
use coracle_upstream::{
    CallContext, Change, Changed, Offers, Options, Owner, Progress, ServerInfo, ServerState, Upstream,
};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;
use tokio::sync::mpsc;

fn starts(log: &Path) -> usize {
    std::fs::read_to_string(log).unwrap_or_default().lines().filter(|line| line.starts_with("start")).count()
}

fn pid(upstream: &Upstream, who: &str) -> Option<u32> {
    upstream.status(&user(who))[0].pid
}

fn info(upstream: &Upstream) -> ServerInfo {
    match upstream.status(&user("ada")).remove(0).state {
        ServerState::Ready(info) => info,
        other => panic!("{other:?}"),
    }
}

fn with_env(mut spec: ServerSpec, name: &str, value: &str) -> ServerSpec {
    if let Transport::Stdio { env, .. } = &mut spec.transport {
        env.insert(name.to_owned(), Secret::new(value));
    }
    spec
}

#[tokio::test]
async fn many_callers_share_one_start_and_none_of_them_can_cancel_it() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let upstream = upstream(vec![logged(rogue("one", &["silent-probe"]), &log)]);
    assert_eq!(upstream.status(&user("ada"))[0].state, ServerState::Idle);
    let first = tokio::spawn({
        let upstream = upstream.clone();
        async move { call(&upstream, "one", "echo", json!({})).await }
    });
    eventually("it starts", || upstream.status(&user("ada"))[0].state == ServerState::Starting).await;
    let others: Vec<_> = (0..10)
        .map(|_| {
            let upstream = upstream.clone();
            tokio::spawn(async move { call(&upstream, "one", "echo", json!({})).await })
        })
        .collect();
    first.abort();
    for other in others {
        assert_eq!(said(&other.await.unwrap().unwrap()), "{}");
    }
    assert_eq!(starts(&log), 1);
    upstream.shutdown().await;
}

#[tokio::test]
async fn replaced_servers_end_and_others_stay_connected() {
    let process = |upstream: &Upstream, name: &str| {
        let all = upstream.status(&user("ada"));
        all.into_iter().find(|status| status.name == server(name)).and_then(|status| status.pid)
    };
    let specs = ["kept", "changed", "removed"].map(|name| rogue(name, &["good"]));
    let upstream = upstream(specs.to_vec());
    for name in ["kept", "changed", "removed"] {
        upstream.tools(&user("ada"), &server(name)).await.unwrap();
    }
    let before = ["kept", "changed", "removed"].map(|name| process(&upstream, name).unwrap());
    let changed = with_env(specs[1].clone(), "NEW", "1");
    let now = vec![specs[0].clone(), changed, rogue("added", &["good"])];
    assert_eq!(upstream.replace_servers(now.clone()), ["added", "changed", "removed"].map(server));
    eventually("two have ended", || !is_alive(before[1]) && !is_alive(before[2])).await;
    assert_eq!(process(&upstream, "kept"), Some(before[0]));
    let error = upstream.tools(&user("ada"), &server("removed")).await.unwrap_err();
    assert_eq!(error.code(), "server_not_found", "{error}");
    for name in ["changed", "added"] {
        assert_eq!(process(&upstream, name), None, "{name} is started when it is used");
        upstream.tools(&user("ada"), &server(name)).await.unwrap();
        assert!(process(&upstream, name).is_some());
    }
    assert!(upstream.replace_servers(now).is_empty());
    upstream.shutdown().await;
    assert!(!is_alive(before[0]));
}

#[tokio::test]
async fn users_have_separate_processes_unless_the_server_is_shared() {
    for (scope, is_shared) in [(Scope::User, false), (Scope::Shared, true)] {
        let upstream = upstream(vec![ServerSpec { scope, ..rogue("one", &["good"]) }]);
        for who in ["ada", "bob", "ada"] {
            upstream.tools(&user(who), &server("one")).await.unwrap();
        }
        assert!(pid(&upstream, "ada").is_some());
        assert_eq!(pid(&upstream, "ada") == pid(&upstream, "bob"), is_shared);
        upstream.shutdown().await;
    }
}

#[tokio::test]
async fn an_idle_connection_is_closed_and_reopened() {
    let options = Options { idle_timeout: Duration::from_millis(300), ..Options::default() };
    let upstream = Upstream::new(vec![rogue("one", &["good"])], options);
    call(&upstream, "one", "echo", json!({})).await.unwrap();
    let first = pid(&upstream, "ada").unwrap();
    eventually("the process ends", || !is_alive(first)).await;
    assert_eq!(upstream.status(&user("ada"))[0].state, ServerState::Idle);
    call(&upstream, "one", "echo", json!({})).await.unwrap();
    assert_ne!(pid(&upstream, "ada"), Some(first));
    upstream.shutdown().await;
}

#[tokio::test]
async fn a_connection_in_use_is_not_idle() {
    let options = Options { idle_timeout: Duration::from_millis(200), ..Options::default() };
    let upstream = Upstream::new(vec![rogue("one", &["hang"])], options);
    let context = CallContext { timeout: Some(Duration::from_secs(1)), ..CallContext::default() };
    let result = upstream.call(&user("ada"), &server("one"), "act", arguments(json!({})), context).await;
    assert_eq!(result.unwrap_err().code(), "timeout");
    upstream.shutdown().await;
}

#[tokio::test]
async fn changed_tools_are_noticed_in_both_lifecycles() {
    for (mode, protocol) in [("change", "2025-11-25"), ("modern-change", "2026-07-28")] {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let upstream = upstream(vec![logged(rogue("one", &[mode]), &log)]);
        let mut changes = upstream.changes();
        let list = upstream.tools(&user("ada"), &server("one")).await.unwrap();
        assert!(list.get("new").is_none());
        assert_eq!(call(&upstream, "one", "new", json!({})).await.unwrap_err().code(), "tool_not_found");
        assert_eq!(info(&upstream).protocol, protocol);
        if mode == "modern-change" {
            eventually("it is listened to", || std::fs::read_to_string(&log).unwrap().contains("subscriptions/listen"))
                .await;
        }
        call(&upstream, "one", "act", json!({})).await.unwrap();
        let change = tokio::time::timeout(Duration::from_secs(20), changes.recv()).await.unwrap().unwrap();
        assert_eq!(change, Change { owner: Owner::User(user("ada")), server: server("one"), what: Changed::Tools });
        assert!(upstream.tools(&user("ada"), &server("one")).await.unwrap().get("new").is_some());
        assert_eq!(said(&call(&upstream, "one", "new", json!({})).await.unwrap()), "called 'new'");
        assert!(changes.try_recv().is_err(), "a change is announced once");
        upstream.shutdown().await;
    }
}

#[tokio::test]
async fn every_revision_is_supported() {
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let upstream = upstream(vec![with_env(rogue("one", &["good"]), "ROGUE_PROTOCOL", revision)]);
        assert_eq!(said(&call(&upstream, "one", "echo", json!({})).await.unwrap()), "{}");
        let expected = ServerInfo {
            protocol: revision.to_owned(),
            name: Some("rogue".to_owned()),
            version: Some("1".to_owned()),
            instructions: None,
            offers: Offers { tools: true, ..Offers::default() },
        };
        assert_eq!(info(&upstream), expected);
        upstream.shutdown().await;
    }
    let upstream = upstream(vec![rogue("one", &["modern"])]);
    assert_eq!(said(&call(&upstream, "one", "act", json!({})).await.unwrap()), "done");
    assert_eq!(info(&upstream).protocol, "2026-07-28");
    upstream.shutdown().await;
}

#[tokio::test]
async fn a_server_that_dies_from_the_probe_is_restarted_without_it() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let upstream = upstream(vec![logged(rogue("one", &["dies-on-probe"]), &log)]);
    assert_eq!(said(&call(&upstream, "one", "act", json!({})).await.unwrap()), "done");
    assert_eq!(starts(&log), 2);
    upstream.restart(&user("ada"), &server("one")).unwrap();
    assert_eq!(said(&call(&upstream, "one", "act", json!({})).await.unwrap()), "done");
    assert_eq!(starts(&log), 3, "the handshake is remembered");
    upstream.shutdown().await;
}

#[tokio::test]
async fn progress_arrives_and_a_full_channel_is_harmless() {
    let upstream = upstream(vec![rogue("one", &["progress"])]);
    for (room, expected) in [(16, 3), (1, 1)] {
        let (sender, mut progress) = mpsc::channel(room);
        let context = CallContext { progress: Some(sender), ..CallContext::default() };
        let result = upstream.call(&user("ada"), &server("one"), "act", arguments(json!({})), context).await;
        assert_eq!(said(&result.unwrap()), "done");
        let first = Progress { progress: 0.0, total: Some(3.0), message: Some("step 0".to_owned()) };
        assert_eq!(progress.recv().await, Some(first));
        let mut count = 1;
        while progress.recv().await.is_some() {
            count += 1;
        }
        assert_eq!(count, expected);
    }
    upstream.shutdown().await;
}

#[tokio::test]
async fn the_environment_is_minimal() {
    let upstream = upstream(vec![with_env(rogue("one", &["env"]), "MINE", "yes")]);
    let result = call(&upstream, "one", "act", json!({})).await.unwrap();
    let environment: Value = serde_json::from_str(&said(&result)).unwrap();
    assert_eq!((&environment["MINE"], environment["PATH"].is_string()), (&json!("yes"), true));
    // Cargo sets this for every test.
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    assert_eq!(environment["CARGO_MANIFEST_DIR"], Value::Null);
    upstream.shutdown().await;
}

/// Starts a server that ignores all signals that can be ignored, and its child. Returns the process IDs of both.
async fn stubborn(upstream: &Upstream) -> [u32; 2] {
    let child = said(&call(upstream, "one", "act", json!({})).await.unwrap()).parse().unwrap();
    let pids = [pid(upstream, "ada").unwrap(), child];
    assert!(pids.into_iter().all(is_alive));
    pids
}

#[tokio::test]
async fn shutdown_ends_the_most_stubborn_server_and_its_children() {
    let upstream = upstream(vec![rogue("one", &["stubborn"])]);
    let pids = stubborn(&upstream).await;
    upstream.shutdown().await;
    assert!(!is_alive(pids[0]));
    // Nobody waits for the child, which the kernel ends after its signal.
    eventually("the child has ended", || !is_alive(pids[1])).await;
    assert_eq!(call(&upstream, "one", "echo", json!({})).await.unwrap_err().code(), "shut_down");
}

#[tokio::test]
async fn dropping_it_ends_stubborn_servers_too() {
    let upstream = upstream(vec![rogue("one", &["stubborn"])]);
    let pids = stubborn(&upstream).await;
    drop(upstream);
    eventually("all are gone", || !pids.into_iter().any(is_alive)).await;
}

#[test]
fn the_end_of_the_runtime_ends_stubborn_servers_too() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let upstream = upstream(vec![rogue("one", &["stubborn"])]);
    let pids = runtime.block_on(stubborn(&upstream));
    runtime.shutdown_timeout(Duration::from_secs(5));
    let other = tokio::runtime::Runtime::new().unwrap();
    other.block_on(eventually("all are gone", || !pids.into_iter().any(is_alive)));
}
