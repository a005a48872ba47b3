//! `/api/conversations`, with a scripted model: lists, search, forks, exports, steering and stops, for their owner only.

use crate::playing::{Playing, local_key};
use crate::site::{Answer, Client, Site};
use crate::uploads::uploaded;
use coracle_scripted_model::{Library, Script, Step};
use coracle_testing::harness::As;
use serde_json::{Value, json};

const CODE: &str = "print('```')\nresult = 6 * 7";

fn library() -> Library {
    let code = Step::call("execute_code", json!({ "code": CODE }));
    Library::single([vec![Step::text("I compute it."), code], vec![Step::text("It is {{result}}.")]])
        .with("waits", Script::new([vec![Step::text("I wait."), Step::gate("door")], vec![Step::text("Noted.")]]))
        .with("never", Script::new([vec![Step::text("Slow."), Step::gate("never")]]))
}

fn ask(client: &Client, method: &str, path: &str, body: &Value) -> Answer {
    client.ask(method, path, "application/json", body.to_string().as_bytes()).unwrap()
}

fn created(client: &Client, body: &Value) -> String {
    let answer = client.post("/api/conversations", body);
    assert_eq!(answer.status, 201, "{}", answer.text());
    answer.json()["id"].as_str().unwrap().to_owned()
}

fn respond(client: &Client, conversation: &str, input: &str) -> Value {
    let answer = client.post("/v1/responses", &json!({"input": input, "conversation": conversation}));
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

fn ids(list: &Value) -> Vec<&str> {
    list["conversations"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect()
}

fn items(client: &Client, id: &str) -> Vec<Value> {
    client.get(&format!("/api/conversations/{id}/items")).json()["items"].as_array().unwrap().clone()
}

#[test]
fn conversations_are_listed_found_renamed_and_deleted() {
    let model = Playing::new(library());
    let site = Site::with_settings(As::current(), &[], &model.settings("chat"));
    let client = local_key(&site);
    let titled = created(&client, &json!({"title": "Plans for Rome"}));
    let second = created(&client, &json!({}));
    let asked = respond(&client, &second, "What is 6 times 7?\nQuickly.");
    let all = client.get("/api/conversations").json();
    assert_eq!(ids(&all), [second.as_str(), &titled], "{all}");
    let first = &all["conversations"][0];
    assert_eq!(first["preview"], "What is 6 times 7? Quickly.", "{first}");
    assert!(first["title"].is_null() && first["running"].is_null(), "{first}");
    assert!(humantime::parse_rfc3339(first["changed_at"].as_str().unwrap()).is_ok(), "{first}");
    let page = client.get("/api/conversations?limit=1").json();
    assert_eq!(ids(&page), [second.as_str()]);
    assert_eq!(ids(&client.get(&format!("/api/conversations?before={second}")).json()), [titled.as_str()]);
    for (query, expected) in [("rome", &titled), ("6+TIMES", &second), ("is+42", &second)] {
        assert_eq!(
            ids(&client.get(&format!("/api/conversations?query={query}")).json()),
            [expected.as_str()],
            "{query}"
        );
    }
    assert_eq!(ids(&client.get("/api/conversations?query=arguments").json()), [""; 0]);
    assert_eq!(client.get("/api/conversations?query=").status, 400);
    assert_eq!(client.get("/api/conversations?limit=0").status, 400);

    let path = format!("/api/conversations/{second}");
    let runs = client.get(&format!("{path}/runs")).json();
    let run = &runs["runs"][0];
    assert_eq!(
        (&run["id"], &run["state"], &run["ended"]),
        (&asked["id"], &json!("completed"), &json!("done")),
        "{runs}"
    );
    assert!(run["input_tokens"].as_u64() > Some(0) && run["ended_at"].is_string(), "{runs}");
    let said = items(&client, &second);
    let kinds: Vec<&str> = said.iter().map(|item| item["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["message", "message", "code_interpreter_call", "message"]);
    let page = client.get(&format!("{path}/items?order=desc&limit=1")).json();
    assert_eq!((&page["items"][0], &page["has_more"]), (&said[3], &json!(true)), "{page}");

    assert_eq!(ask(&client, "PATCH", &path, &json!({"title": "Sums"})).json()["title"], "Sums");
    assert_eq!(client.get(&path).json()["title"], "Sums");
    assert_eq!(client.get(&format!("/v1/conversations/{second}")).status, 200);
    assert_eq!(ask(&client, "PATCH", &path, &json!({"title": null})).json()["preview"], first["preview"]);
    for bad in [
        json!({"title": ""}),
        json!({"title": "x".repeat(300)}),
        json!({"title": "a\nb"}),
        json!({"name": "x"}),
        json!({}),
    ] {
        assert_eq!(ask(&client, "PATCH", &path, &bad).status, 400, "{bad}");
    }
    assert_eq!(ask(&client, "DELETE", &path, &json!({})).status, 204);
    assert_eq!((client.get(&path).status, ask(&client, "DELETE", &path, &json!({})).status), (404, 404));
    assert_eq!(ids(&client.get("/api/conversations").json()), [titled.as_str()]);
}

#[test]
fn a_conversation_is_forked_at_an_item_and_exported() {
    let model = Playing::new(library());
    let site = Site::with_settings(As::current(), &[], &model.settings("chat"));
    let client = local_key(&site);
    let id = created(&client, &json!({"title": "Sums"}));
    respond(&client, &id, "What is 6 times 7?");
    let said = items(&client, &id);
    let path = format!("/api/conversations/{id}");

    // Up to the code, whose result comes along.
    let body = json!({"item": said[2]["id"], "title": "Other sums"});
    let forked = client.post(&format!("{path}/fork"), &body);
    assert_eq!((forked.status, &forked.json()["title"]), (201, &json!("Other sums")), "{}", forked.text());
    let fork = forked.json()["id"].as_str().unwrap().to_owned();
    let without_id = |item: &Value| {
        let mut item = item.clone();
        item.as_object_mut().unwrap().remove("id").unwrap();
        item
    };
    let copied = items(&client, &fork);
    let expected: Vec<Value> = said[..3].iter().map(without_id).collect();
    assert_eq!(copied.iter().map(without_id).collect::<Vec<_>>(), expected);
    assert!(copied.iter().zip(&said).all(|(copy, item)| copy["id"] != item["id"]));
    // The model sees the same beginning, and the original stays as it is.
    let answer = respond(&client, &fork, "And now?");
    assert_eq!(answer["status"], "completed");
    let last = model.model.requests().last().unwrap().body.to_string();
    assert!(last.contains("What is 6 times 7?") && last.contains("And now?"), "{last}");
    assert_eq!(items(&client, &id), said);
    assert_eq!(
        items(&client, client.post(&format!("{path}/fork"), &json!({})).json()["id"].as_str().unwrap()).len(),
        4
    );
    assert_eq!(client.post(&format!("{path}/fork"), &json!({"item": copied[0]["id"]})).status, 404);
    assert_eq!(ask(&client, "DELETE", &path, &json!({})).status, 204);
    assert_eq!(items(&client, &fork)[..3], copied);

    let id = fork;
    let export = |format: &str| {
        let answer = client.get(&format!("/api/conversations/{id}/export?format={format}"));
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer
    };
    let markdown = export("markdown").text();
    assert!(markdown.starts_with("# Other sums\n\n**User**\n\nWhat is 6 times 7?\n"), "{markdown}");
    // The fence is longer than any in the code.
    assert!(markdown.contains(&format!("````python\n{CODE}\n````\n")) && markdown.contains("42"), "{markdown}");
    let whole = export("json").json();
    assert_eq!((&whole["conversation"]["title"], &whole["items"][0]), (&json!("Other sums"), &copied[0]));
    let notebook = export("ipynb").json();
    assert_eq!((&notebook["nbformat"], &notebook["nbformat_minor"]), (&json!(4), &json!(5)));
    let cells = notebook["cells"].as_array().unwrap();
    let code: Vec<&Value> = cells.iter().filter(|cell| cell["cell_type"] == "code").collect();
    let source: String = code[0]["source"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    assert_eq!(source, CODE);
    assert_eq!(code[0]["outputs"][0]["text"], json!(["```\n", "42"]), "{notebook:#}");
    let names: std::collections::BTreeSet<&str> = cells.iter().map(|cell| cell["id"].as_str().unwrap()).collect();
    assert_eq!(names.len(), cells.len());
    assert_eq!(client.get(&format!("/api/conversations/{id}/export?format=exe")).status, 400);
}

#[test]
fn a_running_conversation_is_steered_and_stopped() {
    let model = Playing::new(library());
    let site = Site::with_settings(As::current(), &[], &model.settings("chat"));
    let client = local_key(&site);
    let id = created(&client, &json!({}));
    let path = format!("/api/conversations/{id}");
    let refused = client.post(&format!("{path}/steer"), &json!({"text": "hello"}));
    assert_eq!((refused.status, &refused.json()["code"]), (409, &json!("no_run")), "{}", refused.text());
    assert_eq!(client.post(&format!("{path}/stop"), &json!({})).json(), json!({"run": null}));

    let background = |input: &str| json!({"input": input, "conversation": id, "background": true});
    let run = client.post("/v1/responses", &background("[script:waits]")).json();
    model.runtime.block_on(model.model.gates().reached("door"));
    assert_eq!(client.get(&path).json()["running"], run["id"]);
    assert_eq!(client.get(&format!("{path}/runs")).json()["runs"][0]["state"], "running");
    assert_eq!(ask(&client, "DELETE", &path, &json!({})).status, 409);
    let file = uploaded(&client, "boats.csv", b"kind,oars")["id"].clone();
    let files = |id: &Value, is_shown: bool| json!([{"id": id, "is_shown": is_shown}]);
    for (files, status) in [(files(&json!("file-none"), false), 404), (files(&file, true), 400), (json!([]), 400)] {
        let refused = client.post(&format!("{path}/steer"), &json!({"text": "", "files": files}));
        assert_eq!(refused.status, status, "{}", refused.text());
    }
    let message = json!({"text": "in French, please", "files": files(&file, false)});
    let steered = client.post(&format!("{path}/steer"), &message);
    assert_eq!((steered.status, &steered.json()["run"]), (202, &run["id"]), "{}", steered.text());
    assert_eq!(client.post(&format!("{path}/steer"), &json!({"text": ""})).status, 400);
    model.model.gates().open("door");
    let response = format!("/v1/responses/{}", run["id"].as_str().unwrap());
    coracle_testing::wait::eventually("the run ends", || client.get(&response).json()["status"] == "completed");
    // The model got the message, although its answer had begun before.
    let last = model.model.requests().last().unwrap().body.to_string();
    assert!(last.contains("in French, please") && last.contains("boats.csv"), "{last}");
    let said: Vec<String> = items(&client, &id)
        .iter()
        .map(|item| format!("{}: {}", item["role"].as_str().unwrap(), item["content"][0]["text"].as_str().unwrap()))
        .collect();
    assert_eq!(said, ["user: [script:waits]", "assistant: I wait.", "user: in French, please", "assistant: Noted."]);
    let output = client.get(&response).json()["output"].clone();
    assert!(output.as_array().unwrap().iter().all(|item| item["role"] == "assistant"), "{output}");

    // A message that no step gets stays in the conversation.
    client.post("/v1/responses", &background("[script:never]"));
    model.runtime.block_on(model.model.gates().reached("never"));
    assert_eq!(client.post(&format!("{path}/steer"), &json!({"text": "too late"})).status, 202);
    let stopped = client.post(&format!("{path}/stop"), &json!({})).json();
    assert_eq!(stopped["run"]["state"], "cancelled", "{stopped}");
    assert_eq!(items(&client, &id).last().unwrap()["content"][0]["text"], "too late");
    assert_eq!(client.post(&format!("{path}/stop"), &json!({})).json(), json!({"run": null}));
}

#[test]
fn conversations_of_others_cannot_be_reached() {
    let model = Playing::new(library());
    let site = Site::with_settings(As::current(), &["ada", "bob"], &model.settings("chat"));
    let (ada, bob) = (site.client("ada"), site.client("bob"));
    let own = created(&ada, &json!({"title": "Ada's canary"}));
    respond(&ada, &own, "ada-canary: what is 6 times 7?");
    let item = items(&ada, &own)[0]["id"].clone();
    let running = created(&ada, &json!({}));
    ada.post("/v1/responses", &json!({"input": "[script:never]", "conversation": running, "background": true}));
    model.runtime.block_on(model.model.gates().reached("never"));
    let bobs = created(&bob, &json!({"title": "Bob's"}));

    let requests = |id: &str| {
        vec![
            ("GET", format!("/api/conversations/{id}"), json!({})),
            ("GET", format!("/api/conversations/{id}/items"), json!({})),
            ("GET", format!("/api/conversations/{id}/runs"), json!({})),
            ("GET", format!("/api/conversations/{id}/savings"), json!({})),
            ("GET", format!("/api/conversations/{id}/queue"), json!({})),
            ("GET", format!("/api/conversations/{id}/export?format=json"), json!({})),
            ("GET", format!("/api/conversations/{id}/export?format=ipynb"), json!({})),
            ("POST", format!("/api/conversations/{id}/fork"), json!({})),
            ("PATCH", format!("/api/conversations/{id}"), json!({"title": "Ada's canary"})),
            ("POST", format!("/api/conversations/{id}/queue"), json!({"text": "x"})),
            ("PATCH", format!("/api/conversations/{id}/queue"), json!({"held": true})),
            ("DELETE", format!("/api/conversations/{id}/queue"), json!({})),
            ("POST", format!("/api/conversations/{id}/steer"), json!({"text": "x"})),
            ("POST", format!("/api/conversations/{id}/stop"), json!({})),
        ]
    };
    for id in [&own, &running] {
        for (method, path, body) in requests(id) {
            let answer = ask(&bob, method, &path, &body);
            assert_eq!(answer.status, 404, "{method} {path}: {}", answer.text());
        }
        assert_eq!(ask(&bob, "DELETE", &format!("/api/conversations/{id}"), &json!({})).status, 404);
    }
    assert_eq!(bob.post(&format!("/api/conversations/{bobs}/fork"), &json!({"item": item})).status, 404);
    for path in ["/api/conversations".to_owned(), "/api/conversations?query=canary".to_owned()] {
        let all = bob.get(&path).text();
        assert!(!all.contains("canary") && !all.contains(&own), "{path}: {all}");
    }
    assert_eq!(ids(&bob.get(&format!("/api/conversations?before={own}")).json()), [""; 0]);
    assert_eq!(ids(&bob.get("/api/conversations").json()), [bobs.as_str()]);
    // Control: the same requests work for the owner.
    assert!(ada.get(&format!("/api/conversations/{running}")).json()["running"].is_string());
    for (method, path, body) in requests(&own).into_iter().take(9) {
        let answer = ask(&ada, method, &path, &body);
        assert!(matches!(answer.status, 200 | 201), "{method} {path}: {}", answer.text());
    }
    for (method, path, body) in requests(&running).into_iter().skip(9) {
        let answer = ask(&ada, method, &path, &body);
        assert!(matches!(answer.status, 200..=202), "{method} {path}: {}", answer.text());
    }
    assert!(ada.get("/api/conversations?query=canary").text().contains(&own));
}
