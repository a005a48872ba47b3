//! Calls without a terminal to ask at, and policy rules.

use crate::lab::Bridge;
use coracle_testing::each_user;
use coracle_testing::harness::As;
use serde_json::{Value, json};

const CODE: &str = "from coracle import ToolError
from servers.plain import note, wipe
def attempt(tool, **arguments):
    try:
        return tool(**arguments)
    except ToolError as error:
        return [error.code, error.message, error.retryable]
[attempt(wipe, what='x'), attempt(note, text='y')]";

fn with_policy(bridge: &Bridge, tools: &Value) {
    bridge.settings(&json!({ "mcpServers": { "plain": bridge.plain("plain") }, "policy": { "tools": tools } }));
}

each_user!(without_a_terminal_the_error_has_the_line_that_would_allow_it);
fn without_a_terminal_the_error_has_the_line_that_would_allow_it(who: As) {
    let bridge = Bridge::new(who);
    with_policy(&bridge, &json!({}));
    let result = bridge.result("python", CODE);
    assert_eq!((&result[0][0], &result[0][2], &result[1]), (&json!("denied_unasked"), &json!(false), &json!("done")));
    let message = result[0][1].as_str().unwrap();
    let (_, line) = message.split_once("would allow it: ").unwrap();
    assert_eq!(bridge.lines("plain"), ["note y"], "as {who:?}");
    // Adds the line, as printed, to the settings.
    let servers = json!({ "plain": bridge.plain("plain") });
    bridge.write("home/coracle.yaml", &format!("mcpServers: {servers}\n{line}\n"));
    let result = bridge.result("python", CODE);
    assert_eq!(result, json!(["done", "done"]), "as {who:?}: {line}");
    assert_eq!(bridge.lines("plain"), ["note y", "wipe x", "note y"]);
}

#[test]
fn a_deny_rule_is_final_and_named_in_the_error() {
    let bridge = Bridge::new(As::current());
    with_policy(&bridge, &json!({ "plain.*": "deny", "plain.wipe": "allow" }));
    let result = bridge.result("python", CODE);
    assert_eq!((&result[0], &result[1][0]), (&json!("done"), &json!("denied_by_policy")), "{result}");
    assert!(result[1][1].as_str().unwrap().contains("plain.*"), "{result}");
    with_policy(&bridge, &json!({ "plain.*": "allow" }));
    assert_eq!(bridge.result("python", CODE), json!(["done", "done"]));
    with_policy(&bridge, &json!({ "*": "ask" }));
    let result = bridge.result("python", CODE);
    assert_eq!((&result[0][0], &result[1][0]), (&json!("denied_unasked"), &json!("denied_unasked")), "{result}");
    let bash = "tool plain wipe --what x; echo $?; tool plain note --text y; echo $?";
    with_policy(&bridge, &json!({ "plain.wipe": "deny" }));
    let execution = bridge.run("bash", bash, &[]);
    assert_eq!(execution["stdout"], "1\ndone\n0\n", "{execution:#}");
    assert!(execution["stderr"].as_str().unwrap().contains("denied_by_policy"), "{execution:#}");
}
