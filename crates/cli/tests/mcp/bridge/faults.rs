//! Misbehaving servers: each causes a clear error, and others keep working.

use crate::lab::{Bridge, lines_of};
use coracle_testing::each_user;
use coracle_testing::harness::As;
use serde_json::{Map, Value, json};

/// Faults when `act` is called, and the time limit for an answer.
const MODES: [(&str, u64); 11] = [
    ("hang", 1),
    ("die", 20),
    ("garbage", 1),
    ("garbage-flood", 20),
    ("huge", 60),
    ("wrong", 20),
    ("refuse", 20),
    ("flood", 20),
    ("flood-requests", 20),
    ("change", 20),
    ("die-start", 20),
];

each_user!(each_fault_is_a_clear_error_without_effect_on_others);
fn each_fault_is_a_clear_error_without_effect_on_others(who: As) {
    let bridge = Bridge::new(who);
    let mut servers = Map::new();
    for (mode, seconds) in MODES {
        let mut server = bridge.rogue(mode);
        server["call_timeout"] = json!(seconds);
        servers.insert(mode.to_owned(), server);
    }
    let mut slow = bridge.rogue("hang-start");
    slow["start_timeout"] = json!(1);
    servers.insert("hang-start".to_owned(), slow);
    servers.insert("plain".to_owned(), bridge.plain("plain"));
    bridge.servers(&Value::Object(servers));
    let modes: Vec<&str> = MODES.iter().map(|(mode, _)| *mode).chain(["hang-start"]).collect();
    let code = format!("modes = {}\n{}", json!(modes), include_str!("fixtures/faults.py"));
    let execution = bridge.run("python", &code, &["--timeout", "120"]);
    assert_eq!(execution["success"], true, "as {who:?}: {execution:#}");
    let result = &execution["result"];
    let mut told = result["told"].as_object().unwrap().clone();
    // The code depends on which side is faster.
    let flood = told.remove("flood-requests").unwrap();
    assert!(["unavailable", "protocol", "closed"].contains(&flood[0].as_str().unwrap()), "{flood}");
    assert!(flood[1].as_str().unwrap().contains("more than 1000 requests"), "{flood}");
    // The code calls all of them at once.
    told.sort_keys();
    let told: Vec<String> = told.iter().map(|(mode, told)| format!("{mode}: {told}\n")).collect();
    insta::assert_snapshot!("faults", told.concat());
    // The well-behaved server was called beside each of them, and after all of them.
    assert_eq!(result["beside"], json!(modes), "as {who:?}");
    assert_eq!(result["new"], "called 'new'");
    let calls = execution["calls"].as_array().unwrap();
    let of = |server: &str| calls.iter().filter(|call| call["server"] == server).count();
    assert_eq!((of("plain"), of("hang"), of("change")), (modes.len() + 1, 1, 2), "{calls:#?}");
    let failed = calls.iter().find(|call| call["server"] == "die").unwrap();
    assert_eq!((&failed["ok"], &failed["code"]), (&json!(false), &json!("closed")));
}

each_user!(strange_definitions_become_harmless_modules);
/// Names that look like paths, invalid definitions, and descriptions that address the model.
fn strange_definitions_become_harmless_modules(who: As) {
    let bridge = Bridge::new(who);
    bridge.servers(&json!({ "odd": bridge.rogue("tools"), "plain": bridge.plain("plain") }));
    let code = r#"
import importlib, os
from servers import odd as tools
from servers.plain import echo
files = sorted(os.path.relpath(os.path.join(folder, name), "/coracle/servers")
               for folder, _, names in os.walk("/coracle/servers/odd") for name in names)
modules = {name: importlib.import_module(f"servers.odd.{name}") for name in tools.__all__}
answers = {}
for name in sorted(modules):
    try:
        answers[name] = getattr(tools, name)()
    except Exception as error:
        answers[name] = str(error)
source = open("/coracle/servers/odd/x.py").read()
import ast
tree = ast.parse(source)
outside_text = [type(node).__name__ for node in ast.walk(tree) if isinstance(node, ast.Name) and "gnore" in node.id]
{"files": files, "answers": answers, "says": "Ignore all previous instructions" in source, "as_code": outside_text, "good": echo(text="fine")}
"#;
    let result = bridge.result("python", code);
    assert_eq!((&result["says"], &result["as_code"], &result["good"]), (&json!(true), &json!([]), &json!("fine")));
    let answers = lines_of(&result["answers"]);
    insta::assert_snapshot!("strange_definitions", format!("{}---\n{answers}", lines_of(&result["files"])));
    let same = r#"
import * as tools from "servers/odd";
const answers: Record<string, unknown> = {};
for (const name of Object.keys(tools).sort()) {
    const tool = (tools as Record<string, unknown>)[name];
    if (typeof tool !== "function" || name === "ToolError") continue;
    try { answers[name] = await tool({}) } catch (error) { answers[name] = String(error) }
}
Object.keys(answers)"#;
    let names: Vec<Value> = result["answers"].as_object().unwrap().keys().map(|name| json!(name)).collect();
    assert_eq!(bridge.result("typescript", same), json!(names));
    // A warning says what is ignored.
    bridge.settings(&json!({ "mcpServers": { "odd": { "command": "/usr/bin/python3", "args": ["-I", bridge.text("rogue.py"), "tools"] } } }));
    let output = bridge.exec("import servers.odd");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && said.contains("invalid") && said.contains("WARN"), "{said}");
}

/// A server that is not used is not started, and one that does not become ready causes no long delay.
#[test]
fn an_unused_broken_server_causes_no_delay_or_error() {
    let bridge = Bridge::new(As::current());
    let mut broken = bridge.plain("broken");
    // A file that never appears.
    broken["env"]["PLAIN_WAIT"] = json!(bridge.text("data/never"));
    let missing = json!({ "command": "/no/such/program" });
    bridge.servers(&json!({ "broken": broken, "missing": missing, "plain": bridge.plain("plain") }));
    for (language, code) in [
        ("python", "from servers.plain import echo\necho(text='works')"),
        ("typescript", "import { echo } from 'servers/plain';\nawait echo({ text: 'works' })"),
        ("bash", "echo \"\\\"$(tool plain echo --text works)\\\"\""),
        ("python", "'works'"),
    ] {
        assert_eq!(bridge.result(language, code), "works", "{code}");
        assert_eq!(bridge.starts("broken"), 0, "{code}");
    }
    // Listing the modules shows those that are available.
    let seen = bridge
        .result("python", "import os\nsorted(name for name in os.listdir('/coracle/servers') if '.' not in name)");
    assert_eq!(seen, json!(["plain"]));
    assert_eq!(bridge.starts("broken"), 1);
}

/// Using an unavailable server reports the reason.
#[test]
fn an_unavailable_server_reports_the_reason() {
    let bridge = Bridge::new(As::current());
    let mut dying = bridge.rogue("die-start");
    dying["env"]["CANARY"] = json!("hidden-7f3a");
    bridge.servers(
        &json!({ "missing": { "command": "/no/such/program" }, "dying": dying, "plain": bridge.plain("plain") }),
    );
    let cases = [
        ("python", "from servers.missing import x", "/no/such/program"),
        ("typescript", "import { x } from 'servers/missing';\nawait x({})", "/no/such/program"),
        ("bash", "tool missing x", "/no/such/program"),
        ("python", "from servers.dying import x", "cannot start: the key"),
        ("bash", "tool dying x", "cannot start: the key"),
    ];
    for (language, code, reason) in cases {
        let execution = bridge.run(language, code, &[]);
        assert_eq!(execution["success"], false);
        let told = execution.to_string();
        assert!(execution["hint"].as_str().is_some_and(|hint| hint.contains(reason)), "{code}: {execution:#}");
        assert!(!told.contains("hidden-7f3a"), "{told}");
    }
}
