//! Limits on calls of one execution, and their cancellation.

use crate::lab::Bridge;
use coracle_testing::each_user;
use coracle_testing::harness::As;
use coracle_testing::outcome::{assert_nothing_left, is_alive};
use coracle_testing::wait::eventually;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::process::Stdio;

fn with(bridge: &Bridge, mut settings: Value) {
    settings["mcpServers"] = json!({ "plain": bridge.plain("plain") });
    bridge.settings(&settings);
}

each_user!(too_many_calls_end_the_execution);
fn too_many_calls_end_the_execution(who: As) {
    let bridge = Bridge::new(who);
    with(&bridge, json!({ "execution": { "limits": { "calls": 5 } } }));
    let code = |times: u32| format!("from servers.plain import note\nfor n in range({times}):\n    note(text=str(n))");
    assert_eq!(bridge.run("python", &code(5), &[])["success"], true);
    let execution = bridge.run("python", &code(6), &[]);
    assert_eq!((&execution["success"], &execution["error_code"]), (&json!(false), &json!("calls")), "{execution:#}");
    assert!(execution["error"].as_str().unwrap().contains('5'), "{execution:#}");
    assert_eq!(bridge.lines("plain").len(), 10, "as {who:?}: the last one was made");
    assert_eq!(execution["calls"].as_array().unwrap().len(), 5);
}

#[test]
fn arguments_and_results_have_a_size_limit() {
    let bridge = Bridge::new(As::current());
    with(&bridge, json!({ "calls": { "max_argument_bytes": 2000, "max_result_bytes": 3000 } }));
    let code = "
from coracle import ToolError
from servers.plain import large, note
def attempt(tool, **arguments):
    try:
        return len(tool(**arguments))
    except ToolError as error:
        return [error.code, error.retryable]
[attempt(note, text='x' * 1900), attempt(note, text='x' * 2000), attempt(large, bytes=2900), attempt(large, bytes=3000)]";
    let execution = bridge.run("python", code, &[]);
    let refused = json!(["too_large", false]);
    assert_eq!(execution["result"], json!([4, refused, 2900, refused]), "{execution:#}");
    let codes: Vec<&Value> = execution["calls"].as_array().unwrap().iter().map(|call| &call["code"]).collect();
    assert_eq!(codes, [&Value::Null, &json!("too_large"), &Value::Null, &json!("too_large")]);
    assert_eq!(bridge.lines("plain").len(), 1);
    // Without these settings, the limit is what fits into a frame.
    with(&bridge, json!({}));
    let code = "
from coracle import ToolError
from servers.plain import large
try:
    large(bytes=9_000_000)
except ToolError as error:
    result = [error.code, len(large(bytes=8_000_000))]";
    let execution = bridge.run("python", code, &[]);
    assert_eq!(execution["result"], json!(["too_large", 8_000_000]), "{execution:#}");
    assert_eq!((&execution["calls"][0]["ok"], &execution["calls"][0]["code"]), (&json!(false), &json!("too_large")));
}

#[test]
fn the_number_of_parallel_calls_is_limited() {
    let bridge = Bridge::new(As::current());
    let code = "import asyncio\nfrom servers.plain import crowd\nmax(each['at_once'] for each in await asyncio.gather(*[crowd.aio(ms=100) for _ in range(6)]))";
    with(&bridge, json!({ "calls": { "concurrency": 2 } }));
    assert_eq!(bridge.result("python", code), 2);
    with(&bridge, json!({}));
    assert!(bridge.result("python", code).as_u64() > Some(2));
}

/// Results that exceed the channel's buffer, for code that prints a lot before it reads them.
#[test]
fn large_results_and_output_do_not_block_each_other() {
    let bridge = Bridge::new(As::current());
    with(&bridge, json!({}));
    let code = "
import asyncio, sys
from servers.plain import large
async def chatter():
    for _ in range(40):
        sys.stdout.write('x' * 100_000 + '\\n')
        await asyncio.sleep(0)
answers = await asyncio.gather(*[large.aio(bytes=2_000_000) for _ in range(6)], chatter())
sum(len(answer) for answer in answers[:6])";
    let execution = bridge.run("python", code, &[]);
    assert_eq!(execution["result"], 12_000_000, "{}", execution["error"]);
    let code = "
import { large } from 'servers/plain';
const all = Promise.all(Array.from({ length: 6 }, () => large({ bytes: 2_000_000 })));
for (let n = 0; n < 40; n++) console.log('x'.repeat(100_000));
(await all).map((each) => each.length).reduce((a, b) => a + b)";
    let execution = bridge.run("typescript", code, &[]);
    assert_eq!(execution["result"], 12_000_000, "{}", execution["error"]);
}

each_user!(cancelling_during_a_call_ends_everything);
fn cancelling_during_a_call_ends_everything(who: As) {
    let bridge = Bridge::new(who);
    with(&bridge, json!({}));
    for (signal, calls) in [(Signal::INT, 1), (Signal::TERM, 2)] {
        let code = format!("from servers.plain import wait\nwait(path={:?})", bridge.text("data/never"));
        let mut command = bridge.coracle.command();
        command.args(["exec", "--json", "--timeout", "600", "-c", &code]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let made = || bridge.lines("plain.log").iter().filter(|line| *line == "wait").count();
        eventually("the call is made", || made() == calls);
        let server =
            bridge.lines("plain.log").iter().rev().find_map(|line| line.strip_prefix("start ").map(str::to_owned));
        assert!(is_alive(server.as_deref().unwrap()));
        kill_process(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), signal).unwrap();
        let output = child.wait_with_output().unwrap();
        let execution: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(execution["error_code"], "cancelled", "as {who:?}: {execution:#}");
        assert_eq!(execution["calls"][0]["code"], "cancelled", "as {who:?}: {execution:#}");
        bridge.assert_no_servers();
        assert_nothing_left(&bridge.coracle, "a call");
    }
    // So does the time limit of the code.
    let code = format!("from servers.plain import wait\nwait(path={:?})", bridge.text("data/never"));
    let execution = bridge.run("python", &code, &["--timeout", "0.5"]);
    assert_eq!(execution["error_code"], "timeout", "{execution:#}");
    assert_nothing_left(&bridge.coracle, "a call");
}

/// A killed program cannot end anything itself.
#[test]
fn servers_end_when_the_program_is_killed() {
    let bridge = Bridge::new(As::current());
    with(&bridge, json!({}));
    let code = format!("from servers.plain import wait\nwait(path={:?})", bridge.text("data/never"));
    let mut command = bridge.coracle.command();
    let mut child = command.args(["exec", "-c", &code]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    eventually("the call is made", || bridge.lines("plain.log").last().is_some_and(|line| line == "wait"));
    child.kill().unwrap();
    child.wait().unwrap();
    bridge.assert_no_servers();
    assert_nothing_left(&bridge.coracle, "a call");
}
