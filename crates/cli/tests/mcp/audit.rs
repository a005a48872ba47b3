//! The audit log of real programs: no call without a decision in it, no data of the calls in it, and no call at all if it
//! cannot be written.

use crate::frontend::driver::{Up, call, stdio, steps};
use crate::lab::Bridge;
use coracle_testing::harness::As;
use coracle_testing::wait::eventually;
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Output, Stdio};

/// All records, as `coracle audit export` prints them.
fn records(bridge: &Bridge) -> Vec<Value> {
    let output = bridge.coracle.command().args(["audit", "export"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn of_kind<'a>(records: &'a [Value], kind: &str) -> Vec<&'a Value> {
    records.iter().filter(|record| record["kind"] == kind).collect()
}

fn allowed(records: &[Value]) -> usize {
    of_kind(records, "call.decided").iter().filter(|record| record["decision"] == "allow").count()
}

/// Number of calls that the server has received.
fn received(bridge: &Bridge) -> usize {
    bridge.lines("plain.log").iter().filter(|line| !line.starts_with("start ")).count()
}

fn verify(bridge: &Bridge) -> Output {
    bridge.coracle.command().args(["audit", "verify"]).output().unwrap()
}

const CALLS: &str = "from coracle import ToolError
from servers.plain import note, wipe, echo
import asyncio
def attempt(tool, **arguments):
    try:
        return tool(**arguments)
    except ToolError as error:
        return error.code
async def at_once():
    return await asyncio.gather(*(echo.aio(text=str(n)) for n in range(20)))
attempt(note, text='y'), attempt(wipe, what='x'), len(asyncio.run(at_once()))";

#[test]
fn a_server_receives_exactly_the_calls_that_are_allowed_in_the_log() {
    let bridge = Bridge::new(As::current());
    bridge.servers(&json!({ "plain": bridge.plain("plain") }));
    // At the command line.
    let result = bridge.result("python", CALLS);
    assert_eq!(result, json!(["done", "denied_unasked", 20]));
    let log = records(&bridge);
    assert_eq!((received(&bridge), allowed(&log)), (21, 21));
    let denied: Vec<_> =
        of_kind(&log, "call.decided").into_iter().filter(|record| record["decision"] == "deny").collect();
    assert_eq!((denied.len(), &denied[0]["tool"], &denied[0]["reason"]), (1, &json!("wipe"), &json!("denied_unasked")));
    let answered = of_kind(&log, "approval.answered");
    assert_eq!((answered.len(), &answered[0]["answer"]), (1, &json!("nobody")));
    assert_eq!(of_kind(&log, "call.ended").len(), 21);
    // Over MCP, for clients that write code, and for those that call tools.
    let mut expected = 21;
    for mode in ["legacy", "2026-07-28"] {
        let plan = [call("execute_code", &json!({ "code": CALLS }))];
        let outcomes = steps(stdio(&bridge.coracle, &["--profile", "code"]), mode, &plan);
        assert_eq!(outcomes[0]["value"]["structuredContent"]["success"], true, "{:#}", outcomes[0]);
        expected += 21;
        assert_eq!((received(&bridge), allowed(&records(&bridge))), (expected, expected), "{mode}");
    }
    let up = Up::start(&bridge.coracle, &["--profile", "direct"]);
    for server in [up.server(), stdio(&bridge.coracle, &["--profile", "direct"])] {
        let plan: Vec<Value> = (0..5).map(|number| call("note", &json!({ "text": number.to_string() }))).collect();
        steps(server, "2026-07-28", &plan);
        expected += 5;
        assert_eq!((received(&bridge), allowed(&records(&bridge))), (expected, expected));
    }
    drop(up);
    let log = records(&bridge);
    for program in ["mcp", "up"] {
        let loaded = of_kind(&log, "settings.loaded");
        assert!(loaded.iter().any(|record| record["program"] == program), "{program}");
    }
    let verified = verify(&bridge);
    assert!(verified.status.success(), "{verified:?}");
    assert!(String::from_utf8_lossy(&verified.stdout).starts_with(&format!("{} records are intact", log.len())));
}

#[test]
fn a_rule_that_denies_is_in_the_log_and_nothing_is_called() {
    let bridge = Bridge::new(As::current());
    let policy = json!({ "tools": { "plain.note": "deny" } });
    bridge.settings(&json!({ "mcpServers": { "plain": bridge.plain("plain") }, "policy": policy }));
    let code = CALLS.replace("attempt(wipe, what='x')", "0");
    assert_eq!(bridge.result("python", &code), json!(["denied_by_policy", 0, 20]));
    // A second time, when the definition of the tool is known before the call.
    bridge.result("python", &code);
    let log = records(&bridge);
    assert_eq!((received(&bridge), allowed(&log)), (40, 40));
    let denied = of_kind(&log, "call.decided").into_iter().filter(|record| record["decision"] == "deny").count();
    assert_eq!(denied, 2);
}

#[test]
fn nothing_that_calls_contain_is_in_the_log() {
    let bridge = Bridge::new(As::current());
    bridge.servers(&json!({ "plain": bridge.plain("plain") }));
    let code = "from coracle import ToolError
from servers.plain import note, fail, echo
import servers
print('canary-output')
# canary-code ann@canary.example
note(text='canary-argument ann@canary.example 4111111111111111')
for attempt in (lambda: fail(message='canary-failure'), lambda: echo(text=['canary-invalid']),
                lambda: servers.plain.call('canary-tool@canary.example', text='x')):
    try:
        attempt()
    except Exception as error:
        print(type(error))
echo(text='canary-result')";
    let execution = bridge.run("python", code, &[]);
    assert_eq!(execution["success"], true, "{execution:#}");
    let users = bridge.coracle.command().args(["users", "add", "ann", "--display-name", "Ann canary-name"]).output();
    assert!(users.unwrap().status.success());
    let key = bridge.coracle.command().args(["users", "keys", "add", "ann", "--name", "canary-key"]).output().unwrap();
    let secret = String::from_utf8(key.stdout).unwrap().trim().to_owned();
    let log = records(&bridge);
    let all = fs::read_dir(bridge.coracle.home().join("audit")).unwrap();
    let raw: String =
        all.map(|file| String::from_utf8_lossy(&fs::read(file.unwrap().path()).unwrap()).into_owned()).collect();
    assert!(!raw.contains("canary") && !raw.contains("41111111") && !raw.contains("plain.py"), "{raw}");
    assert!(secret.starts_with("crk_") && !raw.contains(&secret[4..]));
    // Positive control: the same events are there.
    let tools: Vec<_> = of_kind(&log, "call.decided").iter().map(|record| record["tool"].clone()).collect();
    assert_eq!(tools, ["note", "fail", "echo"]);
    assert!(of_kind(&log, "call.decided").iter().all(|record| record["arguments"].as_str().unwrap().len() == 32));
    let ended: Vec<_> = of_kind(&log, "call.ended").iter().map(|record| record["code"].clone()).collect();
    assert_eq!(ended, [Value::Null, json!("tool_error"), Value::Null]);
    assert_eq!(of_kind(&log, "call.refused").len(), 1, "{log:#?}");
    let began = of_kind(&log, "execution.began");
    assert_eq!((began.len(), &began[0]["code_bytes"]), (1, &json!(code.len())));
    assert_eq!(of_kind(&log, "account.changed").len(), 2);
    assert_eq!(of_kind(&log, "key.changed").len(), 1);
    // Digests depend on the key of the data folder, so nobody can try out values.
    let other = Bridge::new(As::current());
    other.servers(&json!({ "plain": other.plain("plain") }));
    other.run("python", code, &[]);
    let elsewhere = records(&other);
    assert_ne!(of_kind(&elsewhere, "call.decided")[0]["arguments"], of_kind(&log, "call.decided")[0]["arguments"]);
}

#[test]
fn refused_code_and_replays_are_in_the_log_and_obey_the_rules() {
    let bridge = Bridge::new(As::current());
    let servers = json!({ "plain": bridge.plain("plain") });
    bridge.servers(&servers);
    let session = ["--session", "s"];
    let noted = bridge.run("python", "from servers.plain import note\nnote(text='y')", &session);
    assert_eq!(noted["result"], "done", "{noted:#}");
    assert_eq!(bridge.run("python", "import os\nos.system('true')", &session)["success"], true);
    let replay = || -> Value {
        let output = bridge.coracle.command().args(["sessions", "replay", "s", "--json"]).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
    };
    // The control: both tasks are run again, and nothing is called.
    let replayed = replay();
    let tasks = replayed["tasks"].as_array().unwrap();
    assert!(tasks.iter().all(|task| task["skipped"].is_null() && task["differences"] == json!([])), "{replayed:#}");
    let log = records(&bridge);
    let began = of_kind(&log, "execution.began");
    assert_eq!(began.iter().filter(|record| record["replay"] == true).count(), 2, "{began:#?}");
    assert_eq!((began.len(), of_kind(&log, "execution.ended").len(), received(&bridge)), (4, 4, 1));
    assert!(of_kind(&log, "execution.denied").is_empty());
    // A rule denies the call by now.
    bridge.settings(&json!({ "mcpServers": servers, "policy": { "tools": { "plain.note": "deny" } } }));
    let replayed = replay();
    assert_ne!(replayed["tasks"][0]["differences"], json!([]), "{replayed:#}");
    let log = records(&bridge);
    let denied = of_kind(&log, "call.decided").into_iter().filter(|record| record["decision"] == "deny").count();
    assert_eq!((denied, received(&bridge)), (1, 1));
    // The guardrails do not allow the code by now.
    bridge.settings(&json!({ "mcpServers": servers, "guardrails": { "strict_mode": true } }));
    let replayed = replay();
    assert!(replayed["tasks"][0]["skipped"].is_null(), "{replayed:#}");
    assert!(replayed["tasks"][1]["skipped"].as_str().unwrap().contains("os.system"), "{replayed:#}");
    assert_eq!(bridge.run("python", "import os\nos.system('true')", &[])["error_code"], "denied");
    let log = records(&bridge);
    let denied = of_kind(&log, "execution.denied");
    let reasons: Vec<&Value> = denied.iter().map(|record| &record["reason"]).collect();
    assert_eq!(reasons, ["denied", "denied"], "{log:#?}");
}

#[test]
fn a_changed_log_is_found_and_stops_calls_until_it_is_set_aside() {
    let bridge = Bridge::new(As::current());
    bridge.servers(&json!({ "plain": bridge.plain("plain") }));
    bridge.result("python", CALLS);
    let head = bridge.coracle.command().args(["audit", "head"]).output().unwrap();
    let head = String::from_utf8(head.stdout).unwrap().trim().to_owned();
    let folder = bridge.coracle.home().join("audit");
    let path = folder.join("log-00000000000000000001.jsonl");
    let whole = fs::read(&path).unwrap();
    let text = String::from_utf8(whole.clone()).unwrap();
    fs::write(&path, text.replacen("\"tool\":\"wipe\"", "\"tool\":\"note\"", 1)).unwrap();
    let found = verify(&bridge);
    assert_eq!(found.status.code(), Some(1), "{found:?}");
    assert!(String::from_utf8_lossy(&found.stderr).contains("error: record "), "{found:?}");
    // Without the last records.
    let cut = text.trim_end().rfind('\n').unwrap();
    fs::write(&path, &text[..=cut]).unwrap();
    assert_eq!(verify(&bridge).status.code(), Some(1));
    let refused = bridge.run("python", "from servers.plain import note\nnote(text='x')", &[]);
    assert_eq!(refused["success"], false, "{refused:#}");
    let error = refused["error"].as_str().unwrap();
    assert!(error.contains("audit") && error.contains(folder.to_str().unwrap()), "{error}");
    assert!(refused["warnings"].to_string().contains("tools cannot be called"), "{refused:#}");
    assert_eq!(received(&bridge), 21);
    // As it was.
    fs::write(&path, &whole).unwrap();
    assert!(verify(&bridge).status.success());
    let expected = bridge.coracle.command().args(["audit", "verify", "--expect", &head]).output().unwrap();
    assert!(expected.status.success(), "{expected:?}");
    // Without the whole folder.
    fs::remove_dir_all(&folder).unwrap();
    assert_eq!(verify(&bridge).status.code(), Some(1));
    let refused = bridge.run("python", "from servers.plain import note\nnote(text='x')", &[]);
    assert!(refused["error"].as_str().unwrap().contains("missing"), "{refused:#}");
    let restarted = bridge.coracle.command().args(["audit", "restart"]).output().unwrap();
    assert!(restarted.status.success(), "{restarted:?}");
    assert_eq!(bridge.result("python", CALLS), json!(["done", "denied_unasked", 20]));
    assert!(verify(&bridge).status.success());
    let expected = bridge.coracle.command().args(["audit", "verify", "--expect", &head]).output().unwrap();
    assert_eq!(expected.status.code(), Some(1), "the mark is from the log that is gone: {expected:?}");
}

/// Gives this thread and its children their own mounts. Returns `false`, with a message, if that is not permitted.
fn mounts_of_its_own() -> bool {
    use rustix::mount::{MountPropagationFlags, mount_change};
    if !rustix::process::geteuid().is_root() {
        coracle_testing::skip::skip("a small disk: only root can mount one");
        return false;
    }
    #[expect(deprecated, reason = "only mounts are unshared, not descriptors")]
    rustix::thread::unshare(rustix::thread::UnshareFlags::NEWNS).unwrap();
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).unwrap();
    true
}

/// Moves the log to a file system of this size.
fn small_disk(folder: &Path, size: &std::ffi::CStr) {
    let files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    let files: Vec<_> = files.into_iter().map(|path| (path.clone(), fs::read(&path).unwrap())).collect();
    rustix::mount::mount("tmpfs", folder, "tmpfs", rustix::mount::MountFlags::empty(), size).unwrap();
    for (path, content) in files {
        fs::write(path, content).unwrap();
    }
}

const LONG: &str = "from coracle import ToolError
from servers.plain import note
import os, time
def phase(name, count):
    codes = []
    for number in range(count):
        try:
            note(text=f'{name} {number}')
            codes.append('ok')
        except ToolError as error:
            codes.append(f'{error.code}: {error.message}')
    open(f'{name}.done', 'w').close()
    return codes
def until(name):
    while not os.path.exists(name):
        time.sleep(0.01)
first = phase('first', 3)
until('full')
second = phase('second', 30)
until('free')
[first, second, phase('third', 3)]";

#[test]
fn nothing_is_called_while_the_disk_is_full() {
    if !mounts_of_its_own() {
        return;
    }
    let bridge = Bridge::new(As::Root);
    bridge.servers(&json!({ "plain": bridge.plain("plain") }));
    bridge.result("python", CALLS);
    let folder = bridge.coracle.home().join("audit");
    small_disk(&folder, c"size=131072");
    let before = received(&bridge);
    let child = bridge
        .coracle
        .command()
        .args(["exec", "--json", "--timeout", "300", "-c", LONG, "--workspace"])
        .arg(bridge.coracle.workspace())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let workspace = bridge.coracle.workspace();
    eventually("the first calls are made", || workspace.join("first.done").exists());
    let mut ballast = fs::File::create(folder.join("ballast")).unwrap();
    while ballast.write_all(&[0; 4096]).is_ok() {}
    drop(ballast);
    fs::write(workspace.join("full"), "").unwrap();
    eventually("the calls on the full disk are made", || workspace.join("second.done").exists());
    let on_full_disk = bridge.lines("plain").iter().filter(|line| line.contains("second")).count();
    fs::remove_file(folder.join("ballast")).unwrap();
    fs::write(workspace.join("free"), "").unwrap();
    let output = child.wait_with_output().unwrap();
    let execution: Value = serde_json::from_slice(&output.stdout).unwrap();
    let result = &execution["result"];
    assert_eq!((&result[0], &result[2]), (&json!(["ok", "ok", "ok"]), &json!(["ok", "ok", "ok"])), "{execution:#}");
    // The last block of the file had room for some records.
    let second: Vec<&str> = result[1].as_array().unwrap().iter().map(|code| code.as_str().unwrap()).collect();
    let refused: Vec<_> = second.iter().filter(|code| **code != "ok").collect();
    assert!(refused.len() > 10 && refused.len() + on_full_disk == second.len(), "{second:#?}");
    for code in refused {
        assert!(code.starts_with("audit_unavailable: the call was not made"), "{code}");
        assert!(code.contains(folder.to_str().unwrap()) && code.contains("make room on the disk"), "{code}");
    }
    let log = records(&bridge);
    assert_eq!(received(&bridge) - before, 6 + on_full_disk);
    assert_eq!(received(&bridge), allowed(&log));
    let verified = verify(&bridge);
    assert!(verified.status.success(), "{verified:?}");
    // What happened meanwhile is recorded, too.
    let of_calls = of_kind(&log, "call.ended").len() + of_kind(&log, "call.refused").len();
    assert_eq!(of_calls, 21 + 36, "{log:#?}");
    bridge.assert_no_servers();
}

#[test]
fn nothing_is_recorded_if_the_settings_say_so() {
    let bridge = Bridge::new(As::current());
    let audit = json!({ "enabled": false });
    bridge.settings(&json!({ "mcpServers": { "plain": bridge.plain("plain") }, "audit": audit }));
    bridge.result("python", CALLS);
    assert_eq!(received(&bridge), 21);
    assert!(!bridge.coracle.home().join("audit").exists());
    // Control.
    bridge.servers(&json!({ "plain": bridge.plain("plain") }));
    bridge.result("python", CALLS);
    assert!(bridge.coracle.home().join("audit").exists());
}

#[test]
fn every_execution_has_a_decision_in_the_log_and_a_denied_one_does_not_run() {
    let bridge = Bridge::new(As::current());
    let rule = json!({ "name": "no-bash", "on": "execution", "require": "code.language != 'bash'" });
    bridge.settings(&json!({ "mcpServers": { "plain": bridge.plain("plain") }, "policy": { "rules": [rule] } }));
    let denied = bridge.run("bash", "coracle call plain echo --text ran", &[]);
    assert_eq!((&denied["success"], &denied["error_code"]), (&json!(false), &json!("denied")), "{denied:#}");
    assert!(denied["error"].as_str().unwrap().contains("condition \"no-bash\""), "{denied:#}");
    assert_eq!(received(&bridge), 0);
    // Positive control: other code runs, and its calls are made.
    assert_eq!(bridge.result("python", "from servers.plain import echo\necho(text='ran')"), json!("ran"));
    assert_eq!(received(&bridge), 1);
    let log = records(&bridge);
    let began = of_kind(&log, "execution.began");
    assert_eq!((began.len(), &began[0]["decision"], &began[0]["language"]), (1, &json!("allow"), &json!("python")));
    let refused = of_kind(&log, "execution.denied");
    let of = (refused.len(), &refused[0]["decision"], &refused[0]["reason"], &refused[0]["rule"]);
    assert_eq!(of, (1, &json!("deny"), &json!("condition"), &json!("no-bash")));
}

#[test]
fn a_running_server_takes_a_changed_policy_up_whole_or_not_at_all() {
    let bridge = Bridge::new(As::current());
    let servers = json!({ "plain": bridge.plain("plain") });
    let policy = |rules: &Value| json!({ "mcpServers": servers, "policy": { "rules": rules } });
    let rule = |require: &str| json!({ "name": "no-notes", "tools": "plain.note", "require": require });
    bridge.settings(&policy(&json!([])));
    let up = Up::start(&bridge.coracle, &["--profile", "direct"]);
    let is_allowed = || {
        let outcomes = steps(up.server(), "2026-07-28", &[call("note", &json!({ "text": "x" }))]);
        !outcomes[0].to_string().contains("no-notes")
    };
    let changes = || of_kind(&records(&bridge), "policy.changed").len();
    assert!(is_allowed());
    bridge.settings(&policy(&json!([rule("false")])));
    eventually("the changed policy is in force", || changes() == 1 && !is_allowed());
    // The first rule would allow the call, but there is an error in the second.
    bridge.settings(&policy(&json!([rule("true"), { "name": "wrong", "require": "args." }])));
    eventually("the error is reported", || up.said().contains("the expression cannot be parsed"));
    assert_eq!(up.said().matches("the policy stays as it was").count(), 1, "{}", up.said());
    assert!(changes() == 1 && !is_allowed());
    bridge.settings(&policy(&json!([rule("true")])));
    eventually("the repaired policy is in force", || changes() == 2 && is_allowed());
}
