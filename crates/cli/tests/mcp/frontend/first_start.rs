//! First contact with the server, and clients of earlier revisions.

use super::driver::{Up, first};
use super::wire::{USUAL, exchange, get, post, status};
use coracle_testing::harness::{Coracle, program};
use coracle_testing::wait::eventually;
use std::process::Command;

#[test]
fn the_front_page_describes_the_server() {
    let coracle = Coracle::new(first());
    let up = Up::start(&coracle, &[]);
    let plain = get(&up.address, "/");
    assert!(status(&plain) == 200 && plain.contains("text/plain"), "{plain}");
    let request = |accept: &str, host: &str| {
        format!("GET / HTTP/1.1\r\nhost: {host}\r\naccept: {accept}\r\nconnection: close\r\n\r\n")
    };
    let page = exchange(&up.address, request("text/html,application/xhtml+xml,*/*;q=0.8", &up.address).as_bytes());
    assert!(status(&page) == 200 && page.contains("<!doctype html>"), "{page}");
    assert!(page.contains("content-security-policy: default-src 'none'"), "{page}");
    assert!(plain.contains(&format!("{}/mcp", up.address)) && plain.contains("sandbox"), "{plain}");
    for path in ["/api/openapi.json", "/sign-in", "/health"] {
        assert!(plain.contains(path) && status(&get(&up.address, path)) == 200, "{path}: {plain}");
    }
    // A forged Host is rejected.
    assert_eq!(status(&exchange(&up.address, request("text/html", "evil.example").as_bytes())), 403);
}

/// Runs the example that `up` prints.
fn try_it(coracle: &Coracle, up: &Up) -> String {
    eventually("the example is printed", || up.said().contains("  try "));
    let said = up.said();
    let line = said.lines().find_map(|line| line.trim().strip_prefix("try ")).unwrap().trim();
    assert!(line.starts_with("curl "), "{said}");
    let mut command = Command::new("sh");
    let path = format!("{}:{}", program().parent().unwrap().display(), std::env::var("PATH").unwrap_or_default());
    command.args(["-c", line]).env("CORACLE_HOME", coracle.home()).env("PATH", path).env("NO_PROXY", "*");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{line}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_request_that_up_prints_works_unchanged() {
    let coracle = Coracle::new(coracle_testing::harness::As::current());
    let up = Up::start(&coracle, &[]);
    let answer = try_it(&coracle, &up);
    assert!(answer.contains("\"success\":true") && answer.contains("42"), "{answer}");
    drop(up);
    // With users, the example includes a key.
    let added = coracle.command().args(["users", "add", "ada", "--admin"]).output().unwrap();
    assert!(added.status.success(), "{added:?}");
    let up = Up::start(&coracle, &[]);
    let answer = try_it(&coracle, &up);
    assert!(answer.contains("\"success\":true") && answer.contains("42"), "{answer}");
    let without = format!("POST /api/executions HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", up.address);
    assert_eq!(status(&exchange(&up.address, without.as_bytes())), 401);
}

/// Events of a conversation, as sent over the wire.
fn events(up: &Up, revision: &str) -> Vec<String> {
    let hello = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{{"protocolVersion":"{revision}","capabilities":{{}},"clientInfo":{{"name":"t","version":"1"}}}}}}"#
    );
    let begun = post(&up.address, USUAL, &hello);
    let session =
        begun.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap_or_else(|| panic!("{begun}"));
    // The oldest revisions do not have this header.
    let named = if revision >= "2025-06-18" { format!("mcp-protocol-version: {revision}\r\n") } else { String::new() };
    let headers = format!("{USUAL}mcp-session-id: {}\r\n{named}", session.trim());
    assert_eq!(status(&post(&up.address, &headers, r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)), 202);
    let listed = post(&up.address, &headers, r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#);
    assert!(listed.contains("execute_code"), "{listed}");
    vec![begun, listed]
}

#[test]
fn events_without_data_are_only_sent_to_revisions_that_support_them() {
    let coracle = Coracle::new(first());
    let up = Up::start(&coracle, &[]);
    let is_empty = |line: &str| line.strip_prefix("data:").is_some_and(|data| data.trim().is_empty());
    for revision in ["2025-03-26", "2025-06-18"] {
        for answer in events(&up, revision) {
            assert!(!answer.lines().any(is_empty), "{revision}: {answer}");
        }
    }
    let known = events(&up, "2025-11-25");
    assert!(known.iter().all(|answer| answer.lines().any(is_empty)), "{known:?}");
}

/// With few descriptors the server accepts fewer connections, but never stops accepting.
#[test]
fn few_descriptors_do_not_end_the_service() {
    let coracle = Coracle::behind(first(), &["prlimit", "--nofile=256:256", "--"]);
    let up = Up::start(&coracle, &[]);
    let call = format!("{USUAL}{}", super::wire::CALL_HEADERS);
    let serves = || status(&post(&up.address, &call, super::wire::CALL)) == 200;
    assert!(serves());
    let mut idle = Vec::new();
    for _ in 0..600 {
        idle.push(super::wire::connect(&up.address));
    }
    assert_eq!(status(&get(&up.address, "/health")), 200);
    assert!(serves(), "with 600 idle connections");
    drop(idle);
    assert!(serves(), "and without");
}
