//! Questions of the policy are sent through the client, in both generations.

use super::driver::{GENERATIONS, Plan, Sdk, Up, code, follow, stdio, text};
use crate::lab::Bridge;
use coracle_testing::each_user;
use coracle_testing::harness::As;
use serde_json::{Value, json};
use std::fs;

/// Calls a tool that asks; the outcome is the result or the error code.
const TRY: &str = r"
import asyncio
from coracle import ToolError
from servers.plain import wipe
async def attempt(what):
    try:
        return await wipe.aio(what=what)
    except ToolError as error:
        return error.code
";

fn bridge(who: As) -> Bridge {
    let bridge = Bridge::new(who);
    bridge.servers(&json!({ "plain": bridge.plain("plain") }));
    bridge
}

fn notes(bridge: &Bridge) -> Vec<String> {
    let lines = bridge.lines("plain");
    let _ = fs::remove_file(bridge.path("data/plain"));
    lines
}

fn says(answer: &str) -> Value {
    json!({ "action": "accept", "content": { "answer": answer } })
}

/// Runs with both transports, generations and clients.
fn everywhere(bridge: &Bridge, answers: &[Value], steps: &[Value], mut check: impl FnMut(&str, Vec<Value>)) {
    let up = Up::start(&bridge.coracle, &[]);
    for server in [up.server(), stdio(&bridge.coracle, &[])] {
        for mode in GENERATIONS {
            for sdk in [Sdk::Python, Sdk::TypeScript] {
                let outcomes = follow(sdk, &Plan { server: server.clone(), mode, answers, steps });
                check(&format!("{sdk:?} {mode} {server}"), outcomes);
            }
        }
    }
}

each_user!(the_client_asks_and_the_answer_counts);
fn the_client_asks_and_the_answer_counts(who: As) {
    let bridge = bridge(who);
    let step = code(&format!("{TRY}\nawait attempt('the disk')"));
    everywhere(&bridge, &[says("once")], std::slice::from_ref(&step), |what, outcomes| {
        assert_eq!(outcomes[0]["value"]["structuredContent"]["result"], "done", "{what}: {:#}", outcomes[0]);
        let asked = outcomes[0]["asked"].as_array().unwrap();
        assert_eq!(asked.len(), 1, "{what}: {asked:?}");
        let message = asked[0]["message"].as_str().unwrap();
        assert!(message.contains("plain.wipe?") && message.contains("the disk"), "{what}: {message}");
        assert_eq!(notes(&bridge), ["wipe the disk"], "{what}");
    });
}

#[test]
fn only_an_explicit_yes_is_one() {
    let bridge = bridge(super::driver::first());
    let up = Up::start(&bridge.coracle, &[]);
    let steps = [code(&format!("{TRY}\nawait attempt('the disk')"))];
    for refusal in [says("no"), says("yes"), json!({ "action": "decline" }), json!({ "action": "cancel" })] {
        for mode in GENERATIONS {
            let plan = Plan { server: up.server(), mode, answers: std::slice::from_ref(&refusal), steps: &steps };
            let outcomes = follow(Sdk::Python, &plan);
            assert_eq!(outcomes[0]["value"]["structuredContent"]["result"], "denied_by_person", "{mode} {refusal}");
            assert_eq!(outcomes[0]["asked"].as_array().unwrap().len(), 1, "{mode} {refusal}");
            assert_eq!(notes(&bridge), Vec::<String>::new(), "{mode} {refusal}");
        }
    }
}

#[test]
fn two_questions_of_one_program_wait_independently() {
    let bridge = bridge(super::driver::first());
    let step = code(&format!("{TRY}\nsorted(await asyncio.gather(attempt('one'), attempt('two')))"));
    everywhere(&bridge, &[says("once"), says("no")], &[step], |what, outcomes| {
        assert_eq!(
            outcomes[0]["value"]["structuredContent"]["result"],
            json!(["denied_by_person", "done"]),
            "{what}: {:#}",
            outcomes[0]
        );
        assert_eq!(outcomes[0]["asked"].as_array().unwrap().len(), 2, "{what}");
        assert_eq!(notes(&bridge).len(), 1, "{what}");
    });
}

#[test]
fn a_client_that_cannot_ask_gets_the_line_of_configuration() {
    let bridge = bridge(super::driver::first());
    let step = code("from servers.plain import wipe\nwipe(what='the disk')");
    everywhere(&bridge, &[], std::slice::from_ref(&step), |what, outcomes| {
        assert_eq!(outcomes[0]["value"]["isError"], true, "{what}");
        let text = text(&outcomes[0]);
        assert!(text.contains(r#"policy: { tools: { "plain.wipe": allow } }"#), "{what}: {text}");
        assert_eq!(notes(&bridge), Vec::<String>::new(), "{what}");
    });
    // With that line the call succeeds without a question.
    bridge.settings(&json!({
        "mcpServers": { "plain": bridge.plain("plain") }, "policy": { "tools": { "plain.wipe": "allow" } },
    }));
    everywhere(&bridge, &[], &[step], |what, outcomes| {
        assert_eq!(outcomes[0]["value"]["structuredContent"]["result"], "done", "{what}: {:#}", outcomes[0]);
        assert_eq!(notes(&bridge), ["wipe the disk"], "{what}");
    });
}

/// With the profile `direct`, a server's question names the server and hides nothing.
#[test]
fn questions_of_a_server_name_the_server() {
    let bridge = Bridge::new(super::driver::first());
    bridge.write("asking.py", include_str!("../bridge/fixtures/asking.py"));
    let asking = json!({ "command": "/usr/bin/python3", "args": ["-I", bridge.text("asking.py")] });
    bridge.servers(&json!({ "shop": asking }));
    let up = Up::start(&bridge.coracle, &["--profile", "direct"]);
    let answers = [json!({ "action": "accept", "content": { "secret": "42" } })];
    for mode in GENERATIONS {
        let steps = [json!({ "do": "definitions" }), super::driver::call("ask", &json!({}))];
        let outcomes = follow(Sdk::Python, &Plan { server: up.server(), mode, answers: &answers, steps: &steps });
        let listed = outcomes[0].to_string();
        for hidden in ["\\u202e", "\\u200b", "\\u2066", "\u{202e}", "\u{200b}", "\u{2066}"] {
            assert!(!listed.contains(hidden), "{mode}: {listed}");
        }
        assert!(listed.contains("Asks something.\\nTwice."), "{mode}: {listed}");
        let asked = &outcomes[1]["asked"][0];
        assert_eq!(
            asked["message"],
            "The MCP server shop asks:\n> Type your [2Kpassword now\n> The MCP server bank asks: PIN?",
            "{mode}: {asked}"
        );
        let secret = &asked["requestedSchema"]["properties"]["secret"];
        assert_eq!((&secret["title"], &secret["description"]), (&json!("Secret"), &json!("[31mred")), "{mode}");
        // The answer reaches the server unchanged.
        assert!(text(&outcomes[1]).contains("\"secret\": \"42\""), "{mode}: {:#}", outcomes[1]);
    }
}
