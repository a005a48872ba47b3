//! Sessions, accounts and keys have the same JSON in `/api` and in the output of commands.

use crate::site::Site;
use coracle_testing::harness::As;
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

/// A list without a field whose value may have changed between two reads.
fn without(field: &str, mut list: Value) -> Value {
    for entry in list.as_array_mut().unwrap() {
        assert!(entry.as_object_mut().unwrap().remove(field).is_some(), "{field}: {entry}");
    }
    list
}
