//! A server with tools, behind a server with users.

use crate::lab::Lab;
use coracle_config::{Approvers, McpServer, Settings};
use coracle_server::AuthOptions;
use coracle_store::{KeyScope, Role};
use coracle_types::{Decision, PrivacyMode, Scope, Secret, ServerName, ServerSpec, Transport};
use reqwest::{RequestBuilder, Response};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// The server of other tests: its tool `wipe` is marked as destructive, and writes a line.
const PLAIN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../cli/tests/mcp/bridge/fixtures/plain.py");

fn spec(name: &str, scope: Scope, folder: &Path) -> ServerSpec {
    let notes = folder.join("notes").to_str().unwrap().to_owned();
    ServerSpec {
        name: ServerName::new(name).unwrap(),
        transport: Transport::Stdio {
            command: "/usr/bin/python3".to_owned(),
            args: ["-I", PLAIN].map(Secret::new).into(),
            env: [("PLAIN_NOTES".to_owned(), Secret::new(notes))].into(),
            cwd: None,
        },
        scope,
        description: None,
        category: None,
        client: None,
        start_timeout: Duration::from_mins(1),
        call_timeout: Duration::from_mins(1),
    }
}

/// Starts with the admin `ann` and the user `bob`, and the servers `plain` (one for each user) and `common` (shared).
/// Questions are open for this many seconds.
pub(crate) async fn lab(approval_seconds: u64) -> Lab {
    let lab = start(approval_seconds, |_| {}, |_| {}).await;
    for (name, role) in [("ann", Role::Admin), ("bob", Role::User)] {
        lab.add(name, role).await;
    }
    lab
}

/// Starts without users.
pub(crate) async fn alone() -> Lab {
    start(600, |_| {}, |auth| auth.required = false).await
}

/// The group `finance` is kim, lee and bob, and `locals` is the local user. One member of `finance` has to approve
/// `common.wipe`, and two `plain.wipe`; a member of `locals` has to approve `plain.note`.
fn with_groups(settings: &mut Settings) {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    settings.policy.groups.insert("finance".to_owned(), names(&["kim", "lee", "bob"]));
    settings.policy.groups.insert("locals".to_owned(), names(&["local"]));
    for (pattern, group, count) in
        [("common.wipe", "finance", 1), ("plain.wipe", "finance", 2), ("plain.note", "locals", 1)]
    {
        let approvers = Approvers { groups: names(&[group]), count };
        settings.policy.approvers.insert(pattern.to_owned(), approvers);
    }
}

/// Starts with the admin `ann`, who is in no group, the users `bob`, `kim` and `lee`, and groups that approve calls.
pub(crate) async fn groups(approval_seconds: u64, privacy: PrivacyMode) -> Lab {
    let set = |settings: &mut Settings| {
        settings.privacy.mode = privacy;
        with_groups(settings);
    };
    let lab = start(approval_seconds, set, |_| {}).await;
    for (name, role) in [("ann", Role::Admin), ("bob", Role::User), ("kim", Role::User), ("lee", Role::User)] {
        lab.add(name, role).await;
    }
    lab
}

/// Starts without users, and with groups.
pub(crate) async fn alone_with_groups() -> Lab {
    start(600, with_groups, |auth| auth.required = false).await
}

async fn start(approval_seconds: u64, set: impl FnOnce(&mut Settings), change: impl FnOnce(&mut AuthOptions)) -> Lab {
    let mut settings = Settings::default();
    set(&mut settings);
    settings.policy.approval_seconds = approval_seconds;
    settings.policy.tools.insert("plain.fail".to_owned(), Decision::Deny);
    let entry: McpServer = serde_json::from_value(json!({"command": "/usr/bin/python3"})).unwrap();
    settings.mcp_servers.insert("plain".to_owned(), entry.clone());
    settings.mcp_servers.insert("off".to_owned(), McpServer { disabled: true, ..entry });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let servers = |folder: &Path| vec![spec("plain", Scope::User, folder), spec("common", Scope::Shared, folder)];
    Lab::start_with(listener, settings, servers, change)
}

/// A user's key for everything that a person may do.
pub(crate) async fn person(lab: &Lab, name: &str) -> String {
    lab.key(name, &[KeyScope::Api, KeyScope::Approve]).await
}

/// Lines that the servers have written.
pub(crate) fn notes(lab: &Lab) -> Vec<String> {
    let text = std::fs::read_to_string(lab.folder().join("notes")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Sends a request in the background; returns the status and the body of its response.
pub(crate) fn begin(request: RequestBuilder) -> JoinHandle<(u16, Value)> {
    tokio::spawn(async move { answer(request.send().await.unwrap()).await })
}

/// The status and the body of a response.
pub(crate) async fn answer(response: Response) -> (u16, Value) {
    let status = response.status().as_u16();
    (status, response.json().await.unwrap_or_default())
}

/// Begins a call of the tool that needs approval.
pub(crate) fn wipe(lab: &Lab, key: &str, what: &str) -> JoinHandle<(u16, Value)> {
    wipe_of(lab, "plain", key, what)
}

/// Begins a call of the tool of this server.
pub(crate) fn wipe_of(lab: &Lab, server: &str, key: &str, what: &str) -> JoinHandle<(u16, Value)> {
    let request = lab.post(&format!("/api/tools/{server}/wipe/call")).bearer_auth(key);
    begin(request.json(&json!({ "arguments": { "what": what } })))
}

/// Waits until the user has this number of open questions; returns them, oldest first.
pub(crate) async fn questions(lab: &Lab, key: &str, count: usize) -> Vec<Value> {
    let mut events = lab.get("/api/approvals/events").bearer_auth(key).send().await.unwrap();
    assert_eq!(events.headers()["content-type"], "text/event-stream; charset=utf-8");
    let mut text = String::new();
    loop {
        let chunk = events.chunk().await.unwrap().unwrap();
        text.push_str(std::str::from_utf8(&chunk).unwrap());
        while let Some((event, rest)) = text.split_once("\n\n") {
            let open: Value = serde_json::from_str(event.strip_prefix("data: ").unwrap_or("null")).unwrap();
            text = rest.to_owned();
            if let Some(open) = open["approvals"].as_array().filter(|open| open.len() == count) {
                return open.clone();
            }
        }
    }
}

/// Answers a question.
pub(crate) async fn decide(lab: &Lab, key: &str, question: &Value, decision: &str) -> (u16, Value) {
    let path = format!("/api/approvals/{}", question["id"].as_str().unwrap());
    let request = lab.post(&path).bearer_auth(key).json(&json!({ "decision": decision }));
    answer(request.send().await.unwrap()).await
}

/// The body of a successful response.
pub(crate) async fn get(lab: &Lab, key: &str, path: &str) -> Value {
    let (status, body) = answer(lab.get(path).bearer_auth(key).send().await.unwrap()).await;
    assert_eq!(status, 200, "{path}: {body}");
    body
}
