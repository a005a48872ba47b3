//! Servers over HTTP: streamable HTTP and the older event streams.

use crate::lab::{call, eventually, npm, said, server, test_servers, text, upstream, user};
use crate::web::{everything, http, serve, sse};
use coracle_types::{Content, Secret, ServerSpec, Transport};
use coracle_upstream::{ServerState, Upstream};
use serde_json::json;
use std::net::TcpListener;
use tokio::process::{Child, Command};

/// Starts `server-everything` on some port. Returns its URL.
pub(crate) async fn real_everything(mode: &str, path: &str) -> (Child, String) {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let script = test_servers().join("npm/node_modules/@modelcontextprotocol/server-everything/dist/index.js");
    let child = Command::new("node")
        .args([&text(&script), mode])
        .env("PORT", port.to_string())
        .kill_on_drop(true)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    eventually("it listens", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()).await;
    (child, format!("http://127.0.0.1:{port}{path}"))
}

fn protocol(upstream: &Upstream) -> String {
    match upstream.status(&user("ada")).remove(0).state {
        ServerState::Ready(info) => info.protocol,
        other => panic!("{other:?}"),
    }
}

async fn everything_works(spec: ServerSpec) -> String {
    let upstream = upstream(vec![spec]);
    let list = upstream.tools(&user("ada"), &server("one")).await.unwrap();
    assert!(list.tools.len() > 5 && list.warnings.is_empty(), "{list:?}");
    let result = call(&upstream, "one", "echo", json!({"message": "hello"})).await.unwrap();
    assert_eq!(said(&result), "Echo: hello");
    let image = call(&upstream, "one", "get-tiny-image", json!({})).await.unwrap();
    assert!(image.content.iter().any(|part| matches!(part, Content::Media { .. })));
    let protocol = protocol(&upstream);
    upstream.shutdown().await;
    protocol
}

#[tokio::test]
async fn a_real_server_answers_over_streamable_http() {
    let (_child, url) = real_everything("streamableHttp", "/mcp").await;
    assert_eq!(everything_works(http("one", &url)).await, "2025-11-25");
}

#[tokio::test]
async fn a_real_server_answers_over_event_streams() {
    let (_child, url) = real_everything("sse", "/sse").await;
    assert!(everything_works(sse("one", &url)).await.starts_with("202"));
    // A URL without a type, which is the usual form.
    assert!(everything_works(http("one", &url)).await.starts_with("202"));
    let wrong = upstream(vec![http("one", &url.replace("/sse", "/nothing"))]);
    let error = call(&wrong, "one", "echo", json!({})).await.unwrap_err().to_string();
    assert!(error.contains("404") && error.contains("over the older SSE transport: HTTP 404"), "{error}");
}

#[tokio::test]
async fn the_death_of_a_server_is_reported_and_others_continue() {
    let (mut child, url) = real_everything("sse", "/sse").await;
    let upstream = upstream(vec![sse("one", &url), npm("everything", &["stdio"])]);
    call(&upstream, "one", "echo", json!({"message": "x"})).await.unwrap();
    child.kill().await.unwrap();
    let error = call(&upstream, "one", "echo", json!({"message": "x"})).await.unwrap_err();
    assert!(error.retryable(), "{error}");
    call(&upstream, "everything", "echo", json!({"message": "x"})).await.unwrap();
    upstream.shutdown().await;
}

#[tokio::test]
async fn the_newest_revision_works_over_http_with_both_kinds_of_answers() {
    let base = serve(everything()).await;
    for path in ["mcp", "mcp-json"] {
        let upstream = upstream(vec![http("one", &format!("{base}/{path}"))]);
        let result = call(&upstream, "one", "echo", json!({"a": [1, 2.5, "é"]})).await.unwrap();
        assert_eq!(said(&result), r#"{"a":[1,2.5,"é"]}"#);
        assert_eq!(protocol(&upstream), "2026-07-28");
        upstream.shutdown().await;
    }
}

#[tokio::test]
async fn headers_are_sent_and_reserved_ones_refused() {
    let base = serve(everything()).await;
    let mut specs = vec![];
    for (name, header) in [("good", "X-Test"), ("bad", "Mcp-Session-Id"), ("worse", "not valid")] {
        let mut spec = http(name, &format!("{base}/rogue/headers"));
        if let Transport::Http { headers, .. } = &mut spec.transport {
            headers.insert(header.to_owned(), Secret::new("seen"));
        }
        specs.push(spec);
    }
    let upstream = upstream(specs);
    assert_eq!(said(&call(&upstream, "good", "act", json!({})).await.unwrap()), "seen");
    for name in ["bad", "worse"] {
        let error = call(&upstream, name, "act", json!({})).await.unwrap_err().to_string();
        assert!(error.contains("cannot be sent"), "{error}");
    }
    upstream.shutdown().await;
}

#[tokio::test]
async fn web_servers_that_misbehave_cause_clear_errors_and_do_not_affect_others() {
    let base = serve(everything()).await;
    let modes = ["good", "down", "html", "redirect", "huge-json", "huge-events", "fails", "unknown"];
    let upstream = upstream(modes.iter().map(|mode| http(mode, &format!("{base}/rogue/{mode}"))).collect());
    let mut seen = Vec::new();
    for mode in modes {
        seen.push(match call(&upstream, mode, "act", json!({})).await {
            Ok(result) => format!("{mode}: {}", said(&result)),
            Err(error) => format!("{mode}: [{}] {error}", error.code()),
        });
        assert_eq!(said(&call(&upstream, "good", "act", json!({})).await.unwrap()), "done");
    }
    insta::assert_snapshot!(seen.join("\n"));
    upstream.shutdown().await;
}

#[tokio::test]
async fn event_streams_that_misbehave_cause_clear_errors() {
    let base = serve(everything()).await;
    let upstream = upstream(vec![
        sse("elsewhere", &format!("{base}/sse/elsewhere")),
        sse("nothing", &format!("{base}/sse/nothing")),
        sse("missing", &format!("{base}/sse/missing")),
    ]);
    let mut seen = Vec::new();
    for name in ["elsewhere", "nothing", "missing"] {
        seen.push(call(&upstream, name, "act", json!({})).await.unwrap_err().to_string());
    }
    insta::assert_snapshot!(seen.join("\n"));
    upstream.shutdown().await;
}

#[tokio::test]
async fn a_failing_call_does_not_affect_others() {
    let base = serve(everything()).await;
    let upstream = upstream(vec![http("one", &format!("{base}/rogue/fails"))]);
    upstream.tools(&user("ada"), &server("one")).await.unwrap();
    let slow = tokio::spawn({
        let upstream = upstream.clone();
        async move { call(&upstream, "one", "act", json!({"slowly": true})).await }
    });
    tokio::task::yield_now().await;
    let error = call(&upstream, "one", "act", json!({})).await.unwrap_err();
    assert_eq!(error.code(), "unavailable", "{error}");
    assert!(!slow.is_finished());
    assert_eq!(said(&slow.await.unwrap().unwrap()), "late");
    upstream.shutdown().await;
}
