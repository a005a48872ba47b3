//! Permanent decisions of users about tools, over the API.

use crate::site::{Answer, Client, Site};
use coracle_testing::harness::As;
use coracle_testing::wait::eventually;
use serde_json::{Value, json};

fn site() -> Site {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/bridge/fixtures/plain.py");
    let plain = json!({"command": "/usr/bin/python3", "args": ["-I", script]});
    let settings =
        format!("mcpServers: {}\npolicy: {}\n", json!({"plain": plain}), json!({"tools": {"plain.large": "deny"}}));
    Site::with_settings(As::current(), &["ann", "bob"], &settings)
}

fn decide(client: &Client, tool: &str, decision: &str) -> Answer {
    let body = json!({ "decision": decision }).to_string();
    client.ask("PUT", &format!("/api/decisions/plain/{tool}"), "application/json", body.as_bytes()).unwrap()
}

fn echo(client: &Client) -> Answer {
    client.post("/api/tools/plain/echo/call", &json!({"arguments": {"text": "hello"}}))
}

fn policy(client: &Client, tool: &str) -> Value {
    client.get(&format!("/api/tools/plain/{tool}")).json()["policy"].clone()
}

#[test]
fn users_restrict_tools_for_themselves() {
    let site = site();
    let (ann, bob) = (site.client_scoped("ann", "api,approve"), site.client("bob"));
    assert_eq!((echo(&ann).status, &policy(&ann, "echo")["decision"]), (200, &json!("allow")));

    let denied = decide(&ann, "echo", "deny");
    assert_eq!((denied.status, &denied.json()["decision"]), (200, &json!("deny")), "{}", denied.text());
    let refused = echo(&ann);
    assert_eq!((refused.status, &refused.json()["code"]), (403, &json!("denied_for_good")), "{}", refused.text());
    assert_eq!(policy(&ann, "echo")["remembered"]["decision"], "deny");
    assert_eq!(
        (echo(&bob).status, &policy(&bob, "echo")["remembered"]),
        (200, &Value::Null),
        "others are not affected"
    );
    // Code is refused as well.
    let code = "from coracle import ToolError\nfrom servers.plain import echo\ntry:\n    echo(text='x')\nexcept ToolError as \
                error:\n    result = str(error)";
    let ran = ann.post("/api/executions", &json!({ "code": code })).json();
    assert!(ran["result"].as_str().unwrap().contains("permanently refused"), "{ran}");

    assert_eq!(decide(&ann, "echo", "ask").status, 200);
    let call = {
        let ann = ann.clone();
        std::thread::spawn(move || echo(&ann))
    };
    let mut open = Value::Null;
    eventually("there is a question", || {
        open = ann.get("/api/approvals?state=open").json()["approvals"][0].clone();
        open.is_object()
    });
    assert!(open["reason"].as_str().unwrap().contains("wants to be asked"), "{open}");
    let answered = ann.post(&format!("/api/approvals/{}", open["id"].as_str().unwrap()), &json!({"decision": "once"}));
    assert_eq!((answered.status, call.join().unwrap().status), (200, 200));

    let taken_back = ann.ask("DELETE", "/api/decisions/plain/echo", "application/json", b"").unwrap();
    assert_eq!((taken_back.status, echo(&ann).status), (204, 200));
    assert_eq!(ann.get("/api/decisions").json(), json!({"decisions": []}));
}

#[test]
fn decisions_do_not_loosen_the_policy_and_need_a_person() {
    let site = site();
    let (ann, program) = (site.client_scoped("ann", "api,approve"), site.client_scoped("ann", "api"));
    for tool in ["echo", "large"] {
        let refused = decide(&ann, tool, "allow");
        assert_eq!((refused.status, &refused.json()["code"]), (409, &json!("not_asked")), "{tool}: {}", refused.text());
    }
    // The control: the policy asks about this tool.
    assert_eq!(decide(&ann, "wipe", "allow").status, 200);
    let wiped = ann.post("/api/tools/plain/wipe/call", &json!({"arguments": {"what": "x"}}));
    assert_eq!(wiped.status, 200, "{}", wiped.text());

    assert_eq!(decide(&ann, "echo", "deny").status, 200);
    for decision in ["ask", "allow", "deny"] {
        let refused = decide(&program, "echo", decision);
        assert_eq!(
            (refused.status, &refused.json()["code"]),
            (403, &json!("insufficient_scope")),
            "{}",
            refused.text()
        );
    }
    let kept = program.ask("DELETE", "/api/decisions/plain/echo", "application/json", b"").unwrap();
    assert_eq!((kept.status, echo(&program).status), (403, 403));
    for (path, status) in [("plain/nothing", 404), ("nobody/echo", 404)] {
        let body = json!({"decision": "deny"}).to_string();
        let answer = ann.ask("PUT", &format!("/api/decisions/{path}"), "application/json", body.as_bytes()).unwrap();
        assert_eq!(answer.status, status, "{path}: {}", answer.text());
    }
    assert_eq!(decide(&ann, "echo", "perhaps").status, 400);
}
