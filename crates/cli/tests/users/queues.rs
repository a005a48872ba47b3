//! `/api/conversations/{id}/queue`, with a scripted model: messages are sent in order and once, without a client.

use crate::playing::{Playing, local_key};
use crate::site::{Answer, Client, Site};
use coracle_scripted_model::{Library, Script, Step};
use coracle_testing::harness::As;
use coracle_testing::wait::eventually;
use serde_json::{Value, json};

fn library() -> Library {
    Library { default: Some("echo".to_owned()), ..Library::default() }
        .with("echo", Script::new([vec![Step::text("{{user}}")]]))
        .with("waits", Script::new([vec![Step::text("I wait."), Step::gate("door"), Step::text(" Done.")]]))
        .with("never", Script::new([vec![Step::text("Slow."), Step::gate("never")]]))
        .with("fails", Script::new([vec![Step::status_times(400, 1)]]))
}

/// What a message begins with that the model repeats: a script is used until another one is named.
const ECHO: &str = "[script:echo] ";

fn scripted(text: &str) -> String {
    if text.starts_with("[script:") { text.to_owned() } else { format!("{ECHO}{text}") }
}

fn without_script(text: &str) -> String {
    text.strip_prefix(ECHO).unwrap_or(text).to_owned()
}

/// A conversation of a client.
struct Talk<'a> {
    client: &'a Client,
    id: String,
}

impl<'a> Talk<'a> {
    fn new(client: &'a Client) -> Self {
        let created = client.post("/api/conversations", &json!({}));
        assert_eq!(created.status, 201, "{}", created.text());
        Self { client, id: created.json()["id"].as_str().unwrap().to_owned() }
    }

    fn ask(&self, method: &str, more: &str, body: &Value) -> Answer {
        let path = format!("/api/conversations/{}/queue{more}", self.id);
        self.client.ask(method, &path, "application/json", body.to_string().as_bytes()).unwrap()
    }

    fn add(&self, text: &str) -> Value {
        let answer = self.ask("POST", "", &json!({ "text": scripted(text) }));
        assert_eq!(answer.status, 201, "{}", answer.text());
        answer.json()
    }

    fn queue(&self) -> Value {
        self.ask("GET", "", &json!({})).json()
    }

    fn texts(&self) -> Vec<String> {
        let queue = self.queue();
        queue["messages"].as_array().unwrap().iter().map(|one| without_script(one["text"].as_str().unwrap())).collect()
    }

    fn begin(&self, input: &str) {
        let body = json!({ "input": scripted(input), "conversation": self.id, "background": true });
        let answer = self.client.post("/v1/responses", &body);
        assert_eq!(answer.status, 200, "{}", answer.text());
    }

    /// The messages of the user, oldest first.
    fn said(&self) -> Vec<String> {
        let items = self.client.get(&format!("/api/conversations/{}/items?limit=100", self.id)).json();
        let items = items["items"].as_array().unwrap().clone();
        let own = items.iter().filter(|item| item["role"] == "user");
        own.map(|item| without_script(item["content"][0]["text"].as_str().unwrap())).collect()
    }

    fn states(&self) -> Vec<String> {
        let runs = self.client.get(&format!("/api/conversations/{}/runs", self.id)).json();
        runs["runs"].as_array().unwrap().iter().map(|run| run["state"].as_str().unwrap().to_owned()).collect()
    }

    fn wait_for_runs(&self, number: usize) {
        eventually("all runs have completed", || {
            let states = self.states();
            states.len() == number && states.iter().all(|state| state == "completed")
        });
    }
}

#[test]
fn queued_messages_are_sent_in_order_without_a_client() {
    let model = Playing::new(library());
    let site = Site::with_settings(As::current(), &[], &model.settings("chat"));
    let client = local_key(&site);
    let talk = Talk::new(&client);
    talk.begin("[script:waits]");
    model.runtime.block_on(model.model.gates().reached("door"));
    for text in ["one", "two", "three", "four"] {
        talk.add(text);
    }
    let queue = talk.queue();
    assert_eq!((queue["held"].as_bool(), queue["running"].is_string()), (Some(false), true), "{queue}");
    let ids: Vec<&str> = queue["messages"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
    let sorted = talk.ask("PATCH", "", &json!({ "order": [ids[2], ids[0]] }));
    assert_eq!(sorted.status, 200, "{}", sorted.text());
    assert_eq!(talk.texts(), ["three", "one", "two", "four"]);
    assert_eq!(talk.ask("PATCH", &format!("/{}", ids[1]), &json!({ "text": scripted("second") })).status, 200);
    assert_eq!(talk.ask("DELETE", &format!("/{}", ids[3]), &json!({})).status, 200);
    assert_eq!(talk.texts(), ["three", "one", "second"]);
    for (method, more, body, status) in [
        ("PATCH", "/q_none", json!({ "text": "x" }), 404),
        ("DELETE", "/q_none", json!({}), 404),
        ("PATCH", "", json!({ "order": ["q_none"] }), 404),
        ("PATCH", "", json!({}), 400),
        ("POST", "", json!({ "text": " " }), 400),
        ("POST", "", json!({ "text": "x", "files": [{ "id": "file-none" }] }), 404),
    ] {
        let answer = talk.ask(method, more, &body);
        assert_eq!(answer.status, status, "{method} {more} {body}: {}", answer.text());
    }
    model.model.gates().open("door");
    talk.wait_for_runs(4);
    assert_eq!(talk.said(), ["[script:waits]", "three", "one", "second"]);
    assert_eq!(talk.queue(), json!({ "messages": [], "held": false, "problem": null, "running": null }));
    // Without a run, a message is sent at once.
    assert_eq!(talk.add("five")["messages"], json!([]));
    talk.wait_for_runs(5);
}

#[test]
fn a_run_that_is_stopped_or_fails_holds_the_queue() {
    let model = Playing::new(library());
    let site = Site::with_settings(As::current(), &[], &model.settings("chat"));
    let client = local_key(&site);
    let talk = Talk::new(&client);
    talk.begin("[script:never]");
    model.runtime.block_on(model.model.gates().reached("never"));
    talk.add("later");
    let stopped = client.post(&format!("/api/conversations/{}/stop", talk.id), &json!({}));
    assert_eq!(stopped.status, 200, "{}", stopped.text());
    eventually("the queue is held", || talk.queue()["held"] == true);
    assert_eq!(talk.texts(), ["later"]);
    // Another run does not change that.
    talk.begin("between");
    eventually("the other run ends", || talk.states()[0] == "completed");
    assert_eq!((talk.texts(), talk.queue()["held"].clone()), (vec!["later".to_owned()], json!(true)));
    let resumed = talk.ask("PATCH", "", &json!({ "held": false }));
    assert_eq!(resumed.status, 200, "{}", resumed.text());
    eventually("the message is sent", || talk.said().last().is_some_and(|text| text == "later"));
    eventually("its run completes", || talk.states()[0] == "completed");

    let other = Talk::new(&client);
    other.begin("[script:waits]");
    model.runtime.block_on(model.model.gates().reached("door"));
    other.add("[script:fails]");
    other.add("after the failure");
    model.model.gates().open("door");
    eventually("the queue is held", || other.queue()["held"] == true);
    assert_eq!((other.texts(), other.states()[0].as_str()), (vec!["after the failure".to_owned()], "failed"));
}

#[test]
fn a_queue_survives_its_server() {
    let model = Playing::new(library());
    let mut site = Site::with_settings(As::current(), &[], &model.settings("chat"));
    let client = local_key(&site);
    let talk = Talk::new(&client);
    talk.begin("[script:waits]");
    model.runtime.block_on(model.model.gates().reached("door"));
    for text in ["one", "two"] {
        talk.add(text);
    }
    let id = talk.id;
    site.kill();
    model.model.gates().open("door");
    site.start();
    let client = local_key(&site);
    let talk = Talk { client: &client, id };
    talk.wait_for_runs(3);
    assert_eq!(talk.said(), ["[script:waits]", "one", "two"], "each message is sent once");
    assert_eq!(talk.texts(), [""; 0]);
}
