//! A server that failed to start is not started by every command.

use super::terminal::Window;
use crate::lab::Bridge;
use coracle_testing::harness::As;
use coracle_testing::wait::eventually;
use serde_json::json;
use std::fs;

fn said(bridge: &Bridge, arguments: &[&str]) -> String {
    let output = bridge.coracle.command().args(arguments).output().unwrap();
    bridge.assert_no_servers();
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn a_failed_start_is_remembered_and_retried_on_demand() {
    let bridge = Bridge::new(As::current());
    let gate = bridge.path("data/gate");
    let mut slow = bridge.plain("slow");
    slow["env"]["PLAIN_WAIT"] = json!(gate);
    slow["start_timeout"] = json!(2);
    bridge.servers(&json!({ "slow": slow }));
    let told = said(&bridge, &["tools", "list"]);
    assert!(told.contains("the tools of slow are not known") && told.contains("was not ready within 2s"), "{told}");
    assert_eq!(bridge.starts("slow"), 1);
    let told = said(&bridge, &["exec", "-c", "from servers.slow import echo"]);
    assert!(told.contains("is not retried yet") && told.contains("coracle servers test slow"), "{told}");
    let told = said(&bridge, &["servers", "list"]);
    assert!(told.contains("failed to start") && told.contains("was not ready within 2s"), "{told}");
    assert_eq!(bridge.starts("slow"), 1, "the server was not started again");

    // `servers test` starts the server, and a success clears the failure.
    fs::write(&gate, "").unwrap();
    slow["start_timeout"] = json!(60);
    bridge.servers(&json!({ "slow": slow }));
    let told = said(&bridge, &["servers", "test"]);
    assert!(told.contains("✓ slow"), "{told}");
    assert_eq!(bridge.starts("slow"), 2);
    assert_eq!(bridge.result("python", "from servers.slow import echo\necho(text='x')"), "x");
}

#[test]
fn a_terminal_shows_which_server_is_starting() {
    let bridge = Bridge::new(As::current());
    let gate = bridge.path("data/gate");
    let mut slow = bridge.plain("slow");
    slow["env"]["PLAIN_WAIT"] = json!(gate);
    bridge.servers(&json!({ "slow": slow }));
    let window = Window::exec(&bridge, "from servers.slow import echo\necho(text='there')", &[]);
    eventually("the spinner says it", || window.screen().contains("waiting for slow to start"));
    fs::write(&gate, "").unwrap();
    eventually("the spinner is gone", || !window.screen().contains("waiting for slow"));
    let execution = window.finish();
    assert_eq!(execution["result"], "there", "{execution:#}");
}
