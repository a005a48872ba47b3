//! Runs behind `/v1/responses` and `/v1/conversations`, with a scripted model.

use crate::playing::{Playing, computes, events, local_key};
use crate::site::{Client, Site};
use coracle_scripted_model::{Library, Script, Step};
use coracle_testing::harness::As;
use coracle_testing::wait::eventually;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

fn site(model: &Playing) -> (Site, Client) {
    let site = Site::with_settings(As::current(), &[], &model.settings("chat"));
    let client = local_key(&site);
    (site, client)
}

fn types(response: &Value) -> Vec<&str> {
    response["output"].as_array().unwrap().iter().map(|item| item["type"].as_str().unwrap()).collect()
}

/// The text of all messages.
fn text(response: &Value) -> String {
    let messages = response["output"].as_array().unwrap().iter().filter(|item| item["type"] == "message");
    messages.map(|item| item["content"][0]["text"].as_str().unwrap()).collect::<Vec<_>>().join("|")
}

fn parsed(text: &str) -> Vec<Value> {
    events(text).iter().map(|event| serde_json::from_str(event).unwrap()).collect()
}

fn created(client: &Client, body: &Value) -> Value {
    let answer = client.post("/v1/responses", body);
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

fn delete(client: &Client, path: &str) -> u16 {
    client.ask("DELETE", path, "application/json", b"").unwrap().status
}

#[test]
fn a_response_runs_code_and_is_kept() {
    for api in ["chat", "responses", "messages"] {
        let model = Playing::new(computes());
        let site = Site::with_settings(As::current(), &[], &model.settings(api));
        let client = local_key(&site);
        let response = created(&client, &json!({"input": "What is 6 times 7?", "metadata": {"a": "b"}}));
        assert_eq!((&response["status"], &response["model"]), (&json!("completed"), &json!("lab/demo")), "{response}");
        assert_eq!(types(&response), ["message", "code_interpreter_call", "message"], "{response}");
        assert!(text(&response).starts_with("I compute it.|It is 42"), "{response}");
        let code = &response["output"][1];
        assert_eq!(code["code"], "print('working')\nresult = 6 * 7");
        assert_eq!(code["outputs"], json!([{"type": "logs", "logs": "working\n42"}]), "{api}: {code}");
        assert!(response["usage"]["total_tokens"].as_u64() > Some(0));
        assert_eq!(response["metadata"], json!({"a": "b"}));

        let path = format!("/v1/responses/{}", response["id"].as_str().unwrap());
        assert_eq!(client.get(&path).json(), response, "{api}");
        let input = client.get(&format!("{path}/input_items")).json();
        assert_eq!(input["data"][0]["content"][0]["text"], "What is 6 times 7?", "{input}");
        assert_eq!((delete(&client, &path), delete(&client, &path)), (200, 404));
        assert_eq!(client.get(&path).status, 404);
        assert_eq!(client.get("/v1/responses/..%2Fx").status, 404);
    }
}

#[test]
fn a_streamed_response_tells_all_and_ends_with_the_same_response() {
    let model = Playing::new(computes());
    let (_site, client) = site(&model);
    let body = json!({"input": "What is 6 times 7?", "stream": true});
    let told = parsed(&client.post("/v1/responses", &body).text());
    let numbers: Vec<u64> = told.iter().map(|event| event["sequence_number"].as_u64().unwrap()).collect();
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]) && numbers[0] == 0, "{numbers:?}");
    let kinds: Vec<&str> = told.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(kinds[..2], ["response.created", "response.in_progress"]);
    assert_eq!(kinds.last(), Some(&"response.completed"));
    for kind in [
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.code_interpreter_call.interpreting",
        "response.code_interpreter_call_code.done",
        "response.code_interpreter_call.completed",
    ] {
        assert!(kinds.contains(&kind), "{kind}: {kinds:?}");
    }
    assert!(kinds.iter().all(|kind| !kind.contains("coracle")), "{kinds:?}");
    let last = &told.last().unwrap()["response"];
    let mut items: Vec<(u64, Value)> = Vec::new();
    for event in told.iter().filter(|event| event["type"] == "response.output_item.done") {
        items.push((event["output_index"].as_u64().unwrap(), event["item"].clone()));
    }
    items.sort_by_key(|(index, _)| *index);
    assert_eq!(last["output"], items.into_iter().map(|(_, item)| item).collect::<Value>());
    let path = format!("/v1/responses/{}", last["id"].as_str().unwrap());
    assert_eq!(client.get(&path).json(), *last);
    // A stream of a response that has ended consists of its items.
    let again = parsed(&client.get(&format!("{path}?stream=true")).text());
    let kinds: Vec<&str> = again.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, [["response.output_item.done"; 3].as_slice(), &["response.completed"]].concat());
    assert_eq!(again.last().unwrap()["response"], *last);
    let end = numbers.last().unwrap();
    assert_eq!(parsed(&client.get(&format!("{path}?stream=true&starting_after={end}")).text()), [] as [Value; 0]);
    // Live output is told to clients that ask for it.
    let body = json!({"input": "What is 6 times 7?", "stream": true, "coracle": {"events": true}});
    let told = parsed(&client.post("/v1/responses", &body).text());
    let output = told.iter().find(|event| event["type"] == "response.coracle.output.delta").unwrap();
    assert_eq!((&output["stream"], &output["delta"]), (&json!("stdout"), &json!("working\n")));
}

#[test]
fn a_response_continues_an_earlier_one_with_the_results_of_the_client() {
    let weather = Step::call("get_weather", json!({"city": "Rome"}));
    let code = Step::call("execute_code", json!({"code": "result = 'the secret word'"}));
    let library = Library::single([vec![code], vec![weather], vec![Step::text("It is {{result}}.")]]);
    for api in ["chat", "responses", "messages"] {
        let model = Playing::new(library.clone());
        let site = Site::with_settings(As::current(), &[], &model.settings(api));
        let client = local_key(&site);
        let tools = json!([{"type": "function", "name": "get_weather", "parameters": {"type": "object"}}]);
        let first = created(&client, &json!({"input": "Weather in Rome?", "tools": tools}));
        assert_eq!(types(&first), ["code_interpreter_call", "function_call"], "{api}: {first}");
        let call = &first["output"][1];
        let result = json!({"type": "function_call_output", "call_id": call["call_id"], "output": "sunny"});
        let mut body = json!({"input": [result], "tools": tools, "previous_response_id": first["id"]});
        let second = created(&client, &body);
        assert_eq!(text(&second), "It is sunny.", "{api}: {second}");
        let last = model.model.requests().last().unwrap();
        assert!(last.body.to_string().contains("the secret word"), "{api}");
        // The same call cannot be answered twice in one conversation, nor one that was never made.
        body["previous_response_id"] = second["id"].clone();
        let refused = client.post("/v1/responses", &body);
        assert_eq!((refused.status, &refused.json()["error"]["param"]), (400, &json!("input")), "{}", refused.text());
        body["previous_response_id"] = json!("resp_unknown");
        assert_eq!(client.post("/v1/responses", &body).status, 404);
        // Without a result, the conversation goes on all the same.
        body["previous_response_id"] = first["id"].clone();
        body["input"] = json!("Never mind.");
        assert_eq!(created(&client, &body)["status"], "completed", "{api}");
    }
}

#[test]
fn a_conversation_remembers_and_has_one_run_at_a_time() {
    let library = Library::single([vec![Step::text("First.")], vec![Step::text("Second.")]])
        .with("waits", Script::new([vec![Step::text("I wait."), Step::gate("door"), Step::text(" Done.")]]));
    let model = Playing::new(library);
    let (_site, client) = site(&model);
    let conversation = client.post("/v1/conversations", &json!({"metadata": {"topic": "t"}})).json();
    let id = conversation["id"].as_str().unwrap().to_owned();
    let answer = created(&client, &json!({"input": "one", "conversation": id}));
    assert_eq!((text(&answer).as_str(), &answer["conversation"]["id"]), ("First.", &json!(id)));
    assert_eq!(text(&created(&client, &json!({"input": "two", "conversation": {"id": id}}))), "Second.");
    let items = client.get(&format!("/v1/conversations/{id}/items?order=asc")).json();
    let said: Vec<&str> =
        items["data"].as_array().unwrap().iter().map(|item| item["content"][0]["text"].as_str().unwrap()).collect();
    assert_eq!(said, ["one", "First.", "two", "Second."]);
    let first = items["data"][0]["id"].as_str().unwrap();
    let page = client.get(&format!("/v1/conversations/{id}/items?order=asc&limit=2&after={first}")).json();
    assert_eq!((page["data"].as_array().unwrap().len(), &page["has_more"]), (2, &json!(true)), "{page}");

    // A client that leaves does not stop it, and nobody else can add to it meanwhile.
    let other = client.post("/v1/conversations", &json!({})).json()["id"].as_str().unwrap().to_owned();
    let body = json!({"input": "[script:waits]", "conversation": other, "stream": true});
    let leaving = client.begin("/v1/responses", &body);
    model.runtime.block_on(model.model.gates().reached("door"));
    drop(leaving);
    let locked = client.post("/v1/responses", &json!({"input": "x", "conversation": other}));
    assert_eq!((locked.status, &locked.json()["error"]["code"]), (409, &json!("conversation_locked")));
    assert_eq!(delete(&client, &format!("/v1/conversations/{other}")), 409);
    model.model.gates().open("door");
    let path = format!("/v1/conversations/{other}/items?order=desc");
    eventually("the run ends", || {
        let items = client.get(&path).json();
        items["data"][0]["content"][0]["text"] == "I wait. Done."
    });
    eventually("the conversation is free", || delete(&client, &format!("/v1/conversations/{other}")) == 200);
    assert_eq!(client.get(&path).status, 404);
    assert_eq!(client.get(&format!("/v1/conversations/{id}")).json()["metadata"], json!({"topic": "t"}));
}

#[test]
fn a_run_in_the_background_can_be_watched_and_stopped() {
    let endless = Step::call("execute_code", json!({"code": "print('on')\nwhile True: pass", "timeout_seconds": 600}));
    let library = Library::single([vec![Step::text("I begin."), endless], vec![Step::text("After {{result}}.")]])
        .with("waits", Script::new([vec![Step::text("Slow."), Step::gate("never")]]));
    let model = Playing::new(library);
    let (_site, client) = site(&model);
    let running = || {
        let all = client.get("/api/executions").json();
        let is_running = |run: &&Value| run["state"] == "running";
        all.as_array().unwrap().iter().filter(is_running).count()
    };
    let begun = created(&client, &json!({"input": "run", "background": true}));
    assert_eq!((&begun["status"], &begun["background"]), (&json!("in_progress"), &json!(true)));
    eventually("the code runs", || running() == 1);
    let path = format!("/v1/responses/{}", begun["id"].as_str().unwrap());
    let watching = std::thread::scope(|scope| {
        let watching = scope.spawn(|| parsed(&client.get(&format!("{path}?stream=true&starting_after=1")).text()));
        let stopped = client.post(&format!("{path}/cancel"), &json!({})).json();
        assert_eq!(stopped["status"], "cancelled", "{stopped}");
        watching.join().unwrap()
    });
    assert_eq!(watching[0]["sequence_number"], 2);
    assert_eq!(watching.last().unwrap()["type"], "response.incomplete");
    assert_eq!(running(), 0);
    let stored = client.get(&path).json();
    assert_eq!((&stored["status"], types(&stored)), (&json!("cancelled"), vec!["message", "code_interpreter_call"]));
    // The history is valid: the conversation goes on.
    let next = created(&client, &json!({"input": "go on", "previous_response_id": begun["id"]}));
    assert_eq!(next["status"], "completed", "{next}");
    // The same while the model writes.
    let begun = created(&client, &json!({"input": "[script:waits]", "background": true}));
    model.runtime.block_on(model.model.gates().reached("never"));
    let path = format!("/v1/responses/{}", begun["id"].as_str().unwrap());
    assert_eq!(client.post(&format!("{path}/cancel"), &json!({})).json()["status"], "cancelled");
    assert_eq!(client.post(&format!("{path}/cancel"), &json!({})).json()["status"], "cancelled", "again");
    model.runtime.block_on(model.model.requests().abandoned(1));
}

#[test]
fn a_run_goes_on_after_its_server_was_killed_or_stopped() {
    let code = Step::call("execute_code", json!({"code": "result = 6 * 7"}));
    let library = Library::single([
        vec![Step::text("I compute it."), code],
        vec![Step::gate("door"), Step::text("It is {{result}}.")],
    ]);
    let model = Playing::new(library);
    let (mut site, client) = site(&model);
    let begun = created(&client, &json!({"input": "What is 6 times 7?", "background": true}));
    let path = format!("/v1/responses/{}", begun["id"].as_str().unwrap());
    let gates = model.model.gates();
    model.runtime.block_on(gates.reached("door"));
    site.kill();
    site.start();
    // The model is asked again, but the code does not run again.
    eventually("the model is asked again", || model.model.requests().count() >= 3);
    let client = local_key(&site);
    assert_eq!(client.get(&path).json()["status"], "in_progress");
    site.stop();
    site.start();
    let client = local_key(&site);
    eventually("the model is asked again", || model.model.requests().count() >= 4);
    gates.open("door");
    eventually("the run ends", || client.get(&path).json()["status"] == "completed");
    let response = client.get(&path).json();
    assert_eq!(types(&response), ["message", "code_interpreter_call", "message"], "{response}");
    assert!(text(&response).starts_with("I compute it.|It is 42"), "{response}");
    let executions = client.get("/api/executions").json();
    let computed = executions.as_array().unwrap().iter().filter(|run| run["code"] == "result = 6 * 7").count();
    assert_eq!(computed, 1, "{executions:#}");
}

#[test]
fn a_run_that_ends_with_its_client_is_not_continued() {
    let model = Playing::new(Library::single([vec![Step::text("Slow."), Step::gate("never")]]));
    let (mut site, client) = site(&model);
    let stream = client.begin("/v1/responses", &json!({"input": "x", "stream": true}));
    model.runtime.block_on(model.model.gates().reached("never"));
    site.kill();
    drop(stream);
    site.start();
    let client = local_key(&site);
    // A run that is started later is answered, so earlier ones would have been taken up.
    let begun = created(&client, &json!({"input": "y", "background": true}));
    eventually("the model is asked for the second run", || model.model.requests().count() == 2);
    let path = format!("/v1/responses/{}", begun["id"].as_str().unwrap());
    assert_eq!(client.post(&format!("{path}/cancel"), &json!({})).json()["status"], "cancelled");
    assert_eq!(model.model.requests().count(), 2);
}

/// The files below a folder that contain these bytes.
fn files_with(folder: &Path, needle: &[u8]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            found.extend(files_with(&entry.path(), needle));
        } else if kind.is_file() {
            let bytes = std::fs::read(entry.path()).unwrap_or_default();
            if bytes.windows(needle.len()).any(|window| window == needle) {
                found.push(entry.path());
            }
        }
    }
    found
}

#[test]
fn nothing_of_a_run_that_must_not_be_stored_is_on_the_disk() {
    let model = Playing::new(Library::single([vec![Step::text("The answer is xyzzy-answer.")]]));
    let (site, client) = site(&model);
    let home = site.coracle.home();
    let holds = |needle: &str| files_with(&home, needle.as_bytes());
    let response = created(&client, &json!({"input": "xyzzy-question", "store": false}));
    assert_eq!((text(&response).as_str(), &response["store"]), ("The answer is xyzzy-answer.", &json!(false)));
    for needle in ["xyzzy-question", "xyzzy-answer"] {
        assert_eq!(holds(needle), [] as [PathBuf; 0]);
    }
    assert_eq!(client.get(&format!("/v1/responses/{}", response["id"].as_str().unwrap())).status, 404);
    created(&client, &json!({"input": "xyzzy-question"}));
    for needle in ["xyzzy-question", "xyzzy-answer"] {
        assert_ne!(holds(needle), [] as [PathBuf; 0], "the control");
    }
}

#[test]
fn users_do_not_see_each_others_runs() {
    let model = Playing::new(Library::single([vec![Step::text("Secret of ann.")], vec![Step::text("More.")]]));
    let site = Site::with_settings(As::current(), &["ann", "bob"], &model.settings("chat"));
    let (ann, bob) = (site.client("ann"), site.client("bob"));
    let conversation = ann.post("/v1/conversations", &json!({})).json()["id"].as_str().unwrap().to_owned();
    let response = created(&ann, &json!({"input": "x", "conversation": conversation}));
    let id = response["id"].as_str().unwrap();
    let item = response["output"][0]["id"].as_str().unwrap();
    let reads = [
        format!("/v1/responses/{id}"),
        format!("/v1/responses/{id}?stream=true"),
        format!("/v1/responses/{id}/input_items"),
        format!("/v1/conversations/{conversation}"),
        format!("/v1/conversations/{conversation}/items"),
        format!("/v1/conversations/{conversation}/items/{item}"),
    ];
    for path in &reads {
        assert_eq!((bob.get(path).status, ann.get(path).status), (404, 200), "{path}");
    }
    let writes = [
        (format!("/v1/responses/{id}/cancel"), json!({})),
        (format!("/v1/conversations/{conversation}"), json!({"metadata": {"a": "b"}})),
        (format!("/v1/conversations/{conversation}/items"), json!({"items": [{"role": "user", "content": "x"}]})),
        ("/v1/responses".to_owned(), json!({"input": "x", "conversation": conversation})),
        ("/v1/responses".to_owned(), json!({"input": "x", "previous_response_id": id})),
    ];
    for (path, body) in &writes {
        let (theirs, own) = (bob.post(path, body), ann.post(path, body));
        assert_eq!((theirs.status, own.status), (404, 200), "{path}: {} {}", theirs.text(), own.text());
    }
    for path in [format!("/v1/conversations/{conversation}/items/{item}"), format!("/v1/conversations/{conversation}")]
    {
        assert_eq!((delete(&bob, &path), delete(&ann, &path)), (404, 200), "{path}");
    }
}

#[test]
fn requests_that_cannot_be_fulfilled_say_why() {
    let model = Playing::new(computes());
    let (_site, client) = site(&model);
    for (body, parameter) in [
        (json!({"input": ""}), "input"),
        (json!({"input": []}), "input"),
        (json!({"input": "x", "store": false, "background": true}), "background"),
        (json!({"input": "x", "tools": [{"type": "web_search"}]}), "tools"),
        (json!({"input": "x", "tools": [{"type": "function", "name": "execute_code"}]}), "tools"),
        (json!({"input": "x", "metadata": {"a": 1}}), "metadata"),
        (json!({"input": "x", "model": "openai/gpt-5"}), "model"),
    ] {
        let refused = client.post("/v1/responses", &body);
        assert_eq!((refused.status, &refused.json()["error"]["param"]), (400, &json!(parameter)), "{}", refused.text());
    }
    assert_eq!(model.model.requests().count(), 0);
    let broken = Playing::new(Library::single([vec![Step::Status(coracle_scripted_model::Status::new(400))]]));
    let (_site, client) = self::site(&broken);
    let answer = client.post("/v1/responses", &json!({"input": "x"}));
    assert_eq!(answer.status, 400, "{}", answer.text());
    assert_eq!(answer.json()["error"]["code"], "model_rejected_request");
    let told = parsed(&client.post("/v1/responses", &json!({"input": "x", "stream": true})).text());
    assert_eq!(told.last().unwrap()["type"], "response.failed", "{told:?}");
}

#[test]
fn tasks_over_mcp_are_runs() {
    let library = computes().with("waits", Script::new([vec![Step::text("Slow."), Step::gate("never")]]));
    let model = Playing::new(library);
    let site = Site::with_settings(As::current(), &["ann", "bob"], &model.settings("chat"));
    let (ann, bob) = (site.client("ann"), site.client("bob"));
    let done = ann.tool("execute_task", json!({"task_description": "What is 6 times 7?", "verbose": true}));
    let done = &done["result"]["structuredContent"];
    assert_eq!((&done["success"], &done["error"]), (&json!(true), &Value::Null), "{done}");
    assert!(done["result"].as_str().unwrap().starts_with("It is 42"), "{done}");
    assert_eq!((&done["output"], &done["code"]), (&json!("working\n42"), &json!(["print('working')\nresult = 6 * 7"])));

    let task = ann.tool("dispatch_background_task", json!({"task_description": "compute"}));
    let id = task["result"]["structuredContent"]["task_id"].clone();
    let waited = ann.tool("wait_for_background_task", json!({"task_id": id}))["result"]["structuredContent"].clone();
    assert_eq!((&waited["status"], &waited["success"]), (&json!("completed"), &json!(true)), "{waited}");
    let slow = ann.tool("dispatch_background_task", json!({"task_description": "[script:waits]"}));
    let slow = slow["result"]["structuredContent"]["task_id"].clone();
    model.runtime.block_on(model.model.gates().reached("never"));
    let status = |client: &Client| client.tool("get_background_task_status", json!({"task_id": slow}));
    assert_eq!(status(&ann)["result"]["structuredContent"]["status"], "running");
    assert_eq!(status(&bob)["result"]["isError"], json!(true), "the task of another user");
    assert_eq!(bob.tool("cancel_background_task", json!({"task_id": slow}))["result"]["isError"], json!(true));
    let waited = ann.tool("wait_for_background_task", json!({"task_id": slow, "timeout": 0}));
    assert_eq!(waited["result"]["structuredContent"]["status"], "running");
    let stopped = ann.tool("cancel_background_task", json!({"task_id": slow}));
    assert_eq!(stopped["result"]["structuredContent"]["status"], "cancelled", "{stopped}");
    let listed =
        |client: &Client| client.tool("list_background_tasks", json!({}))["result"]["structuredContent"].clone();
    let tasks = listed(&ann);
    assert_eq!((&tasks["count"], &tasks["tasks"][0]["task_id"]), (&json!(2), &slow), "{tasks}");
    assert_eq!(listed(&bob)["count"], 0);
}

#[test]
fn a_reference_stands_for_a_kept_item_of_the_same_user() {
    let model = Playing::new(Library::single([vec![Step::text("Hello.")], vec![Step::text("Again.")]]));
    let site = Site::with_settings(As::current(), &["ann", "bob"], &model.settings("chat"));
    let (ann, bob) = (site.client("ann"), site.client("bob"));
    let continued = |first: &Value| {
        let reference = json!({"type": "item_reference", "id": first["output"][0]["id"]});
        json!({"input": [{"role": "user", "content": "Hi"}, reference, {"role": "user", "content": "More"}]})
    };
    let kept = continued(&created(&ann, &json!({"input": "Hi"})));
    assert_eq!(text(&created(&ann, &kept)), "Again.");
    let forgotten = continued(&created(&ann, &json!({"input": "Hi", "store": false})));
    for (client, body) in [(&bob, &kept), (&ann, &forgotten)] {
        let refused = client.post("/v1/responses", body);
        assert_eq!(refused.status, 400, "{}", refused.text());
        assert!(refused.text().contains("not found"), "{}", refused.text());
    }
}
