//! Where data came from decides where it may go: over executions, sessions, connections and restarts, for real servers.

use crate::frontend::driver::{Up, call, first, stdio, steps};
use crate::lab::Bridge;
use serde_json::{Value, json};
use std::fs;
use std::process::Output;

const MAIL: &str = "kim.quinn@example.org";

/// `crm` has private data, anyone can write what `web` returns, and `mail` reaches the world.
fn servers(bridge: &Bridge) -> Value {
    let labelled = |name: &str, labels: &Value| {
        let mut server = bridge.plain(name);
        server["labels"] = labels.clone();
        server
    };
    json!({
        "crm": labelled("crm", &json!(["private"])),
        "web": labelled("web", &json!(["untrusted"])),
        "mail": labelled("mail", &json!(["exfil"])),
        "files": labelled("files", &json!([])),
    })
}

/// A program with these servers. Privacy is off, so that only what is tested is in the way.
fn with_policy(policy: &Value) -> Bridge {
    let bridge = Bridge::new(first());
    settings(&bridge, policy, "off");
    bridge
}

fn settings(bridge: &Bridge, policy: &Value, mode: &str) {
    let mut servers = servers(bridge);
    for server in servers.as_object_mut().unwrap().values_mut() {
        server["privacy"] = json!(mode);
    }
    bridge.settings(&json!({ "mcpServers": servers, "policy": policy, "privacy": { "mode": mode } }));
}

/// Python that calls `echo` of these servers, and then sends a mail. Its result is `done`, or the code of the refusal.
fn reading(servers: &[&str], sends: bool) -> String {
    let mut code = "from coracle import ToolError\n".to_owned();
    for server in servers {
        code.extend(["from servers.", server, " import echo\necho(text='read')\n"]);
    }
    code += "result = 'read'\n";
    if sends {
        code += "from servers.mail import note\ntry:\n    result = note(text='sent')\n\
                 except ToolError as error:\n    result = error.code\n    print(error)\n";
    }
    code
}

/// What became of a mail in an execution on the command line.
fn sent(bridge: &Bridge, code: &str) -> Value {
    bridge.result("python", code)
}

fn coracle(bridge: &Bridge, arguments: &[&str]) -> Output {
    let output = bridge.coracle.command().args(arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    output
}

#[test]
fn private_and_untrusted_data_of_one_execution_do_not_leave_without_approval() {
    let bridge = with_policy(&json!({}));
    for (read, expected) in
        [(&["crm", "web"][..], "denied_unasked"), (&["crm"], "done"), (&["web"], "done"), (&["crm", "files"], "done")]
    {
        assert_eq!(sent(&bridge, &reading(read, true)), expected, "{read:?}");
    }
    // The order does not matter, only what was read before.
    let early = "from servers.crm import echo\nfrom servers.mail import note\necho(text='x')\nnote(text='y')\n\
                 from servers.web import echo\nresult = echo(text='z')";
    assert_eq!(sent(&bridge, early), "z");
    let told = bridge.run("python", &reading(&["crm", "web"], true), &[]);
    let told = told["stdout"].as_str().unwrap();
    assert!(told.contains("policy.trifecta") && told.contains("crm, web"), "{told}");
    assert!(told.contains(r#"policy: { flows: ["crm & web -> mail.note: allow"] }"#), "{told}");
    for (policy, expected) in [
        (json!({ "trifecta": "deny" }), "denied_by_flow"),
        (json!({ "trifecta": "off" }), "done"),
        (json!({ "flows": ["crm & web -> mail.note: allow"] }), "done"),
        (json!({ "flows": ["crm -> mail: deny"] }), "denied_by_flow"),
    ] {
        settings(&bridge, &policy, "off");
        assert_eq!(sent(&bridge, &reading(&["crm", "web"], true)), expected, "{policy}");
    }
    // What was refused was not sent, and the log knows why.
    let notes = bridge.lines("mail").len();
    let log = String::from_utf8(coracle(&bridge, &["audit", "export"]).stdout).unwrap();
    let records: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let decided = |record: &&Value, decision: &str| {
        record["kind"] == "call.decided" && record["tool"] == "note" && record["decision"] == decision
    };
    assert_eq!(records.iter().filter(|record| decided(record, "allow")).count(), notes);
    let denied: Vec<&Value> = records.iter().filter(|record| decided(record, "deny")).collect();
    let rule = |record: &Value| (record["rule"].as_str().unwrap().to_owned(), record["sources"].clone());
    assert_eq!(rule(denied[0]), ("policy.trifecta".to_owned(), json!(["crm", "web"])));
    assert_eq!(rule(denied[denied.len() - 1]), ("crm -> mail: deny".to_owned(), json!(["crm"])));
    let asked = records.iter().find(|record| record["kind"] == "approval.asked").unwrap();
    assert_eq!((&asked["rules"], &asked["sources"]), (&json!(["policy.trifecta"]), &json!(["crm", "web"])));
}

#[test]
fn files_of_a_workspace_carry_where_their_data_came_from() {
    let bridge = with_policy(&json!({}));
    let send = reading(&[], true);
    // Nothing is left behind.
    assert_eq!(sent(&bridge, &reading(&["crm", "web"], false)), "read");
    assert_eq!(sent(&bridge, &send), "done");
    // One brings private data, and another one what strangers write.
    sent(&bridge, &(reading(&["crm"], false) + "open('customers', 'w').write('x')"));
    assert_eq!(sent(&bridge, &send), "done");
    sent(&bridge, &(reading(&["web"], false) + "open('page', 'w').write('x')"));
    assert_eq!(sent(&bridge, &send), "denied_unasked");
    let listed = String::from_utf8(coracle(&bridge, &["policy", "sources"]).stdout).unwrap();
    let place = format!("workspace:{}", fs::canonicalize(bridge.coracle.workspace()).unwrap().display());
    assert_eq!(listed.lines().filter(|line| line.starts_with(&place)).count(), 2, "{listed}");
    // Another folder is another place.
    let other = bridge.path("data").join("elsewhere");
    fs::create_dir(&other).unwrap();
    bridge.coracle.own(&other);
    let elsewhere = |code: &str| {
        let mut command = bridge.coracle.command();
        command.args(["exec", "--json", "--workspace"]).arg(&other).args(["-c", code]);
        let output: Value = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
        output["result"].clone()
    };
    assert_eq!(elsewhere(&send), "done");
    // A person can decide that it does not matter any more.
    coracle(&bridge, &["policy", "forget-sources", &place]);
    assert_eq!(sent(&bridge, &send), "done");
    let missing = bridge.coracle.command().args(["policy", "forget-sources", &place]).output().unwrap();
    assert!(!missing.status.success());
}

#[test]
fn code_that_is_killed_counts_as_having_written() {
    let bridge = with_policy(&json!({}));
    let killed = reading(&["crm", "web"], false) + "import time\nwhile True: time.sleep(1)";
    let execution = bridge.run("python", &killed, &["--timeout", "3"]);
    assert_eq!(execution["error_code"], "timeout", "{execution:#}");
    assert_eq!(sent(&bridge, &reading(&[], true)), "done", "it has written nothing, and this process knows");
    let mut command = bridge.coracle.command();
    command.args(["exec", "--workspace"]).arg(bridge.coracle.workspace());
    let mut child = command.args(["-c", &killed]).spawn().unwrap();
    coracle_testing::wait::eventually("both servers were read", || {
        let calls = |name: &str| bridge.lines(&format!("{name}.log")).iter().filter(|line| *line == "echo").count();
        calls("crm") == 2 && calls("web") == 2
    });
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(sent(&bridge, &reading(&[], true)), "denied_unasked");
}

/// The results of code that one client runs, one after the other.
fn results(server: Value, codes: &[Value]) -> Vec<Value> {
    let answers = steps(server, "legacy", codes);
    let result = |answer: &Value| answer["value"]["structuredContent"]["result"].clone();
    answers.iter().map(result).collect()
}

fn code(session: Option<&str>, text: &str) -> Value {
    match session {
        Some(session) => call("execute_code", &json!({ "code": text, "session": session })),
        None => call("execute_code", &json!({ "code": text })),
    }
}

#[test]
fn a_session_remembers_its_sources_after_a_restart() {
    let bridge = with_policy(&json!({}));
    let (crm, web, send) = (reading(&["crm"], false), reading(&["web"], false), reading(&[], true));
    let in_session = |text: &str| code(Some("s"), text);
    let up = Up::start(&bridge.coracle, &["--profile", "code"]);
    // Separate clients: only the session and the workspace connect them.
    assert_eq!(results(up.server(), &[in_session(&crm)]), ["read"]);
    assert_eq!(results(up.server(), &[in_session(&send)]), ["done"]);
    assert_eq!(results(up.server(), &[in_session(&web)]), ["read"]);
    assert_eq!(results(up.server(), &[in_session(&send)]), ["denied_unasked"]);
    drop(up);
    // The files are settled apart, so that the session alone is left.
    coracle(&bridge, &["policy", "forget-sources", "workspace"]);
    let up = Up::start(&bridge.coracle, &["--profile", "code"]);
    assert_eq!(results(up.server(), &[code(Some("other"), &send)]), ["done"]);
    assert_eq!(results(up.server(), &[in_session(&send)]), ["denied_unasked"]);
}

#[test]
fn a_connection_without_a_session_is_one_conversation() {
    let bridge = with_policy(&json!({}));
    let codes = [&["crm"][..], &["web"]].map(|read| code(None, &reading(read, false)));
    let send = code(None, &reading(&[], true));
    let all = [&codes[..], std::slice::from_ref(&send)].concat();
    let server = || stdio(&bridge.coracle, &["--profile", "code"]);
    assert_eq!(results(server(), &all), ["read", "read", "denied_unasked"]);
    assert_eq!(results(server(), &[send.clone(), codes[0].clone(), send.clone()]), ["done", "read", "done"]);
    // Tools that clients call without code, too.
    let direct = |plan: &[(&str, &str)]| -> Vec<bool> {
        let plan: Vec<Value> =
            plan.iter().map(|(server, tool)| call(&format!("{server}_{tool}"), &json!({ "text": "x" }))).collect();
        let answers = steps(stdio(&bridge.coracle, &["--profile", "direct"]), "legacy", &plan);
        answers.iter().map(|answer| answer["value"]["isError"] == true).collect()
    };
    let before = bridge.lines("mail").len();
    assert_eq!(direct(&[("crm", "echo"), ("web", "echo"), ("mail", "note")]), [false, false, true]);
    assert_eq!(bridge.lines("mail").len(), before);
    assert_eq!(direct(&[("crm", "echo"), ("files", "echo"), ("mail", "note")]), [false; 3]);
    assert_eq!(bridge.lines("mail").len(), before + 1);
}

/// Reads an address and a number of a customer, and sends the value that is named.
fn sends(value: &str) -> String {
    format!(
        "from coracle import ToolError\nfrom servers.crm import echo\nfrom servers.mail import note\n\
         mail = echo(text='{}')\nssn = echo(text='536-90-' + '4399')\n\
         try:\n    result = note(text='about ' + {value})\nexcept ToolError as error:\n    result = error.code\n    \
         print(error)",
        MAIL.replace("kim.", "kim.' + '")
    )
}

#[test]
fn values_go_where_their_kind_may_go() {
    for mode in ["strict", "model"] {
        let bridge = Bridge::new(first());
        settings(&bridge, &json!({ "flows": ["crm -> mail: allow [EMAIL]"] }), mode);
        assert_eq!(sent(&bridge, &sends("mail")), "done", "{mode}");
        assert_eq!(bridge.lines("mail"), [format!("note about {MAIL}")], "{mode}: the tool gets the value itself");
        let told = bridge.run("python", &sends("ssn"), &[]);
        assert_eq!(told["result"], "denied_by_flow", "{mode}: {told:#}");
        let told = told["stdout"].as_str().unwrap();
        assert!(told.contains("US_SSN") && told.contains("crm -> mail: allow [EMAIL]"), "{mode}: {told}");
        // Encoded, it is the same value, wherever code has it.
        let encoded = "__import__('base64').b64encode(ssn.encode()).decode()";
        let expected = if mode == "model" { "denied_by_flow" } else { "done" };
        assert_eq!(sent(&bridge, &sends(encoded)), expected, "{mode}: in strict, code has the token only");
        // The same value is that of the source in code that has not read it, and another value is nobody's.
        let typed = |value: &str| {
            let send = format!("from servers.mail import note\ntry:\n    result = note(text='{value}')\n");
            format!("from coracle import ToolError\n{send}except ToolError as error:\n    result = error.code")
        };
        assert_eq!(sent(&bridge, &typed("536-90-4399")), "denied_by_flow", "{mode}");
        assert_eq!(sent(&bridge, &typed("536-90-4398")), "done", "{mode}");
    }
}

#[test]
fn guessed_labels_count_unless_they_are_switched_off_or_replaced() {
    let bridge = Bridge::new(first());
    let plain = |name: &str| {
        let mut server = bridge.plain(name);
        server["args"] = json!(["-I", bridge.text("plain.py"), name]);
        server
    };
    let servers = json!({ "crm": plain("crm"), "fetch": plain("fetch"), "smtp": plain("smtp") });
    let code = reading(&["crm", "fetch"], true).replace("servers.mail", "servers.smtp");
    bridge.settings(&json!({ "mcpServers": servers }));
    assert_eq!(sent(&bridge, &code), "denied_unasked");
    let listed: Value = serde_json::from_slice(&coracle(&bridge, &["servers", "list", "--json"]).stdout).unwrap();
    assert_eq!(listed[0]["labels"][0]["label"], "private", "{listed:#}");
    assert_eq!(listed[0]["labels"][0]["guessed_from"], "\"crm\" in its arguments", "{listed:#}");
    bridge.settings(&json!({ "mcpServers": servers, "policy": { "guess_labels": false } }));
    assert_eq!(sent(&bridge, &code), "done");
    let mut replaced = servers.clone();
    replaced["fetch"]["labels"] = json!([]);
    bridge.settings(&json!({ "mcpServers": replaced }));
    assert_eq!(sent(&bridge, &code), "done");
}

#[test]
fn a_mistake_in_a_rule_is_refused_with_its_line() {
    let bridge = Bridge::new(first());
    let text = "policy:\n  flows:\n    - \"crm -> mail: deny\"\n    - \"crm -> mail: alow\"\n\
                mcpServers: { crm: { command: \"true\" } }\n";
    let path = bridge.coracle.home().join("coracle.yaml");
    fs::write(&path, text).unwrap();
    bridge.coracle.own(&path);
    let output = bridge.exec("print(1)");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && output.stdout.is_empty(), "{told}");
    assert!(told.contains("coracle.yaml:4:") && told.contains("crm -> mail: alow"), "{told}");
    fs::write(&path, text.replace("alow", "allow")).unwrap();
    assert!(bridge.exec("print(1)").status.success());
}

#[test]
fn cases_of_a_file_are_compared_with_the_policy() {
    let bridge = with_policy(&json!({
        "tools": { "mail.wipe": "deny" },
        "flows": ["crm -> mail: allow [EMAIL]", "* -> web: deny"],
    }));
    let cases = "- { name: address, call: mail.note, read: [crm], arguments: { text: kim@example.org }, expect: allow }\n\
        - { name: number, call: mail.note, read: [crm], arguments: { text: 536-90-4399 }, expect: deny,\n\
            rule: \"crm -> mail: allow [EMAIL]\" }\n\
        - { name: own number, call: mail.note, arguments: { text: 536-90-4399 }, expect: allow }\n\
        - { name: said, call: mail.note, values: [{ kind: US_SSN, from: [crm] }], expect: deny }\n\
        - { name: trifecta, call: mail.note, read: [crm, web], expect: ask, rule: policy.trifecta }\n\
        - { name: relabelled, call: mail.note, read: [crm, web], labels: { web: [] }, expect: allow }\n\
        - { name: web, call: web.echo, read: [files], expect: deny, rule: \"* -> web: deny\" }\n\
        - { name: tool, call: mail.wipe, expect: deny, rule: mail.wipe }\n\
        - { name: destructive, call: files.wipe, destructive: true, expect: ask }\n\
        - { name: reads, call: files.echo, read_only: true, destructive: true, expect: allow }\n";
    bridge.write("cases.yaml", cases);
    let test = |file: &str| bridge.coracle.command().args(["policy", "test", &bridge.text(file)]).output().unwrap();
    let output = test("cases.yaml");
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && told.ends_with("10 cases, 0 failed\n"), "{told}");
    bridge.write(
        "wrong.yaml",
        &cases.replace(
            "{ name: web, call: web.echo, read: [files], expect: deny",
            "{ name: web, call: web.echo, read: [files], expect: allow",
        ),
    );
    let output = test("wrong.yaml");
    let told = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(
        told.contains("expected allow by \"* -> web: deny\", got deny: ") && told.ends_with("10 cases, 1 failed\n"),
        "{told}"
    );
    bridge.write("bad.yaml", "- { call: mail.note, expected: deny }\n");
    assert_eq!(test("bad.yaml").status.code(), Some(2));
}
