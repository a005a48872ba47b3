//! Calls that need an approval, asked and answered in the items of `/v1/responses`.

use crate::playing::{Playing, events, key_of, local_key};
use crate::site::{Answer, Client, Site};
use coracle_scripted_model::{Library, Script, Step};
use coracle_testing::harness::As;
use coracle_testing::installed;
use coracle_testing::wait::eventually;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Command;

/// A model whose code makes calls, one of which needs an approval.
fn asks() -> Library {
    let code = |what: &str| {
        let code = format!(
            "from servers.plain import echo, wipe\n\
             echo(text='first')\n\
             open('ran.txt', 'a').write('x')\n\
             wipe(what='{what}')\n\
             result = open('ran.txt').read()"
        );
        Step::call("execute_code", json!({"code": code}))
    };
    let bash = Step::call("execute_code", json!({"code": "tool plain wipe --what all", "language": "bash"}));
    let answer = || vec![Step::text("It says {{result}}.")];
    Library::single([vec![Step::text("I ask."), code("all")], answer()])
        .with("two", Script::new([vec![code("a"), code("b")], answer()]))
        .with("twice", Script::new([vec![code("a")], vec![code("a")], answer()]))
        .with("bash", Script::new([vec![bash], answer()]))
}

/// A server with the tools of `plain.py`, and where these write down what was called.
struct Lab {
    site: Site,
    model: Playing,
    log: PathBuf,
    _folder: tempfile::TempDir,
}

impl Lab {
    fn new(people: &[&str], policy: &Value) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let model = Playing::new(asks());
        let log = folder.path().join("plain.log");
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/bridge/fixtures/plain.py");
        let plain = json!({"command": "/usr/bin/python3", "args": ["-I", script], "env": {"PLAIN_LOG": log}});
        let settings = format!("{}mcpServers: {}\npolicy: {policy}\n", model.settings("chat"), json!({"plain": plain}));
        let site = Site::with_settings(As::current(), people, &settings);
        Self { site, model, log, _folder: folder }
    }

    fn local() -> (Self, Client) {
        let lab = Self::new(&[], &json!({}));
        let client = local_key(&lab.site);
        (lab, client)
    }

    /// How often a tool was called.
    fn called(&self, tool: &str) -> usize {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        log.lines().filter(|line| *line == tool).count()
    }
}

fn types(response: &Value) -> Vec<&str> {
    response["output"].as_array().unwrap().iter().map(|item| item["type"].as_str().unwrap()).collect()
}

fn output(response: &Value) -> String {
    response["output"].to_string()
}

fn created(client: &Client, body: &Value) -> Value {
    let answer = client.post("/v1/responses", body);
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

fn shown(client: &Client, response: &Value) -> Value {
    client.get(&format!("/v1/responses/{}", response["id"].as_str().unwrap())).json()
}

/// The questions of a response.
fn questions(response: &Value) -> Vec<Value> {
    let items = response["output"].as_array().unwrap().iter();
    items.filter(|item| item["type"] == "mcp_approval_request").cloned().collect()
}

fn says(question: &Value, approve: bool) -> Value {
    json!({"type": "mcp_approval_response", "approval_request_id": question["id"], "approve": approve})
}

/// A request that answers all questions of a response.
fn answers(response: &Value, approve: bool) -> Value {
    let answers: Vec<Value> = questions(response).iter().map(|question| says(question, approve)).collect();
    json!({"input": answers, "previous_response_id": response["id"]})
}

fn refused(answer: &Answer, status: u16, words: &str) {
    let text = answer.text();
    assert!(answer.status == status && text.contains(words), "{} {text}", answer.status);
}

#[test]
fn a_response_asks_and_the_next_one_goes_on_where_the_code_stands() {
    let (lab, client) = Lab::local();
    for (number, approve) in [true, false].into_iter().enumerate() {
        let first = created(&client, &json!({"input": "Wipe."}));
        assert_eq!(first["status"], "completed");
        assert_eq!(types(&first), ["message", "code_interpreter_call", "mcp_approval_request"], "{first}");
        let asked = &first["output"][2];
        assert_eq!((&asked["server_label"], &asked["name"]), (&json!("plain"), &json!("wipe")));
        assert_eq!(asked["arguments"], r#"{"what":"all"}"#);
        assert_eq!(shown(&client, &first), first);
        assert_eq!(lab.called("wipe"), usize::from(number > 0));
        let open = client.get("/api/approvals?state=open").json();
        assert_eq!((&open["approvals"][0]["id"], &open["approvals"][0]["origin"]), (&asked["id"], &first["id"]));

        let second = created(&client, &answers(&first, approve));
        assert_eq!(types(&second), ["code_interpreter_call", "message"], "{second}");
        assert_eq!(shown(&client, &second), second);
        assert_eq!(second["output"][0]["id"], first["output"][1]["id"]);
        assert_eq!(lab.called("wipe"), 1, "only the first was approved");
        if approve {
            // The code went on: it wrote its line once.
            assert_eq!(second["output"][0]["outputs"], json!([{"type": "logs", "logs": "x"}]), "{second}");
        } else {
            assert!(output(&second).contains("refused"), "{second}");
        }
        let input = client.get(&format!("/v1/responses/{}/input_items", second["id"].as_str().unwrap())).json();
        let answered = &input["data"][0];
        assert_eq!((&answered["type"], &answered["approve"]), (&json!("mcp_approval_response"), &json!(approve)));
        let ended = client.get(&format!("/api/approvals/{}", asked["id"].as_str().unwrap())).json();
        assert_eq!(ended["decision"], if approve { "once" } else { "refuse" }, "{ended}");
        // The model sees one call with one result.
        let last = lab.model.model.requests().last().unwrap().body.to_string();
        assert!(!last.contains("mcp_approval") && !last.contains("no result"), "{last}");
    }
    assert_eq!(lab.called("echo"), 2);
}

#[test]
fn a_conversation_a_stream_and_a_client_that_sends_everything_go_on_too() {
    let (lab, client) = Lab::local();
    let conversation = client.post("/v1/conversations", &json!({})).json()["id"].clone();
    let first = created(&client, &json!({"input": "Wipe.", "conversation": conversation}));
    let mut body = answers(&first, true);
    body.as_object_mut().unwrap().remove("previous_response_id");
    body["conversation"] = conversation.clone();
    let second = created(&client, &body);
    assert_eq!(types(&second), ["code_interpreter_call", "message"], "{second}");
    let path = format!("/v1/conversations/{}/items?order=asc", conversation.as_str().unwrap());
    let items = client.get(&path).json();
    let kinds: Vec<&str> =
        items["data"].as_array().unwrap().iter().map(|item| item["type"].as_str().unwrap()).collect();
    let expected =
        ["message", "message", "code_interpreter_call", "mcp_approval_request", "mcp_approval_response", "message"];
    assert_eq!(kinds, expected, "{items}");
    assert_eq!(items["data"][2]["status"], "completed");

    let first = client.post("/v1/responses", &json!({"input": "Wipe.", "stream": true})).text();
    let first: Vec<Value> = events(&first).iter().map(|event| serde_json::from_str(event).unwrap()).collect();
    let last = first.last().unwrap();
    assert_eq!(last["type"], "response.completed");
    let done = first.iter().filter(|event| event["type"] == "response.output_item.done");
    assert!(done.clone().any(|event| event["item"] == questions(&last["response"])[0]), "{first:?}");
    let mut body = answers(&last["response"], true);
    body["stream"] = json!(true);
    let second = client.post("/v1/responses", &body).text();
    assert!(second.contains("response.completed") && second.contains("It says x"), "{second}");

    // The whole conversation, as clients send it that keep it themselves.
    let first = created(&client, &json!({"input": "Wipe."}));
    let mut whole = vec![json!({"role": "user", "content": "Wipe."})];
    whole.extend(first["output"].as_array().unwrap().iter().cloned());
    whole.push(says(&questions(&first)[0], true));
    let second = created(&client, &json!({ "input": whole }));
    assert_eq!(types(&second), ["code_interpreter_call", "message"], "{second}");
    assert_eq!(second["previous_response_id"], first["id"]);
    assert_eq!(lab.called("wipe"), 3);
    // Commands of a shell can ask, too.
    let shell = json!([{"type": "shell", "environment": {"type": "container_auto"}}]);
    let first = created(&client, &json!({"input": "[script:bash]", "tools": shell}));
    assert_eq!(types(&first), ["shell_call", "mcp_approval_request"], "{first}");
    let mut answer = answers(&first, true);
    answer["tools"] = shell;
    let second = created(&client, &answer);
    assert_eq!(types(&second), ["shell_call", "shell_call_output", "message"], "{second}");
    assert_eq!(lab.called("wipe"), 4, "{second}");
}

#[test]
fn calls_that_ask_at_once_are_all_answered_in_one_request() {
    let (lab, client) = Lab::local();
    let first = created(&client, &json!({"input": "[script:two]"}));
    let asked = questions(&first);
    assert_eq!(asked.len(), 2, "{first}");
    assert_eq!(shown(&client, &first), first);
    let body = json!({"input": [says(&asked[0], true)], "previous_response_id": first["id"]});
    refused(&client.post("/v1/responses", &body), 400, "has no answer");
    assert_eq!(lab.called("wipe"), 0);
    let body = json!({"input": [says(&asked[1], true), says(&asked[0], false)], "previous_response_id": first["id"]});
    let second = created(&client, &body);
    assert_eq!(types(&second), ["code_interpreter_call", "code_interpreter_call", "message"], "{second}");
    assert_eq!(lab.called("wipe"), 1);
    // A question that comes up later is asked again, in the second response.
    let first = created(&client, &json!({"input": "[script:twice]"}));
    let second = created(&client, &answers(&first, true));
    assert_eq!(types(&second), ["code_interpreter_call", "code_interpreter_call", "mcp_approval_request"]);
    let third = created(&client, &answers(&second, true));
    assert_eq!(types(&third), ["code_interpreter_call", "message"], "{third}");
    assert_eq!(lab.called("wipe"), 3);
}

#[test]
fn an_answer_counts_once_and_only_for_its_question() {
    let (lab, client) = Lab::local();
    let first = created(&client, &json!({"input": "Wipe."}));
    let mut body = answers(&first, true);
    let question = questions(&first)[0]["id"].clone();
    for wrong in [json!("ask-0000000000000000"), json!("../x"), first["output"][0]["id"].clone()] {
        body["input"][0]["approval_request_id"] = wrong;
        refused(&client.post("/v1/responses", &body), 404, "not found");
    }
    body["input"][0]["approval_request_id"] = question.clone();
    let other = created(&client, &json!({"input": "Wipe."}));
    body["previous_response_id"] = other["id"].clone();
    refused(&client.post("/v1/responses", &body), 404, "not found");
    body["previous_response_id"] = first["id"].clone();
    body["input"].as_array_mut().unwrap().push(json!({"role": "user", "content": "Hurry."}));
    refused(&client.post("/v1/responses", &body), 400, "send messages in the next request");
    let nothing = json!({"input": [], "previous_response_id": first["id"]});
    refused(&client.post("/v1/responses", &nothing), 400, "waits for an approval");
    assert_eq!(lab.called("wipe"), 0);
    created(&client, &answers(&first, true));
    assert_eq!(lab.called("wipe"), 1);
    for approve in [true, false] {
        refused(&client.post("/v1/responses", &answers(&first, approve)), 409, "already continued");
    }
    // Answered elsewhere: the same answer continues, another one does not.
    let question = questions(&other)[0]["id"].as_str().unwrap().to_owned();
    let answered = client.post(&format!("/api/approvals/{question}"), &json!({"decision": "refuse"}));
    assert_eq!(answered.status, 200);
    refused(&client.post("/v1/responses", &answers(&other, true)), 409, "was refused");
    let second = created(&client, &answers(&other, false));
    assert_eq!(types(&second), ["code_interpreter_call", "message"], "{second}");
    // The conversation goes on without an answer, and the call is never made.
    let first = created(&client, &json!({"input": "Wipe."}));
    let second = created(&client, &json!({"input": "Never mind.", "previous_response_id": first["id"]}));
    assert_eq!(second["status"], "completed", "{second}");
    let question = questions(&first)[0]["id"].clone();
    eventually("the question is withdrawn", || {
        let open = client.get("/api/approvals?state=open").json();
        open["approvals"].as_array().unwrap().iter().all(|open| open["id"] != question)
    });
    refused(&client.post("/v1/responses", &answers(&first, true)), 409, "already continued");
    assert_eq!(lab.called("wipe"), 1);
}

#[test]
fn only_the_user_who_was_asked_can_answer_with_the_scope_for_it() {
    let lab = Lab::new(&["ann", "bob"], &json!({}));
    let with_scope = |name: &str| {
        let key = lab.site.run(&["users", "keys", "add", name, "--name", "person", "--scope", "mcp,api,approve"]);
        let key = key.split_whitespace().find(|word| word.starts_with("crk_")).unwrap().to_owned();
        lab.site.client_with(&key)
    };
    let (program, ann, bob) = (lab.site.client("ann"), with_scope("ann"), with_scope("bob"));
    let first = created(&program, &json!({"input": "Wipe."}));
    let body = answers(&first, true);
    refused(&program.post("/v1/responses", &body), 403, "scope approve");
    refused(&bob.post("/v1/responses", &body), 404, "not found");
    let mut alone = body.clone();
    alone.as_object_mut().unwrap().remove("previous_response_id");
    refused(&bob.post("/v1/responses", &alone), 404, "not found");
    assert_eq!(lab.called("wipe"), 0);
    let second = created(&ann, &body);
    assert_eq!(types(&second), ["code_interpreter_call", "message"], "{second}");
    assert_eq!(lab.called("wipe"), 1);
}

#[test]
fn after_a_restart_the_code_runs_again_and_repeats_no_call() {
    let (mut lab, client) = Lab::local();
    let conversation = client.post("/v1/conversations", &json!({})).json()["id"].clone();
    let approved = created(&client, &json!({"input": "Wipe."}));
    let denied = created(&client, &json!({"input": "Wipe.", "conversation": conversation}));
    assert_eq!(lab.called("echo"), 2);
    lab.site.kill();
    lab.site.start();
    let client = local_key(&lab.site);
    assert_eq!(shown(&client, &approved), approved);
    let second = created(&client, &answers(&approved, true));
    assert_eq!(types(&second), ["code_interpreter_call", "message"], "{second}");
    assert!(output(&second).contains("xxx"), "the code ran again: {second}");
    assert_eq!((lab.called("echo"), lab.called("wipe")), (2, 1));
    let mut body = answers(&denied, false);
    body.as_object_mut().unwrap().remove("previous_response_id");
    body["conversation"] = conversation;
    let second = created(&client, &body);
    assert!(output(&second).contains("refused"), "{second}");
    assert_eq!((lab.called("echo"), lab.called("wipe")), (2, 1));
    refused(&client.post("/v1/responses", &answers(&approved, true)), 409, "already continued");
    let log = client.get("/api/approvals?state=ended").json();
    let decisions: Vec<&str> =
        log["approvals"].as_array().unwrap().iter().map(|ended| ended["decision"].as_str().unwrap()).collect();
    assert_eq!(decisions, ["refuse", "once"], "{log}");
}

#[test]
fn a_question_that_no_one_answers_in_time_counts_as_refused() {
    let lab = Lab::new(&[], &json!({"approval_seconds": 1}));
    let client = local_key(&lab.site);
    let first = created(&client, &json!({"input": "Wipe."}));
    let path = format!("/api/approvals/{}", questions(&first)[0]["id"].as_str().unwrap());
    eventually("the question times out", || client.get(&path).json()["state"] == "timed_out");
    refused(&client.post("/v1/responses", &answers(&first, true)), 409, "timed out");
    let second = created(&client, &answers(&first, false));
    assert_eq!(types(&second), ["code_interpreter_call", "message"], "{second}");
    assert_eq!((lab.called("echo"), lab.called("wipe")), (1, 0));
}

#[test]
fn runs_in_the_background_wait_and_show_what_they_asked() {
    let (lab, client) = Lab::local();
    let begun = created(&client, &json!({"input": "Wipe.", "background": true}));
    let mut open = json!(null);
    eventually("there is a question", || {
        open = client.get("/api/approvals?state=open").json()["approvals"][0]["id"].clone();
        open.is_string()
    });
    eventually("the question is an item", || !questions(&shown(&client, &begun)).is_empty());
    let waiting = shown(&client, &begun);
    assert_eq!((&waiting["status"], &questions(&waiting)[0]["id"]), (&json!("in_progress"), &open));
    refused(&client.post("/v1/responses", &answers(&waiting, true)), 400, "/api/approvals/");
    let path = format!("/api/approvals/{}", open.as_str().unwrap());
    assert_eq!(client.post(&path, &json!({"decision": "once"})).status, 200);
    eventually("the run ends", || shown(&client, &begun)["status"] == "completed");
    let ended = shown(&client, &begun);
    assert_eq!(types(&ended), ["message", "code_interpreter_call", "mcp_approval_request", "message"], "{ended}");
    assert_eq!(lab.called("wipe"), 1);
    // A response that is not stored could not be continued, so the call is refused.
    let response = created(&client, &json!({"input": "Wipe.", "store": false}));
    assert_eq!(types(&response), ["message", "code_interpreter_call", "message"], "{response}");
    assert_eq!(lab.called("wipe"), 1);
}

#[test]
fn the_official_client_answers_questions() {
    let (lab, _) = Lab::local();
    let done = Command::new(installed::path("venv-openai/bin/python"))
        .args(["-I", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/users/openai_approvals.py")])
        .args([format!("http://{}/v1", lab.site.address()), key_of(&lab.site)])
        .output()
        .unwrap();
    let (said, complained) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{said}\n{complained}");
    assert_eq!(lab.called("wipe"), 2, "{said}");
}

#[test]
fn a_request_can_want_more_approvals_but_not_fewer() {
    let (mut lab, client) = Lab::local();
    let ask = |require: Value| {
        let tools = json!([{"type": "mcp", "server_label": "plain", "require_approval": require}]);
        created(&client, &json!({"input": "Wipe.", "tools": tools}))
    };
    let name = |response: &Value| questions(response)[0]["name"].clone();
    for require in [json!("never"), json!({"never": {"tool_names": ["wipe"]}}), json!(null)] {
        assert_eq!(name(&ask(require.clone())), "wipe", "{require}");
    }
    assert_eq!((lab.called("echo"), lab.called("wipe")), (3, 0));
    for require in [json!("always"), json!({"always": {"tool_names": ["echo"]}})] {
        assert_eq!(name(&ask(require.clone())), "echo", "{require}");
    }
    assert_eq!(name(&ask(json!({"always": {"tool_names": ["note"]}}))), "wipe");
    assert_eq!((lab.called("echo"), lab.called("wipe")), (4, 0));
    let (first, other) = (ask(json!("always")), ask(json!("always")));
    let second = created(&client, &answers(&first, true));
    assert_eq!((name(&second), lab.called("echo")), (json!("wipe"), 5), "{second}");
    let third = created(&client, &answers(&second, true));
    assert_eq!(types(&third), ["code_interpreter_call", "message"], "{third}");
    assert_eq!((lab.called("echo"), lab.called("wipe")), (5, 1));
    let wrong = json!([{"type": "mcp", "server_label": "plain", "require_approval": 7}]);
    refused(&client.post("/v1/responses", &json!({"input": "x", "tools": wrong})), 400, "require_approval");
    // The wish outlives the process: code that runs again does not make a call that was refused.
    lab.site.kill();
    lab.site.start();
    let second = created(&local_key(&lab.site), &answers(&other, false));
    assert!(output(&second).contains("refused"), "{second}");
    assert_eq!((lab.called("echo"), lab.called("wipe")), (5, 1));
}
