//! Flow rules over the conversations of the agent.

use crate::playing::{Playing, local_key};
use crate::site::{Client, Site};
use coracle_scripted_model::{Library, Script, Step};
use coracle_testing::harness::As;
use serde_json::{Value, json};
use std::path::PathBuf;

/// Models that read from a server, or send a mail.
fn library() -> Library {
    let reads = |server: &str| format!("from servers.{server} import echo\nresult = echo(text='read')");
    let sends = "from coracle import ToolError\nfrom servers.mail import note\ntry:\n    result = note(text='sent')\n\
                 except ToolError as error:\n    result = error.code";
    let script = |code: &str| {
        Script::new([vec![Step::call("execute_code", json!({ "code": code }))], vec![Step::text("It is {{result}}.")]])
    };
    Library::single([vec![Step::text("Hello.")]])
        .with("crm", script(&reads("crm")))
        .with("web", script(&reads("web")))
        .with("files", script(&reads("files")))
        .with("mail", script(sends))
}

struct Lab {
    site: Site,
    client: Client,
    notes: PathBuf,
    _model: Playing,
    _folder: tempfile::TempDir,
}

impl Lab {
    fn new(trifecta: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let model = Playing::new(library());
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/bridge/fixtures/plain.py");
        let notes = folder.path().join("notes");
        let server = |labels: &[&str]| {
            let env = json!({ "PLAIN_NOTES": notes });
            json!({ "command": "/usr/bin/python3", "args": ["-I", script], "env": env, "labels": labels, "privacy": "off" })
        };
        let servers = json!({
            "crm": server(&["private"]), "web": server(&["untrusted"]), "mail": server(&["exfil"]), "files": server(&[]),
        });
        let policy = json!({ "trifecta": trifecta });
        let settings = format!("{}mcpServers: {servers}\npolicy: {policy}\n", model.settings("chat"));
        let site = Site::with_settings(As::current(), &[], &settings);
        let client = local_key(&site);
        Self { site, client, notes, _model: model, _folder: folder }
    }

    /// What the model answers with this script, in a conversation or after another answer.
    fn asked(&self, script: &str, more: Value) -> Value {
        let mut body = more;
        body["input"] = json!(format!("[script:{script}]"));
        let answer = self.client.post("/v1/responses", &body);
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    }

    fn after(&self, script: &str, previous: &Value) -> Value {
        self.asked(script, json!({ "previous_response_id": previous["id"] }))
    }

    fn sent(&self) -> usize {
        std::fs::read_to_string(&self.notes).unwrap_or_default().lines().count()
    }
}

fn says(response: &Value, text: &str) -> bool {
    response["output"].to_string().contains(text)
}

#[test]
fn a_conversation_carries_its_sources_from_answer_to_answer() {
    let mut lab = Lab::new("deny");
    let first = lab.asked("crm", json!({}));
    let second = lab.after("web", &first);
    assert!(says(&second, "It is read"), "{second:#}");
    assert!(says(&lab.after("mail", &second), "denied_by_flow"));
    // Other branches, and answers to nothing.
    assert!(says(&lab.after("mail", &first), "It is done"));
    assert!(says(&lab.after("mail", &lab.after("files", &first)), "It is done"));
    assert!(says(&lab.asked("mail", json!({})), "It is done"));
    assert_eq!(lab.sent(), 3);
    // A conversation, its fork, and the same after a restart.
    let made = lab.client.post("/v1/conversations", &json!({})).json();
    let id = made["id"].as_str().unwrap().to_owned();
    let within = |lab: &Lab, script: &str, id: &str| lab.asked(script, json!({ "conversation": id }));
    within(&lab, "web", &id);
    assert!(says(&within(&lab, "mail", &id), "It is done"));
    within(&lab, "crm", &id);
    assert!(says(&within(&lab, "mail", &id), "denied_by_flow"));
    lab.site.stop();
    lab.site.start();
    lab.client = local_key(&lab.site);
    assert!(says(&within(&lab, "mail", &id), "denied_by_flow"));
    let fork = lab.client.post(&format!("/api/conversations/{id}/fork"), &json!({})).json();
    let fork = fork["id"].as_str().or(fork["conversation_id"].as_str()).unwrap_or_else(|| panic!("{fork}")).to_owned();
    assert!(says(&within(&lab, "mail", &fork), "denied_by_flow"));
    assert_eq!(lab.sent(), 4);
    // What is remembered can be listed, and forgotten by a person.
    let listed = lab.client.get("/api/sources").json();
    let of_fork = format!("conversation:{fork}");
    let servers = |listed: &Value, place: &str| -> Vec<String> {
        let all = listed["sources"].as_array().unwrap().iter().filter(|source| source["place"] == place);
        all.map(|source| source["server"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(servers(&listed, &of_fork), ["crm", "mail", "web"], "{listed:#}");
    let forget = |place: &str| {
        let path = format!("/api/sources?place={}", place.replace(':', "%3A"));
        lab.client.ask("DELETE", &path, "application/json", b"").unwrap().status
    };
    let status = forget(&of_fork);
    assert!([200, 403].contains(&status), "{status}");
    if status == 200 {
        assert!(says(&within(&lab, "mail", &fork), "It is done"));
    }
}

#[test]
fn a_person_approves_a_flow_in_the_items_of_a_response() {
    let lab = Lab::new("ask");
    let second = lab.after("web", &lab.asked("crm", json!({})));
    let asked = lab.after("mail", &second);
    let question = asked["output"].as_array().unwrap().iter().find(|item| item["type"] == "mcp_approval_request");
    let question = question.unwrap_or_else(|| panic!("{asked:#}"));
    assert_eq!(lab.sent(), 0);
    let yes = json!({ "type": "mcp_approval_response", "approval_request_id": question["id"], "approve": true });
    let body = json!({ "input": [yes], "previous_response_id": asked["id"] });
    let done = lab.client.post("/v1/responses", &body);
    assert_eq!(done.status, 200, "{}", done.text());
    assert!(says(&done.json(), "It is done"), "{}", done.text());
    assert_eq!(lab.sent(), 1);
}
