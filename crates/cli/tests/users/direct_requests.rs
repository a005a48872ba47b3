//! Resources, prompts and completions of servers that clients request directly: rules decide about them, and they are in the
//! audit log.

use crate::site::Site;
use coracle_testing::harness::As;
use serde_json::{Value, json};

/// The decisions and ends of what is no call of a tool, in order.
fn decided(site: &Site) -> Vec<(String, String)> {
    let said = site.run(&["audit", "export"]);
    let records = said.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    let decided = records.filter(|record| record["kind"] == "call.decided");
    decided.map(|record| (word(&record["tool"]), word(&record["decision"]))).collect()
}

#[test]
fn rules_decide_about_resources_prompts_and_completions() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("resources.json"), json!([{ "note": "watering" }]).to_string()).unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/users/leaks/people.py");
    let people = json!({ "command": "/usr/bin/python3", "args": ["-I", script, folder.path()] });
    let requests = [
        ("resources/read", json!({ "uri": "people://0" })),
        ("prompts/get", json!({ "name": "letter" })),
        (
            "completion/complete",
            json!({
                "ref": { "type": "ref/prompt", "name": "letter" }, "argument": { "name": "to", "value": "a" },
            }),
        ),
    ];
    let with_rules =
        |rules: Value| json!({ "mcpServers": { "people": people.clone() }, "policy": { "tools": rules } }).to_string();
    let mut expected = Vec::new();
    for (settings, code) in [
        (with_rules(json!({})), None),
        (with_rules(json!({ "people.*": "deny" })), Some("denied_by_policy")),
        (with_rules(json!({ "people.*": "ask" })), Some("denied_unasked")),
    ] {
        expected.clear();
        let mut site = Site::with_settings(As::current(), &[], &settings);
        site.stop();
        site.start_as("direct");
        for (method, params) in &requests {
            let answer = site.client_with("of no user").mcp(method, params.clone()).unwrap();
            match code {
                None => assert!(answer["result"].to_string().contains("watering"), "{method}: {answer:#}"),
                Some(code) => {
                    assert!(answer["error"]["data"]["code"] == code, "{method}: {answer:#}");
                    assert!(!answer.to_string().contains("watering"), "{method}: {answer:#}");
                }
            }
            expected.push(((*method).to_owned(), if code.is_none() { "allow" } else { "deny" }.to_owned()));
        }
        site.stop();
        assert_eq!(decided(&site), expected, "{code:?}");
    }
    // A flow rule that asks, and nobody can be asked.
    let servers = json!({ "people": people.clone(), "archive": people });
    let settings = json!({ "mcpServers": servers, "policy": { "flows": ["people -> archive: ask"] } });
    let mut site = Site::with_settings(As::current(), &[], &settings.to_string());
    site.stop();
    site.start_as("direct");
    let client = site.client_with("of no user");
    let letter = |name: &str| client.mcp("prompts/get", json!({ "name": name })).unwrap();
    for (name, what) in [("archive_letter", "nothing was read before"), ("people_letter", "no rule is about it")] {
        let answer = letter(name);
        assert!(answer["result"].to_string().contains("watering"), "{what}: {answer:#}");
    }
    let refused = letter("archive_letter");
    assert_eq!(refused["error"]["data"]["code"], "denied_unasked", "{refused:#}");
}
