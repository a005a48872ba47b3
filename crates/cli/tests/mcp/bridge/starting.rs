//! Servers that start slowly, and calls that start no server.

use crate::lab::Bridge;
use coracle_testing::harness::As;
use coracle_testing::wait::eventually;
use serde_json::{Value, json};
use std::fs;
use std::process::Stdio;
use std::time::Duration;

/// Lists the tools once, so that later runs know them.
fn listed(bridge: &Bridge) {
    let tested = bridge.coracle.command().args(["servers", "test"]).output().unwrap();
    assert!(tested.status.success(), "{tested:?}");
    bridge.assert_no_servers();
}

#[test]
fn starting_a_server_does_not_count_as_time_of_the_code() {
    let bridge = Bridge::new(As::current());
    let gate = bridge.path("data/gate");
    let mut plain = bridge.plain("plain");
    plain["env"]["PLAIN_WAIT"] = json!(gate);
    bridge.servers(&json!({ "plain": plain }));
    fs::write(&gate, "").unwrap();
    listed(&bridge);
    fs::remove_file(&gate).unwrap();

    let code = "from servers.plain import echo\necho(text='late')";
    let mut command = bridge.coracle.command();
    command.args(["exec", "--json", "--timeout", "5", "-c", code]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let running = command.spawn().unwrap();
    eventually("the server is started a second time", || bridge.starts("plain") == 2);
    // Longer than the time limit of the code.
    std::thread::sleep(Duration::from_secs(6));
    fs::write(&gate, "").unwrap();
    let output = running.wait_with_output().unwrap();
    let execution: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&execution["success"], &execution["result"]), (&json!(true), &json!("late")), "{execution:#}");
    let call = &execution["calls"][0];
    assert!(call["start_ms"].as_u64().unwrap() >= 5_000, "{call}");
    bridge.assert_no_servers();

    // A call to a running server counts.
    let never = bridge.text("data/never");
    let code = format!("from servers.plain import echo, wait\necho(text='x')\nwait(path={never:?})");
    let execution = bridge.run("python", &code, &["--timeout", "5"]);
    assert_eq!(execution["error_code"], "timeout", "{execution:#}");
    assert_eq!(execution["calls"][1]["start_ms"], Value::Null, "{execution:#}");
}

#[test]
fn starting_a_server_has_its_own_limit() {
    let bridge = Bridge::new(As::current());
    let gate = bridge.path("data/gate");
    let mut plain = bridge.plain("plain");
    plain["env"]["PLAIN_WAIT"] = json!(gate);
    plain["start_timeout"] = json!(20);
    bridge.servers(&json!({ "plain": plain }));
    fs::write(&gate, "").unwrap();
    listed(&bridge);
    fs::remove_file(&gate).unwrap();
    plain["start_timeout"] = json!(1);
    bridge.servers(&json!({ "plain": plain }));
    let code = "from coracle import ToolError
from servers.plain import echo
def attempt():
    try:
        echo(text='x')
    except ToolError as error:
        return [error.code, error.message]
attempt()";
    let result = bridge.result("python", code);
    assert_eq!(result[0], "unavailable", "{result}");
    let message = result[1].as_str().unwrap();
    assert!(message.contains("server plain is not available: it was not ready within 1s"), "{message}");
}

#[test]
fn calls_that_are_refused_anyway_start_no_server() {
    let bridge = Bridge::new(As::current());
    let with = |decision: &str| {
        let servers = json!({ "plain": bridge.plain("plain") });
        bridge.settings(&json!({ "mcpServers": servers, "policy": { "tools": { "plain.note": decision } } }));
    };
    with("deny");
    listed(&bridge);
    assert_eq!(bridge.starts("plain"), 1);
    let code = "from coracle import ToolError, call
def attempt(tool, **arguments):
    try:
        return call('plain', tool, arguments)
    except ToolError as error:
        return error.code
[attempt('note', text='x'), attempt('echo', text=5), attempt('wipe', wat='x')]";
    let result = bridge.result("python", code);
    assert_eq!(result, json!(["denied_by_policy", "invalid_arguments", "invalid_arguments"]));
    assert_eq!(bridge.starts("plain"), 1, "nothing was started");
    // Control: the same calls, permitted and valid.
    with("allow");
    let result = bridge.result("python", &code.replace("text=5", "text='five'"));
    assert_eq!(result, json!(["done", "five", "invalid_arguments"]));
    assert_eq!(bridge.starts("plain"), 2);
}
