//! `coracle bench tokens` on real servers: every task has the same result in all three ways, and code saves tokens.

use coracle_testing::harness::{As, Coracle};
use coracle_testing::place::installed;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Output;

/// Promises of `docs/tokens.md`.
const SAVED: f64 = 0.9;
const SAVED_OF_DEFERRED: f64 = 0.8;
const WORST: i64 = 300;
const WORST_OF_DEFERRED: i64 = 600;
const MOST_FOR_CODE: u64 = 500;
const MOST_FOR_A_DISCOVERY: u64 = 600;

/// Runs the benchmark on the test servers.
fn tokens(coracle: &Coracle, more: &[&str]) -> Output {
    let servers = installed("");
    coracle.command().args(["bench", "tokens", "--servers", &servers]).args(more).output().unwrap()
}

fn report(output: &Output) -> Value {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    assert_eq!(text.lines().count(), 1, "{output:?}");
    serde_json::from_str(&text).unwrap()
}

fn settings(coracle: &Coracle, settings: &Value) {
    let path = coracle.home().join("coracle.yaml");
    fs::write(&path, settings.to_string()).unwrap();
    coracle.own(&path);
}

/// The number of tokens does not depend on who runs the program, so one user is enough for the slow part.
#[test]
fn all_tasks_have_equal_results_and_code_saves_tokens() {
    let coracle = Coracle::new(As::Ordinary);
    let output = tokens(&coracle, &["--json"]);
    let report = report(&output);
    assert_eq!(
        output.status.code(),
        Some(0),
        "as {:?}: {report:#}\n{}",
        coracle.who,
        String::from_utf8_lossy(&output.stderr)
    );
    let tasks = report["tasks"].as_array().unwrap();
    assert!(tasks.len() >= 20, "{report:#}");
    for task in tasks {
        for way in ["direct", "deferred", "code"] {
            let cost = &task[way];
            assert_eq!(cost["equal"], true, "{task:#}");
            assert!(cost["in"].as_u64().unwrap() > 0 && cost["out"].as_u64().unwrap() > 0, "{task:#}");
            assert!(cost["round_trips"].as_u64().unwrap() >= 2, "{task:#}");
        }
        assert_eq!(task["faults"], json!({}), "{task:#}");
    }
    let figures = &report["figures"];
    assert_eq!(figures["equal"], tasks.len(), "{figures:#}");
    assert!(figures["heavy"]["tasks"].as_u64().unwrap() >= 10, "{figures:#}");
    assert!(figures["heavy"]["saved"].as_f64().unwrap() >= SAVED, "{figures:#}");
    assert!(figures["heavy"]["saved_of_deferred"].as_f64().unwrap() >= SAVED_OF_DEFERRED, "{figures:#}");
    assert!(figures["light"]["tasks"].as_u64().unwrap() >= 5, "{figures:#}");
    assert!(figures["light"]["worst"].as_i64().unwrap() <= WORST, "{figures:#}");
    // Code loses some tasks, within a limit.
    assert!((1..=WORST_OF_DEFERRED).contains(&figures["light"]["worst_of_deferred"].as_i64().unwrap()), "{figures:#}");
    assert!(figures["code_definitions"].as_u64().unwrap() <= MOST_FOR_CODE, "{figures:#}");
    assert_eq!(report["skipped"]["own"].as_str().map(|reason| reason.contains("servers add")), Some(true));
}

#[test]
fn the_definitions_of_own_servers_are_counted() {
    let coracle = Coracle::new(As::current());
    let time = installed("venv/bin/mcp-server-time");
    let git = installed("venv/bin/mcp-server-git");
    settings(
        &coracle,
        &json!({ "mcpServers": { "time": { "command": time }, "git": { "command": git }, "gone": { "command": "/nowhere" } } }),
    );
    let output = tokens(&coracle, &["--own", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let report = report(&output);
    let own = &report["own"];
    let servers = own["servers"].as_array().unwrap();
    let of = |name: &str| servers.iter().find(|server| server["server"] == name).unwrap();
    assert_eq!(of("time")["tools"], 2, "{own:#}");
    let sum = of("time")["tokens"].as_u64().unwrap() + of("git")["tokens"].as_u64().unwrap();
    assert!(sum > 500 && own["tokens"] == sum, "{own:#}");
    assert_eq!(own["missing"], json!(["gone"]), "{own:#}");
    let most = own["discovery"]["most"].as_u64().unwrap();
    assert!((100..MOST_FOR_A_DISCOVERY).contains(&most), "{own:#}");
    assert_eq!(report["tasks"], json!([]), "{report:#}");

    let output = tokens(&coracle, &["--own"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("| time") && text.contains("| all") && text.contains("gone"), "{text}");
}

/// Each run starts all servers, so all tasks are in one run.
#[test]
fn wrong_results_are_reported() {
    let coracle = Coracle::new(As::current());
    let folder = coracle.workspace();
    let tasks = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/tasks");
    fs::copy(tasks.join("world.py"), folder.join("world.py")).unwrap();
    let sum = fs::read_to_string(tasks.join("02-sum.yaml")).unwrap();
    let failing = sum.replace("get_sum(a=17, b=25)", "1 / 0") + "effect: 1 + 1\nleaves: 3\n";
    for (name, text) in [
        ("1-right", &sum),
        ("2-expects", &sum.replace("expect: 42", "expect: 43")),
        ("3-code", &sum.replace("get_sum(a=17, b=25)", "get_sum(a=17, b=26)")),
        ("4-fails", &failing),
    ] {
        fs::write(folder.join(format!("{name}.yaml")), text).unwrap();
    }
    let run = |more: &[&str]| tokens(&coracle, &[&["--tasks", folder.to_str().unwrap()], more].concat());
    let json = run(&["--json"]);
    let report = report(&json);
    assert_eq!((json.status.code(), &report["figures"]["equal"]), (Some(1), &json!(1)), "{report:#}");
    let [right, expects, code, _] = &report["tasks"].as_array().unwrap()[..] else { panic!("{report:#}") };
    assert_eq!((&right["code"]["equal"], &right["faults"]), (&json!(true), &json!({})), "{right:#}");
    assert_eq!(expects["code"]["equal"], false, "{expects:#}");
    assert_eq!(expects["faults"]["direct"], "the answer is 42 instead of 43", "{expects:#}");
    assert_eq!((&code["direct"]["equal"], &code["code"]["equal"]), (&json!(true), &json!(false)), "{code:#}");

    let output = run(&[]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    for fault in [
        "not equal: 3-code (code): the answer is 43 instead of 42",
        "ZeroDivisionError",
        "not equal: 4-fails (direct): it leaves 2 instead of 3",
    ] {
        assert!(text.contains(fault), "{text}");
    }
}

#[test]
fn missing_files_are_named() {
    let coracle = Coracle::new(As::current());
    let run = |arguments: &[&str]| coracle.command().args(["bench", "tokens"]).args(arguments).output().unwrap();
    let output = run(&["--only", "sum", "--servers", "/nowhere"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.code() == Some(0) && text.contains("skipped tasks: there is no /nowhere/"), "{text}");
    assert!(text.contains("cargo xtask needs"), "{text}");
    for (arguments, words) in [
        (&["--only", "nothing"][..], "02-sum"),
        (&["--only", "sum", "--tasks", "/nowhere"], "/nowhere/world.py"),
        (&["--only", "sum", "--set", "/nowhere"], "/nowhere/tools.jsonl"),
    ] {
        let output = run(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(words), "{arguments:?}: {output:?}");
    }
}

#[test]
fn tools_are_found_in_a_set() {
    let coracle = Coracle::new(As::current());
    let folder = coracle.workspace();
    let tool = |number: u32| {
        json!({
            "id": number, "server": format!("Server {} & more", number % 7), "name": format!("get_thing_{number}"),
            "description": format!("Get thing number {number}, with all that belongs to it."),
            "input_schema": { "type": "object", "properties": { "id": { "type": "string" } }, "required": ["id"] },
        })
    };
    let tools: Vec<String> = (0..300).map(|number| tool(number).to_string()).collect();
    fs::write(folder.join("tools.jsonl"), tools.join("\n")).unwrap();
    fs::write(folder.join("queries.jsonl"), "{\"id\": 1, \"query\": \"thing 17\", \"relevant\": []}\n").unwrap();
    let set = folder.to_str().unwrap();
    let output = coracle.command().args(["bench", "tokens", "--own", "--json", "--set", set]).output().unwrap();
    let found = &report(&output)["set"];
    assert_eq!((&found["tools"], &found["searches"]), (&json!(300), &json!(1)), "{output:?}");
    assert!(found["most"].as_u64().unwrap() < MOST_FOR_A_DISCOVERY, "{found:#}");
    assert!(found["definitions"].as_u64().unwrap() > 20 * found["most"].as_u64().unwrap(), "{found:#}");
}
