//! Plans of real programs on real servers, in all languages and over every interface.

use crate::frontend::driver::{Up, call, stdio, steps};
use crate::frontend::wire::exchange;
use crate::lab::Bridge;
use coracle_testing::harness::As;
use coracle_testing::wait::eventually;
use serde_json::{Value, json};
use std::process::{Output, Stdio};

/// A program that reads, then writes to two servers, in each language.
const PROGRAMS: [(&str, &str); 3] = [
    (
        "python",
        "import asyncio
from servers.one import echo, note
from servers.two import note as tell
async def main():
    found = await echo.aio(text='Ada')
    await asyncio.gather(*(note.aio(text=f'{found} {n}') for n in range(3)))
asyncio.run(main())
tell(text='done')",
    ),
    (
        "typescript",
        "import { echo, note } from 'servers/one';
import { note as tell } from 'servers/two';
const found = await echo({ text: 'Ada' });
await Promise.all([0, 1, 2].map((n) => note({ text: `${found} ${n}` })));
await tell({ text: 'done' });",
    ),
    (
        "bash",
        "set -e
found=$(tool one echo --text Ada)
for n in 0 1 2; do tool one note --text \"$found $n\" >/dev/null; done
tool two note --text 'done' >/dev/null",
    ),
];

const NOTES: [&str; 3] = ["note Ada 0", "note Ada 1", "note Ada 2"];

fn bridge() -> Bridge {
    let bridge = Bridge::new(As::current());
    let servers = json!({ "one": bridge.plain("one"), "two": bridge.plain("two") });
    bridge.settings(&json!({ "mcpServers": servers, "plan": { "read_only": ["*.echo"] } }));
    bridge
}

/// What the servers have written.
fn written(bridge: &Bridge) -> (Vec<String>, Vec<String>) {
    (bridge.lines("one"), bridge.lines("two"))
}

fn plans(bridge: &Bridge, arguments: &[&str]) -> Output {
    let mut command = bridge.coracle.command();
    command.arg("plans").args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn parsed(output: &Output) -> Value {
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Server and text of each call, in order.
fn listed(plan: &Value) -> Vec<(String, String)> {
    let effects = plan["effects"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    effects.map(|effect| (text(&effect["server"]), text(&effect["arguments"]["text"]))).collect()
}

fn expected() -> Vec<(String, String)> {
    let calls = [("one", "Ada 0"), ("one", "Ada 1"), ("one", "Ada 2"), ("two", "done")];
    calls.map(|(server, text)| (server.to_owned(), text.to_owned())).into()
}

#[test]
fn a_plan_makes_nothing_and_its_approval_makes_exactly_what_it_lists() {
    for (language, code) in PROGRAMS {
        let bridge = bridge();
        let execution = bridge.run(language, code, &["--plan"]);
        assert_eq!(execution["success"], true, "{language}: {execution:#}");
        let plan = &execution["plan"];
        assert_eq!((plan["state"].as_str(), listed(plan)), (Some("open"), expected()), "{language}");
        assert_eq!(written(&bridge), (vec![], vec![]), "{language}");
        let id = plan["id"].as_str().unwrap();
        let unasked = plans(&bridge, &["run", id]);
        assert_eq!(unasked.status.code(), Some(2), "without a terminal, nobody has approved: {unasked:?}");
        assert_eq!(written(&bridge), (vec![], vec![]), "{language}");
        let ended = parsed(&plans(&bridge, &["run", id, "--yes", "--json"]));
        assert_eq!(ended["state"], "done", "{ended:#}");
        assert_eq!(written(&bridge), (NOTES.map(str::to_owned).into(), vec!["note done".to_owned()]), "{language}");
        let again = plans(&bridge, &["run", id, "--yes"]);
        assert_eq!(again.status.code(), Some(2), "{again:?}");
        assert_eq!(written(&bridge).0.len(), 3, "{language}: nothing is repeated");
        assert!(plans(&bridge, &["delete", id]).status.success());
        assert_eq!(parsed(&plans(&bridge, &["list", "--json"])), json!([]));
    }
}

#[test]
fn a_part_of_a_plan_runs_and_a_changed_file_is_noticed() {
    let bridge = bridge();
    let (language, code) = PROGRAMS[0];
    let made = |bridge: &Bridge| {
        let execution = bridge.run(language, code, &["--plan"]);
        let effects = execution["plan"]["effects"].as_array().unwrap();
        let numbers = effects.iter().map(|effect| effect["number"].to_string()).collect::<Vec<_>>();
        (execution["plan"]["id"].as_str().unwrap().to_owned(), numbers)
    };
    let (id, numbers) = made(&bridge);
    let only = format!("{},{}", numbers[0], numbers[3]);
    let ended = parsed(&plans(&bridge, &["run", &id, "--yes", "--json", "--only", &only]));
    let states: Vec<&str> =
        ended["effects"].as_array().unwrap().iter().map(|effect| effect["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["done", "left_out", "left_out", "done"]);
    assert_eq!(written(&bridge), (vec!["note Ada 0".to_owned()], vec!["note done".to_owned()]));

    let (id, _) = made(&bridge);
    let file = bridge.coracle.workspace().join("appeared");
    std::fs::write(&file, "").unwrap();
    bridge.coracle.own(&file);
    let refused = plans(&bridge, &["run", &id, "--yes"]);
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && told.contains("\"appeared\""), "{told}");
    assert_eq!(written(&bridge).0.len(), 1, "nothing was done");
}

/// The program is killed while a call is under way: nobody knows whether it happened, and it is not repeated.
#[test]
fn a_plan_that_was_killed_is_not_repeated() {
    let bridge = bridge();
    let gate = bridge.text("data/gate");
    let code =
        format!("from servers.one import note, wait\nnote(text='before')\nwait(path={gate:?})\nnote(text='after')");
    let execution = bridge.run("python", &code, &["--plan"]);
    let id = execution["plan"]["id"].as_str().unwrap();
    let mut command = bridge.coracle.command();
    let mut child =
        command.args(["plans", "run", id, "--yes"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    eventually("the call is under way", || bridge.lines("one.log").contains(&"wait".to_owned()));
    child.kill().unwrap();
    child.wait().unwrap();
    bridge.assert_no_servers();
    let shown = parsed(&plans(&bridge, &["show", id, "--json"]));
    let states: Vec<&str> =
        shown["effects"].as_array().unwrap().iter().map(|effect| effect["state"].as_str().unwrap()).collect();
    assert_eq!((shown["state"].as_str(), states), (Some("interrupted"), vec!["done", "begun", "planned"]));
    let text = plans(&bridge, &["show", id]);
    assert!(String::from_utf8_lossy(&text.stdout).contains("may have happened"), "{text:?}");
    std::fs::write(&gate, "").unwrap();
    let again = plans(&bridge, &["run", id, "--yes"]);
    assert!(!again.status.success(), "{again:?}");
    assert_eq!(bridge.lines("one"), ["note before"]);
}

#[test]
fn clients_plan_over_mcp_and_only_a_person_approves() {
    let bridge = bridge();
    let (_, code) = PROGRAMS[0];
    let planned = call("execute_code", &json!({ "code": code, "mode": "plan" }));
    let outcomes = steps(stdio(&bridge.coracle, &["--profile", "full"]), "legacy", &[planned]);
    let result = &outcomes[0]["value"];
    let plan = &result["structuredContent"]["plan"];
    assert_eq!(listed(plan), expected(), "{result:#}");
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("a person has to approve"), "{text}");
    let run = call("run_plan", &json!({ "plan_id": plan["id"] }));
    let outcomes = steps(stdio(&bridge.coracle, &["--profile", "full"]), "legacy", &[run]);
    assert_eq!(outcomes[0]["value"]["isError"], true, "this client cannot ask anybody: {:#}", outcomes[0]);
    assert_eq!(written(&bridge), (vec![], vec![]));
    let up = Up::start(&bridge.coracle, &[]);
    let path = format!("/api/plans/{}/run", plan["id"].as_str().unwrap());
    let head = "content-type: application/json\r\nconnection: close\r\ncontent-length: 2";
    let request = format!("POST {path} HTTP/1.1\r\nhost: {}\r\n{head}\r\n\r\n{{}}", up.address);
    let answer = exchange(&up.address, request.as_bytes());
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("\"state\":\"done\""), "{answer}");
    assert_eq!(written(&bridge).0, NOTES);
}
