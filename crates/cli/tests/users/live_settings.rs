//! Servers and rules that admins change while the server runs.

use crate::playing::Playing;
use crate::site::{Answer, Client, Site};
use coracle_scripted_model::{Library, Step};
use coracle_testing::harness::As;
use coracle_testing::wait::eventually;
use serde_json::{Value, json};

/// A credential of a server.
const TOKEN: &str = "ghp_0123456789abcdefghijklmnopqrstuvwxyz";

/// The server `plain`, started by a command.
fn plain(name: &str) -> Value {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/bridge/fixtures/plain.py");
    json!({"name": name, "command": "/usr/bin/python3", "args": ["-I", script], "env": {"SECRET": TOKEN}})
}

/// A server with the users `ann` and, as an admin, `boss`.
fn site(settings: &str) -> (Site, Client, Client) {
    let site = Site::with_settings(As::current(), &["ann"], settings);
    site.run(&["users", "add", "boss", "--admin"]);
    let boss = site.client_scoped("boss", "mcp,api,admin,approve");
    let ann = site.client_scoped("ann", "mcp,api,approve");
    (site, ann, boss)
}

fn put(client: &Client, path: &str, body: &Value) -> Answer {
    client.ask("PUT", path, "application/json", body.to_string().as_bytes()).unwrap()
}

fn delete(client: &Client, path: &str) -> Answer {
    client.ask("DELETE", path, "application/json", b"").unwrap()
}

fn refused(answer: &Answer, status: u16, code: &str) {
    assert_eq!((answer.status, &answer.json()["code"]), (status, &json!(code)), "{}", answer.text());
}

/// Whether the code of a user can call a tool of the server `plain`.
fn calls(client: &Client) -> Value {
    let code = "from servers.plain import digest\nresult = digest(what='env')";
    client.post("/api/executions", &json!({ "code": code })).json()
}

fn file(site: &Site, name: &str) -> String {
    std::fs::read_to_string(site.coracle.home().join(name)).unwrap_or_default()
}

#[test]
fn admins_add_and_remove_servers_while_the_server_runs() {
    let (mut site, ann, boss) = site("# mine\nserver: { allow_command_servers: true }\n");
    let listed = |client: &Client| client.get("/api/servers").json();
    assert_eq!(listed(&ann), json!({"servers": [], "can_add": "nothing"}));
    assert_eq!(listed(&boss), json!({"servers": [], "can_add": "urls_and_commands"}));
    refused(&ann.post("/api/servers", &plain("plain")), 403, "admins_only");
    assert_eq!(calls(&ann)["success"], false);

    let added = boss.post("/api/servers", &plain("plain"));
    assert_eq!((added.status, &added.json()["can_remove"]), (201, &json!(true)), "{}", added.text());
    assert!(!added.text().contains(TOKEN), "{}", added.text());
    assert!(file(&site, "coracle.yaml").starts_with("# mine\n") && !file(&site, "coracle.yaml").contains(TOKEN));
    assert!(file(&site, ".env").contains(TOKEN));
    let before = calls(&ann);
    assert_eq!(before["success"], true, "{before}");
    refused(&boss.post("/api/servers", &plain("plain")), 409, "exists");

    // The change lasts.
    site.stop();
    site.start();
    let (ann, boss) = (site.client_scoped("ann", "mcp,api,approve"), site.client_scoped("boss", "mcp,api,admin"));
    assert_eq!(calls(&ann)["result"], before["result"]);
    refused(&delete(&ann, "/api/servers/plain"), 403, "admins_only");
    refused(&delete(&boss, "/api/servers/nothing"), 404, "not_found");
    assert_eq!(delete(&boss, "/api/servers/plain").status, 204);
    let after = calls(&ann);
    assert_eq!(after["success"], false, "{after}");
    assert_eq!(boss.get("/api/servers").json()["servers"], json!([]));
    assert!(!file(&site, ".env").contains(TOKEN) && !file(&site, "coracle.yaml").contains("plain.py"));

    // A later server with the name gets no decisions, even if the first one was removed by hand.
    assert_eq!(boss.post("/api/servers", &plain("plain")).status, 201);
    assert_eq!(put(&ann, "/api/decisions/plain/digest", &json!({"decision": "deny"})).status, 200);
    assert_eq!(calls(&ann)["success"], false);
    site.stop();
    std::fs::write(site.coracle.home().join("coracle.yaml"), "server: { allow_command_servers: true }\n").unwrap();
    site.start();
    let (ann, boss) = (site.client_scoped("ann", "mcp,api"), site.client_scoped("boss", "mcp,api,admin"));
    assert_eq!(boss.post("/api/servers", &plain("plain")).status, 201);
    let called = calls(&ann);
    assert_eq!(called["success"], true, "{called}");
}

#[test]
fn commands_and_variables_need_a_setting_where_there_are_users() {
    let (site, _, boss) = site("");
    assert_eq!(boss.get("/api/servers").json()["can_add"], "urls");
    refused(&boss.post("/api/servers", &plain("plain")), 403, "commands_not_allowed");
    let web = |headers: Value| json!({"name": "web", "url": "http://127.0.0.1:9/mcp", "headers": headers});
    refused(&boss.post("/api/servers", &web(json!({"X-Home": "${HOME}"}))), 403, "variables_not_allowed");
    for (body, status) in [
        (json!({"name": "web"}), 400),
        (json!({"name": "../web", "url": "http://127.0.0.1:9/"}), 400),
        (json!({"name": "web", "url": "not a url"}), 400),
        (json!({"name": "web", "url": "http://127.0.0.1:9/", "args": ["x"]}), 400),
        (json!({"name": "web", "url": "http://127.0.0.1:9/", "other": 1}), 400),
        (json!({"name": "web", "url": format!("http://127.0.0.1:9/{}", "x".repeat(10_000))}), 400),
    ] {
        let answer = boss.post("/api/servers", &body);
        assert_eq!(answer.status, status, "{body}: {}", answer.text());
    }
    assert_eq!(file(&site, "coracle.yaml"), "", "nothing was written");
    // The control: it is added, although nobody answers at that address.
    let added = boss.post("/api/servers", &web(json!({"Authorization": format!("Bearer {TOKEN}")})));
    assert_eq!(added.status, 201, "{}", added.text());
    assert!(!file(&site, "coracle.yaml").contains(TOKEN) && file(&site, ".env").contains(TOKEN));
    let test = boss.post("/api/servers/web/test", &json!({}));
    assert_eq!((test.status, &test.json()["ok"]), (200, &json!(false)), "{}", test.text());

    // A name never makes a variable of the operator the server's own, nor a setting: neither is sent, changed or removed.
    let variables = file(&site, ".env");
    std::fs::write(site.coracle.home().join(".env"), format!("{variables}OPENAI_API_KEY=of-the-operator\n")).unwrap();
    let named =
        |name: &str, header: &str| json!({"name": name, "url": "http://127.0.0.1:9/mcp", "headers": {header: TOKEN}});
    for body in [named("openai", "api-key"), named("coracle", "server-allow-command-servers")] {
        assert_eq!(boss.post("/api/servers", &body).status, 201, "{body}");
    }
    let settings = file(&site, "coracle.yaml");
    assert!(settings.contains("${MCP_SERVER_OPENAI_API_KEY}") && !settings.contains("${OPENAI_API_KEY}"), "{settings}");
    assert!(!file(&site, ".env").lines().any(|line| line.starts_with("CORACLE_")), "{}", file(&site, ".env"));
    assert_eq!(boss.get("/api/servers").json()["can_add"], "urls");
    for name in ["openai", "coracle", "web"] {
        assert_eq!(delete(&boss, &format!("/api/servers/{name}")).status, 204);
    }
    assert_eq!(file(&site, ".env").trim(), "OPENAI_API_KEY=of-the-operator");
}

#[test]
fn a_server_without_users_can_be_changed_only_by_whoever_started_it() {
    let model = Playing::new(Library::single([vec![Step::text("Hello.")]]));
    let site = Site::with_settings(As::current(), &[], &model.settings("chat"));
    let stranger = Client::new(site.address(), "");
    assert_eq!(stranger.get("/api/servers").json()["can_add"], "nothing");
    refused(&stranger.post("/api/servers", &plain("plain")), 401, "not_proven");
    let owner = site.local_client();
    assert_eq!(owner.get("/api/servers").json()["can_add"], "urls_and_commands");
    assert_eq!(owner.post("/api/servers", &plain("plain")).status, 201);
    assert_eq!(calls(&stranger)["success"], true);
    refused(&delete(&stranger, "/api/servers/plain"), 401, "not_proven");
    assert!(put(&stranger, "/api/policy/plain/wipe", &json!({"decision": "allow"})).status == 401);
    assert_eq!(delete(&owner, "/api/servers/plain").status, 204);
}

#[test]
fn admins_change_the_policy_of_a_tool_for_all_users() {
    let mut entry = plain("plain");
    entry.as_object_mut().unwrap().remove("name");
    let settings =
        format!("mcpServers: {}\npolicy:\n  tools:\n    \"plain.l*\": deny # large\n", json!({ "plain": entry }));
    let (site, ann, boss) = site(&settings);
    let program = site.client_scoped("boss", "api,admin");
    let set = |client: &Client, tool: &str, decision: &str| {
        put(client, &format!("/api/policy/plain/{tool}"), &json!({ "decision": decision }))
    };
    let wipe = |client: &Client| client.post("/api/tools/plain/wipe/call", &json!({"arguments": {"what": "x"}}));
    let policy = |client: &Client| client.get("/api/tools/plain/wipe").json()["policy"].clone();
    refused(&set(&ann, "wipe", "allow"), 403, "admins_only");
    refused(&set(&program, "wipe", "allow"), 403, "insufficient_scope");
    assert_eq!((&policy(&ann)["can_change"], &policy(&boss)["can_change"]), (&json!(false), &json!(true)));
    assert_eq!((&policy(&boss)["decision"], &policy(&boss)["rule"]), (&json!("ask"), &Value::Null));

    let allowed = set(&boss, "wipe", "allow");
    assert_eq!((allowed.status, &allowed.json()["rule"]), (200, &json!("allow")), "{}", allowed.text());
    assert_eq!(wipe(&ann).status, 200);
    assert!(file(&site, "coracle.yaml").contains("\"plain.l*\": deny # large"), "{}", file(&site, "coracle.yaml"));
    assert_eq!(set(&boss, "wipe", "deny").status, 200);
    assert_eq!(wipe(&ann).status, 403);
    assert_eq!(set(&boss, "large", "allow").json()["decision"], "allow", "a rule for one tool is more specific");
    assert_eq!(set(&boss, "nothing", "allow").status, 404);

    // A question that is open when the policy changes is answered by it.
    assert_eq!(set(&boss, "wipe", "ask").status, 200);
    for (decision, status) in [("deny", 403), ("allow", 200)] {
        let call = {
            let ann = ann.clone();
            std::thread::spawn(move || wipe(&ann).status)
        };
        eventually("there is a question", || ann.get("/api/approvals?state=open").json()["approvals"][0].is_object());
        assert_eq!(set(&boss, "wipe", decision).status, 200);
        assert_eq!(call.join().unwrap(), status, "{decision}");
        eventually("the question is gone", || ann.get("/api/approvals?state=open").json()["approvals"] == json!([]));
        assert_eq!(set(&boss, "wipe", "ask").status, 200);
    }

    let reset = delete(&boss, "/api/policy/plain/wipe");
    assert_eq!((reset.status, &reset.json()["rule"]), (200, &Value::Null), "{}", reset.text());
    assert!(!file(&site, "coracle.yaml").contains("wipe"));
    assert_eq!(delete(&boss, "/api/policy/plain/wipe").status, 200);
}
