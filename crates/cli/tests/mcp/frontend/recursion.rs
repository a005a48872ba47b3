//! Coracle as one of its own servers.

use super::driver::{call, described, first, stdio, steps, text};
use crate::lab::Bridge;
use coracle_testing::harness::Coracle;
use serde_json::{Value, json};

#[test]
fn coracle_recognises_itself_among_its_servers() {
    let bridge = Bridge::new(first());
    let mut itself = stdio(&bridge.coracle, &["--profile", "direct"]);
    itself["env"]["MARK"] = json!(bridge.text("data"));
    let other = Coracle::new(first());
    let other = described(other.command().args(["mcp", "--profile", "code"]));
    // Through a program that passes on the environment, but nothing of the protocol.
    bridge.servers(&json!({ "plain": bridge.plain("plain"), "itself": itself, "other": other }));
    let plan = [json!({ "do": "tools" })];
    let all = steps(stdio(&bridge.coracle, &["--profile", "direct"]), "2026-07-28", &plan);
    let names: Vec<&str> = all[0]["value"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(names.contains(&"echo"), "the other servers work: {names:?}");
    assert!(names.contains(&"execute_code"), "another Coracle is an ordinary server: {names:?}");
    assert_eq!(bridge.starts("plain"), 1, "the inner one started nothing");
    let tested = bridge.coracle.command().args(["servers", "test", "--json"]).output().unwrap();
    let rows: Value = serde_json::from_slice(&tested.stdout).unwrap();
    let of = |name: &str| rows.as_array().unwrap().iter().find(|row| row["name"] == name).unwrap();
    assert_eq!(
        (&of("itself")["ok"], &of("other")["ok"], &of("plain")["ok"]),
        (&json!(false), &json!(true), &json!(true))
    );
    let reason = of("itself")["reason"].as_str().unwrap();
    assert!(reason.contains("Coracle itself") && reason.contains("remove it from mcpServers"), "{reason}");
    bridge.assert_no_servers();
}

#[test]
fn recursion_through_another_program_is_detected() {
    let bridge = Bridge::new(first());
    // Starts Coracle as its own server, and drops what the protocol says.
    bridge.write("between.py", include_str!("between.py"));
    let inner = stdio(&bridge.coracle, &["--profile", "direct"]);
    let words: Vec<Value> =
        std::iter::once(inner["command"].clone()).chain(inner["args"].as_array().unwrap().clone()).collect();
    let args: Vec<Value> = [json!("-I"), json!(bridge.text("between.py"))].into_iter().chain(words).collect();
    let between = json!({ "command": "/usr/bin/python3", "args": args, "env": inner["env"] });
    bridge.servers(&json!({ "plain": bridge.plain("plain"), "between": between }));
    let all = steps(stdio(&bridge.coracle, &["--profile", "direct"]), "legacy", &[json!({ "do": "tools" })]);
    // Two servers have a tool with that name, so it has a prefix.
    let names: Vec<&str> = all[0]["value"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let echo = *names.iter().find(|name| name.ends_with("echo")).unwrap_or_else(|| panic!("{names:?}"));
    assert!(bridge.starts("plain") <= 3, "it does not grow: {}", bridge.starts("plain"));
    let plan = [call(echo, &json!({ "text": "works" }))];
    let called = steps(stdio(&bridge.coracle, &["--profile", "direct"]), "legacy", &plan);
    assert!(text(&called[0]).contains("works"), "{:#}", called[0]);
    bridge.assert_no_servers();
}
