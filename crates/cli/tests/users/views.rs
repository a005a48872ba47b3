//! Sessions, accounts, keys, servers, tools and decisions have the same JSON in `/api` and in the output of commands.

use crate::site::Site;
use coracle_testing::harness::As;
use coracle_testing::wait::eventually;
use serde_json::{Value, json};

/// Whether a text is a moment such as `2026-11-17T22:13:51.250Z`.
fn is_moment(value: &Value) -> bool {
    let text = value.as_str().unwrap_or_default();
    text.len() == 24 && text.ends_with('Z') && humantime::parse_rfc3339(text).is_ok()
}

#[test]
fn the_api_and_commands_print_the_same_json() {
    let mut site = Site::new(As::current(), &["ada"]);
    site.run(&["users", "add", "boss", "--admin"]);
    let key = site.run(&["users", "keys", "add", "boss", "--name", "tests", "--scope", "api,admin"]);
    let key = key.split_whitespace().find(|word| word.starts_with("crk_")).unwrap().to_owned();
    let client = site.client_with(&key);
    let body = json!({ "code": "6 * 7", "session": "analysis", "description": "multiply" });
    let answer = client.ask("POST", "/api/executions", "application/json", body.to_string().as_bytes()).unwrap().json();
    assert_eq!(answer["result"], 42, "{answer}");
    let sessions = client.get("/api/sessions").json();
    let (users, keys) = (client.get("/api/users").json(), client.get("/api/users/boss/keys").json());
    let log = client.get("/api/sessions/analysis").json();
    assert_eq!(log["tasks"][0]["description"], "multiply", "{log}");
    let executions = client.get("/api/executions").json();
    assert!(is_moment(&executions[0]["started_at"]) && executions[0]["session_id"] == answer["session_id"]);
    site.stop();

    let printed = |words: &[&str]| -> Value { serde_json::from_str(&site.run(words)).unwrap() };
    assert_eq!(printed(&["sessions", "list", "--user", "boss", "--json"]), sessions);
    assert!(is_moment(&sessions[0]["started_at"]) && sessions[0]["ended_at"].is_null(), "{sessions}");
    let mut accounts = printed(&["users", "list", "--json"]);
    // Only the operator's list has the size of workspaces.
    for account in accounts.as_array_mut().unwrap() {
        assert!(account.as_object_mut().unwrap().remove("workspace").is_some(), "{account}");
    }
    assert_eq!(without("last_seen", accounts), without("last_seen", users["users"].clone()));
    assert!(is_moment(&users["users"][0]["created_at"]), "{users}");
    let listed = printed(&["users", "keys", "list", "boss", "--json"]);
    assert_eq!(without("last_used", listed), without("last_used", keys["keys"].clone()));
    assert_eq!((&keys["keys"][0]["state"], &keys["keys"][0]["active"]), (&json!("active"), &json!(true)), "{keys}");
}

/// A server of which the tool `wipe` is marked as destructive.
const PLAIN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/bridge/fixtures/plain.py");

#[test]
fn servers_and_tools_are_the_same_over_http_and_in_commands() {
    let entry = json!({ "command": "/usr/bin/python3", "args": ["-I", PLAIN] });
    let off = json!({ "command": "x", "disabled": true });
    let broken = json!({ "command": "${NO_SUCH_VARIABLE}" });
    let settings = json!({ "mcpServers": { "broken": broken, "off": off, "plain": entry } });
    let mut site = Site::with_settings(As::current(), &[], &settings.to_string());
    let client = site.client_with("none");
    let tested = client.post("/api/servers/plain/test", &json!({})).json();
    assert_eq!((&tested["ok"], &tested["tools"]), (&json!(true), &json!(11)), "{tested}");
    let servers = client.get("/api/servers").json();
    let tools = client.get("/api/tools").json();
    let found = client.get("/api/tools/search?query=remove+something&limit=3").json();
    let selected = client.get("/api/tools/select?task=remove+something&top=1").json();
    let shown = client.get("/api/tools/plain/wipe").json();
    // The local user allows a tool permanently.
    let call = {
        let client = client.clone();
        let body = json!({ "arguments": { "what": "x" } });
        std::thread::spawn(move || client.post("/api/tools/plain/wipe/call", &body))
    };
    let mut open = json!(null);
    eventually("there is a question", || {
        open = client.get("/api/approvals?state=open").json()["approvals"][0].clone();
        open.is_object()
    });
    let id = open["id"].as_str().unwrap();
    let answered = client.post(&format!("/api/approvals/{id}"), &json!({ "decision": "always" }));
    assert_eq!((answered.status, &answered.json()["answered_by"]), (200, &json!("local")), "{}", answered.text());
    assert_eq!(call.join().unwrap().status, 200);
    let decisions = client.get("/api/decisions").json();
    site.stop();

    let printed = |words: &[&str]| -> Value { serde_json::from_str(&site.run(words)).unwrap() };
    let listed = without("origin", printed(&["servers", "list", "--json"]));
    let mut served = servers["servers"].clone();
    assert_eq!(served[2].as_object_mut().unwrap().remove("connection"), Some(json!("ready")));
    let names = |list: &Value| -> Vec<(Value, Value)> {
        list.as_array().unwrap().iter().map(|one| (one["name"].clone(), one["state"].clone())).collect()
    };
    assert_eq!(names(&listed), names(&served));
    assert_eq!((&listed[1], &listed[2]), (&served[1], &served[2]));
    assert!(served[0]["problem"].as_str().unwrap().contains("NO_SUCH_VARIABLE"), "{served}");
    assert_eq!(printed(&["tools", "list", "--json"]), tools["tools"]);
    assert_eq!(printed(&["tools", "search", "remove", "something", "--limit", "3", "--json"]), found["tools"]);
    assert_eq!(selected["tools"][0]["function"], "wipe", "{selected}");
    assert_eq!(site.run(&["tools", "select", "remove something", "--top", "1"]), selected["program"].as_str().unwrap());
    let definition = printed(&["tools", "show", "plain.wipe", "--level", "full"]);
    for (name, value) in definition.as_object().unwrap() {
        assert_eq!(&shown[name], value, "{name}");
    }
    assert_eq!(shown["policy"]["decision"], "ask");
    assert_eq!(printed(&["tools", "decisions", "--json"]), decisions["decisions"]);
    assert_eq!(decisions["decisions"][0]["tool"], "wipe");
}

/// A list without a field whose value may have changed between two reads.
fn without(field: &str, mut list: Value) -> Value {
    for entry in list.as_array_mut().unwrap() {
        assert!(entry.as_object_mut().unwrap().remove(field).is_some(), "{field}: {entry}");
    }
    list
}
