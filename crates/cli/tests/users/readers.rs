//! Who sees personal data in answers of `/api`: people do, and programs with keys that do not stand for a person see tokens.

use crate::site::{Client, Site};
use coracle_testing::harness::As;
use coracle_testing::wait::eventually;
use serde_json::{Value, json};

const MAIL: &str = "kim.quinn@example.org";

/// What a program and a person get for the same request.
fn assert_hidden(program: &str, person: &str, what: &str) {
    assert!(!program.contains(MAIL) && program.contains("[EMAIL_"), "{what}: {program}");
    assert!(person.contains(MAIL), "{what}, the control: {person}");
}

#[test]
fn programs_see_tokens_where_people_see_the_data() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("b0.json"), json!([{ "mail": MAIL }]).to_string()).unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/users/leaks/people.py");
    let people = json!({ "command": "/usr/bin/python3", "args": ["-I", script, folder.path()] });
    let settings = json!({ "mcpServers": { "people": people }, "privacy": { "mode": "model" } });
    let site = Site::with_settings(As::current(), &["ada"], &settings.to_string());
    let (program, person) = (site.client_scoped("ada", "mcp,api"), site.client_scoped("ada", "api,approve"));
    let both = |path: &str| {
        let (program, person) = (program.get(path), person.get(path));
        assert_eq!((program.status, person.status), (200, 200), "{path}: {}", program.text());
        assert_hidden(&program.text(), &person.text(), path);
    };

    // The answers of tools, which are recorded for replays, and the variables of requests.
    let code = "from servers.people import records\nlen(records(batch='b0')['records'])";
    let body = json!({ "code": code, "session": "s", "context_vars": { "mail": MAIL } });
    let ran = program.post("/api/executions", &body).json();
    assert_eq!(ran["result"], 1, "{ran:#}");
    both(&format!("/api/sessions/{}", ran["session_id"].as_str().unwrap()));

    // What people have run is recorded as it is.
    let body = json!({ "code": format!("print('{MAIL}')"), "session": "s" });
    let ran = person.post("/api/executions", &body).json();
    for path in ["/api/executions".to_owned(), format!("/api/executions/{}", ran["execution_id"].as_str().unwrap())] {
        both(&path);
    }
    both("/api/sessions/s/resume");

    // Skills.
    let code = format!("def mail():\n    \"\"\"Asks {MAIL}.\"\"\"\n    return '{MAIL}'");
    let skill = json!({ "code": code, "description": format!("asks {MAIL}") }).to_string();
    assert_eq!(person.ask("PUT", "/api/skills/asks", "application/json", skill.as_bytes()).unwrap().status, 200);
    both("/api/skills/asks");
    both("/api/skills");
    both("/skills/asks");
    assert_eq!(program.get("/api/skills/asks").json()["name"], "asks");

    // Calls of single tools.
    let call =
        |client: &Client| client.post("/api/tools/people/records/call", &json!({ "arguments": { "batch": "b0" } }));
    assert_hidden(&call(&program).text(), &call(&person).text(), "a call");

    // Questions, while they are open and afterwards.
    let token = token_in(&call(&program).text());
    let wipe = json!({ "code": format!("from servers.people import wipe\nwipe(value='{token}')") });
    let asking = program.clone();
    let asked = std::thread::spawn(move || asking.post("/api/executions?approvals=wait", &wipe));
    let open = || person.get("/api/approvals?state=open").json()["approvals"].as_array().unwrap().clone();
    eventually("the question is asked", || !open().is_empty());
    both("/api/approvals?state=open");
    let question = format!("/api/approvals/{}", open()[0]["id"].as_str().unwrap());
    both(&question);
    let refused = program.post(&question, &json!({ "decision": "once" }));
    assert_eq!(refused.status, 403, "{}", refused.text());
    assert_eq!(person.post(&question, &json!({ "decision": "once" })).status, 200);
    assert_eq!(asked.join().unwrap().json()["success"], true);
    both("/api/approvals?state=ended");
    both(&question);

    // Everything, with all values of the vault.
    let refused = program.get("/api/me/export");
    assert_eq!(refused.status, 403, "{}", refused.text());
    assert!(refused.text().contains("insufficient_scope"), "{}", refused.text());
    let export = person.get("/api/me/export");
    assert!(export.status == 200 && String::from_utf8_lossy(&export.body).contains(MAIL));
}

/// The first token in a text.
fn token_in(text: &str) -> String {
    let start = text.find("[EMAIL_").unwrap();
    let end = start + text[start..].find(']').unwrap();
    text[start..=end].to_owned()
}

#[test]
fn without_users_the_key_of_the_server_stands_for_a_program() {
    let settings = json!({ "privacy": { "mode": "model" } });
    let site = Site::with_settings(As::current(), &[], &settings.to_string());
    let program = site.client_with("of no user");
    let body = json!({ "code": "len(mail)", "session": "s", "context_vars": { "mail": MAIL } });
    assert_eq!(program.post("/api/executions", &body).json()["result"], MAIL.len());
    let log = program.get("/api/sessions/s").text();
    assert!(!log.contains(MAIL) && log.contains("[EMAIL_"), "{log}");
    let export = program.get("/api/me/export");
    assert_eq!(export.status, 403, "{}", export.text());
    // The control: the data is there, and the person at the terminal sees it.
    let shown: Value = serde_json::from_str(&site.run(&["sessions", "export", "s"])).unwrap();
    assert!(shown.to_string().contains(MAIL), "{shown:#}");
}
