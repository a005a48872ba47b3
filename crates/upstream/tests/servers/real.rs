//! Servers of other projects: each is started, lists its tools, and answers.

use crate::lab::{arguments, call, npm, pypi, said, server, test_servers, upstream, user};
use coracle_types::{Content, ServerSpec};
use coracle_upstream::{CallContext, ServerState, Upstream};
use serde_json::json;
use std::process::Command;

/// Lists tools and ends the connection; `tool` must be among them.
async fn has_tool(upstream: &Upstream, name: &str, tool: &str) {
    let list = upstream.tools(&user("ada"), &server(name)).await.unwrap();
    assert!(list.get(tool).is_some(), "{name}: {:?}", list.tools);
    assert_eq!(list.warnings, [], "{name}");
}

fn protocol(upstream: &Upstream, name: &str) -> String {
    let status = upstream.status(&user("ada")).into_iter().find(|status| status.name.as_str() == name).unwrap();
    match status.state {
        ServerState::Ready(info) => info.protocol,
        other => panic!("{name}: {other:?}"),
    }
}

fn one(spec: ServerSpec) -> Upstream {
    upstream(vec![spec])
}

#[tokio::test]
async fn everything_answers_with_text_images_and_links() {
    let upstream = one(npm("everything", &["stdio"]));
    has_tool(&upstream, "everything", "echo").await;
    let result = call(&upstream, "everything", "echo", json!({"message": "hello"})).await.unwrap();
    assert_eq!(said(&result), "Echo: hello");
    let image = call(&upstream, "everything", "get-tiny-image", json!({})).await.unwrap();
    assert!(image.content.iter().any(|part| matches!(part, Content::Media { mime, .. } if mime == "image/png")));
    let weather = call(&upstream, "everything", "get-structured-content", json!({"location": "New York"})).await;
    assert!(weather.unwrap().structured.unwrap()["temperature"].is_number());
    assert_eq!(protocol(&upstream, "everything"), "2025-11-25");
    upstream.shutdown().await;
}

#[tokio::test]
async fn filesystem_reads_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("note.txt");
    std::fs::write(&file, "written here").unwrap();
    let upstream = one(npm("filesystem", &[folder.path().to_str().unwrap()]));
    has_tool(&upstream, "filesystem", "read_text_file").await;
    let result = call(&upstream, "filesystem", "read_text_file", json!({"path": file})).await.unwrap();
    assert_eq!((said(&result).as_str(), result.is_error), ("written here", false));
    let denied = call(&upstream, "filesystem", "read_text_file", json!({"path": "/etc/passwd"})).await.unwrap();
    assert!(denied.is_error);
    upstream.shutdown().await;
}

#[tokio::test]
async fn memory_stores_entities() {
    let folder = tempfile::tempdir().unwrap();
    let mut spec = npm("memory", &[]);
    if let coracle_types::Transport::Stdio { env, .. } = &mut spec.transport {
        let file = folder.path().join("memory.json");
        env.insert("MEMORY_FILE_PATH".to_owned(), coracle_types::Secret::new(file.to_str().unwrap()));
    }
    let upstream = one(spec);
    let entity = json!({"name": "Ada", "entityType": "person", "observations": ["wrote a program"]});
    call(&upstream, "memory", "create_entities", json!({"entities": [entity]})).await.unwrap();
    let found = call(&upstream, "memory", "search_nodes", json!({"query": "program"})).await.unwrap();
    assert!(said(&found).contains("Ada"), "{found:?}");
    upstream.shutdown().await;
}

#[tokio::test]
async fn git_returns_the_status_of_a_repository() {
    let folder = tempfile::tempdir().unwrap();
    let made = Command::new("git").args(["init", "--quiet"]).arg(folder.path()).status().unwrap();
    assert!(made.success());
    let repository = folder.path().to_str().unwrap();
    let upstream = one(pypi("git", &["--repository", repository]));
    has_tool(&upstream, "git", "git_status").await;
    let status = call(&upstream, "git", "git_status", json!({"repo_path": repository})).await.unwrap();
    assert!(said(&status).contains("No commits yet"), "{status:?}");
    upstream.shutdown().await;
}

#[tokio::test]
async fn time_converts_and_uses_the_newest_revision() {
    let upstream = one(pypi("time", &["--local-timezone", "UTC"]));
    has_tool(&upstream, "time", "convert_time").await;
    let with = json!({"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"});
    let result = call(&upstream, "time", "convert_time", with).await.unwrap();
    assert!(said(&result).contains("21:00"), "{result:?}");
    assert_eq!(protocol(&upstream, "time"), "2026-07-28");
    upstream.shutdown().await;
}

#[tokio::test]
async fn sqlite_answers_a_query() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("test.db");
    let upstream = one(pypi("sqlite", &["--db-path", file.to_str().unwrap()]));
    has_tool(&upstream, "sqlite", "read_query").await;
    let result = call(&upstream, "sqlite", "read_query", json!({"query": "SELECT 6 * 7 AS answer"})).await.unwrap();
    assert!(said(&result).contains("42"), "{result:?}");
    assert_ne!(protocol(&upstream, "sqlite"), "2026-07-28");
    upstream.shutdown().await;
}

#[tokio::test]
async fn all_servers_start_at_once_and_answer_concurrently() {
    assert!(test_servers().is_dir());
    let upstream = upstream(vec![npm("everything", &["stdio"]), pypi("time", &[])]);
    let calls = (0..40).map(|number| {
        let upstream = upstream.clone();
        tokio::spawn(async move {
            if number % 2 == 0 {
                let result = call(&upstream, "everything", "get-sum", json!({"a": number, "b": 1})).await.unwrap();
                assert!(said(&result).contains(&format!("{}", number + 1)), "{result:?}");
            } else {
                let with = arguments(json!({"timezone": "UTC"}));
                let (ada, time) = (user("ada"), server("time"));
                let result = upstream.call(&ada, &time, "get_current_time", with, CallContext::default()).await;
                assert!(said(&result.unwrap()).contains("UTC"));
            }
        })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap();
    }
    upstream.shutdown().await;
}
