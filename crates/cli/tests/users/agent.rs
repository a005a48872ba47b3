//! The agent behind `/v1` and `coracle task`, with a scripted model.

use crate::playing::{Playing, computes, events, local_key};
use crate::site::Site;
use coracle_scripted_model::{Library, Step};
use coracle_testing::harness::{As, Coracle};
use coracle_testing::wait::eventually;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::io::Read as _;
use std::path::Path;
use std::process::Stdio;

pub(crate) fn asked(text: &str) -> Value {
    json!({"model": "lab/demo", "messages": [{"role": "user", "content": text}]})
}

fn content(events: &[String]) -> String {
    let text = |event: &String| {
        let event: Value = serde_json::from_str(event).ok()?;
        Some(event["choices"][0]["delta"]["content"].as_str()?.to_owned())
    };
    events.iter().filter_map(text).collect()
}

#[test]
fn a_task_is_done_on_every_wire() {
    for api in ["chat", "responses", "messages"] {
        let model = Playing::new(computes());
        let coracle = Coracle::new(As::current());
        std::fs::write(coracle.workspace().join("coracle.yaml"), model.settings(api)).unwrap();
        let task = |more: &[&str]| {
            let mut command = coracle.command();
            command.current_dir(coracle.workspace()).stdin(Stdio::null()).args(["task", "What is 6 times 7?"]);
            command.args(more).output().unwrap()
        };
        let done = task(&[]);
        let (answer, work) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        assert_eq!(done.status.code(), Some(0), "{api}: {work}");
        assert!(answer.starts_with("I compute it.\nIt is 42"), "{api}: {answer}");
        assert!(work.contains("result = 6 * 7") && work.contains("  working"), "{api}: {work}");
        let report: Value = serde_json::from_slice(&task(&["--json"]).stdout).unwrap();
        assert_eq!((&report["success"], &report["steps"]), (&json!(true), &json!(2)), "{api}: {report}");
        assert!(report["result"].as_str().unwrap().starts_with("It is 42"), "{api}: {report}");
    }
}

/// A model whose code calls tools and leaves an artifact.
fn calls_tools() -> Library {
    let code = "from servers.plain import echo, fail\necho(text='hi')\ntry:\n    fail(message='no')\nexcept Exception:\n    \
                pass\nopen('/artifacts/note.txt', 'w').write('x')";
    Library::single([vec![Step::call("execute_code", json!({"code": code}))], vec![Step::text("Done.")]])
}

/// Settings with the model and a server with tools.
fn with_tools(model: &Playing, folder: &Path) -> String {
    let script = folder.join("plain.py");
    std::fs::write(&script, include_str!("../mcp/bridge/fixtures/plain.py")).unwrap();
    let log = json!({"PLAIN_LOG": folder.join("plain.log")});
    let plain = json!({"command": "/usr/bin/python3", "args": ["-I", script], "env": log});
    format!("{}mcpServers: {}\n", model.settings("chat"), json!({"plain": plain}))
}

#[test]
fn tool_calls_of_code_are_shown() {
    let model = Playing::new(calls_tools());
    let coracle = Coracle::new(As::current());
    let settings = with_tools(&model, &coracle.workspace());
    std::fs::write(coracle.workspace().join("coracle.yaml"), settings).unwrap();
    let task = |more: &[&str]| {
        let mut command = coracle.command();
        command.current_dir(coracle.workspace()).stdin(Stdio::null()).args(["task", "Call tools."]);
        let done = command.args(more).output().unwrap();
        let (answer, work) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        assert_eq!((done.status.code(), answer.trim()), (Some(0), "Done."), "{work}");
        work.into_owned()
    };
    let work = task(&[]);
    for expected in [
        r#"  → plain.echo {"text":"hi"}"#,
        "  ← plain.echo ",
        r#"  → plain.fail {"message":"no"}"#,
        "  ← plain.fail failed: tool_error, ",
        "  /artifacts/note.txt (text/plain, 1 bytes)",
    ] {
        assert!(work.contains(expected), "{expected}: {work}");
    }
    assert!(!task(&["--quiet"]).contains("plain.echo"));

    let site = Site::with_settings(As::current(), &[], &with_tools(&model, &coracle.workspace()));
    let client = local_key(&site);
    let mut body = asked("Call tools.");
    assert!(!client.post("/v1/chat/completions", &body).text().contains("plain.echo"));
    body["coracle"] = json!({"activity": "reasoning"});
    let answer = client.post("/v1/chat/completions", &body).json();
    let reasoning = answer["choices"][0]["message"]["reasoning_content"].as_str().unwrap();
    assert!(reasoning.contains(r#"`plain.echo` {"text":"hi"}"#), "{reasoning}");
}

#[test]
fn a_server_is_started_while_the_model_writes_the_code_that_uses_it() {
    let code = Step::call("execute_code", json!({"code": "from servers.plain import echo\necho(text='hi')"}));
    let turn = vec![Step::gate("before"), code, Step::gate("after")];
    let model = Playing::new(Library::single([turn, vec![Step::text("Done.")]]));
    let coracle = Coracle::new(As::current());
    let folder = coracle.workspace();
    std::fs::write(folder.join("coracle.yaml"), with_tools(&model, &folder)).unwrap();
    let starts = || {
        let log = std::fs::read_to_string(folder.join("plain.log")).unwrap_or_default();
        log.lines().filter(|line| line.starts_with("start ")).count()
    };
    let gates = model.model.gates();
    let task = || {
        let mut command = coracle.command();
        command.current_dir(&folder).args(["task", "Call a tool."]).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    // The first task learns the tools. Later ones do not start the server to list them.
    gates.open("before");
    gates.open("after");
    assert!(task().wait_with_output().unwrap().status.success());
    gates.close("before");
    gates.close("after");
    let known = starts();
    let child = task();
    model.runtime.block_on(gates.reached("before"));
    assert_eq!(starts(), known);
    gates.open("before");
    model.runtime.block_on(gates.reached("after"));
    eventually("the server is started before the answer is complete", || starts() == known + 1);
    gates.open("after");
    let done = child.wait_with_output().unwrap();
    assert_eq!((done.status.code(), starts()), (Some(0), known + 1), "{done:?}");
}

#[test]
fn a_task_without_a_model_says_what_to_set() {
    let coracle = Coracle::new(As::current());
    let task = |arguments: &[&str]| {
        let output = coracle.command().arg("task").args(arguments).stdin(Stdio::null()).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, said) = task(&["do it"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("no model is configured") && said.contains("agent.default_model"), "{said}");
    let (code, said) = task(&["--model", "anthropic/claude", "do it"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("ANTHROPIC_API_KEY"), "{said}");
    let (code, said) = task(&["-"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("the task is empty"), "{said}");
}

#[test]
fn a_task_begins_with_selected_tools() {
    let model = Playing::new(Library::single([vec![Step::text("Done.")]]));
    let coracle = Coracle::new(As::current());
    let folder = coracle.workspace();
    std::fs::write(folder.join("coracle.yaml"), with_tools(&model, &folder)).unwrap();
    let task = |more: &[&str]| {
        let mut command = coracle.command();
        command.current_dir(&folder).stdin(Stdio::null()).args(["task", "echo a text"]);
        command.args(more).output().unwrap()
    };
    let done = task(&["--verbose"]);
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(said.contains("tools selected: plain.echo"), "{said}");
    let report: Value = serde_json::from_slice(&task(&["--verbose", "--json"]).stdout).unwrap();
    assert!(report["selected_tools"].as_array().unwrap().contains(&json!("plain.echo")), "{report}");
    assert!(report["found_tools"].as_array().unwrap().contains(&json!("plain.echo")), "{report}");
    let asked = model.model.requests().last().unwrap().body["messages"][0].to_string();
    assert!(asked.contains("servers.plain.echo"), "{asked}");

    // Without a model, the tools are still found.
    let settings = with_tools(&model, &folder).replace("default_model: lab/demo", "max_steps: 5");
    std::fs::write(folder.join("coracle.yaml"), settings.replace("    lab:", "    openai:")).unwrap();
    let done = task(&["--model", "anthropic/claude"]);
    let (program, said) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert_eq!(done.status.code(), Some(2), "{said}");
    assert!(
        said.contains("ANTHROPIC_API_KEY") && program.contains("from servers.plain import echo"),
        "{said}{program}"
    );
}

#[test]
fn a_chat_completion_runs_code_and_answers() {
    let model = Playing::new(computes());
    let site = Site::with_settings(As::current(), &[], &model.settings("chat"));
    let client = local_key(&site);
    let answer = client.post("/v1/chat/completions", &asked("What is 6 times 7?"));
    assert_eq!(answer.status, 200, "{}", answer.text());
    let answer = answer.json();
    let choice = &answer["choices"][0];
    assert!(choice["message"]["content"].as_str().unwrap().starts_with("I compute it.\n\nIt is 42"), "{answer}");
    assert_eq!((&choice["finish_reason"], &choice["message"]["tool_calls"]), (&json!("stop"), &Value::Null));
    assert!(answer["usage"]["total_tokens"].as_u64() > Some(0), "{answer}");
    // The same, streamed: the code is not sent as a tool call.
    let mut body = asked("What is 6 times 7?");
    body["stream"] = true.into();
    body["stream_options"] = json!({"include_usage": true});
    let events = events(&client.post("/v1/chat/completions", &body).text());
    assert!(content(&events).starts_with("I compute it.\n\nIt is 42"), "{events:#?}");
    assert_eq!(events.last().unwrap(), "[DONE]");
    let usage: Value = serde_json::from_str(&events[events.len() - 2]).unwrap();
    assert_eq!(usage["choices"], json!([]));
    assert!(usage["usage"]["completion_tokens"].as_u64() > Some(0));
    assert!(events.iter().all(|event| !event.contains("tool_calls") && !event.contains("6 * 7")), "{events:#?}");
    // Unless the client asks to see it.
    body["coracle"] = json!({"activity": "reasoning"});
    let text = client.post("/v1/chat/completions", &body).text();
    assert!(text.contains("reasoning_content") && text.contains("6 * 7"), "{text}");
    let models = client.get("/v1/models").json();
    assert_eq!(models["data"][0]["id"], "lab/demo", "{models}");
}

#[test]
fn tools_of_the_client_are_passed_through() {
    let weather = Step::call("get_weather", json!({"city": "Rome"}));
    let code = Step::call("execute_code", json!({"code": "result = 1"}));
    let library =
        Library::single([vec![code], vec![Step::text("I ask you."), weather], vec![Step::text("It is {{result}}.")]]);
    for api in ["chat", "responses", "messages"] {
        let model = Playing::new(library.clone());
        let site = Site::with_settings(As::current(), &[], &model.settings(api));
        let client = local_key(&site);
        let mut body = asked("How is the weather in Rome?");
        let city = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
        body["tools"] = json!([{"type": "function", "function": {"name": "get_weather", "parameters": city}}]);
        let answer = client.post("/v1/chat/completions", &body).json();
        let message = answer["choices"][0]["message"].clone();
        assert_eq!(answer["choices"][0]["finish_reason"], "tool_calls", "{api}: {answer}");
        assert_eq!(message["tool_calls"].as_array().unwrap().len(), 1, "{api}: {answer}");
        assert_eq!(message["tool_calls"][0]["function"]["name"], "get_weather", "{api}: {answer}");
        let id = message["tool_calls"][0]["id"].clone();
        let messages = body["messages"].as_array_mut().unwrap();
        messages.push(message);
        messages.push(json!({"role": "tool", "tool_call_id": id, "content": "sunny"}));
        let answer = client.post("/v1/chat/completions", &body).json();
        assert_eq!(answer["choices"][0]["message"]["content"], "It is sunny.", "{api}: {answer}");
        // The model still knows the code that it ran before, which the client never saw.
        let last = model.model.requests().last().unwrap();
        assert_eq!(last.played.unwrap().turn, 2, "{api}");
        assert!(last.body.to_string().contains("execute_code"), "{api}");
    }
}

#[test]
fn a_server_without_users_requires_its_key() {
    let model = Playing::new(computes());
    let site = Site::with_settings(As::current(), &[], &model.settings("chat"));
    for key in ["", "coracle_local_wrong", "crk_x"] {
        let answer = site.client_with(key).post("/v1/chat/completions", &asked("x"));
        assert_eq!(answer.status, 401, "{}", answer.text());
        let error = answer.json()["error"].clone();
        assert_eq!((&error["code"], &error["type"]), (&json!("invalid_api_key"), &json!("authentication_error")));
        assert_eq!(site.client_with(key).get("/v1/models").status, 401);
    }
    assert_eq!(model.model.requests().count(), 0);
    assert_eq!(local_key(&site).post("/v1/chat/completions", &asked("x")).status, 200);
}

#[test]
fn a_link_signs_one_browser_in() {
    let model = Playing::new(computes());
    let site = Site::with_settings(As::current(), &[], &model.settings("chat"));
    let said = site.said_until("/sign-in/");
    let link = said.split_once("/sign-in/").unwrap().1.split_whitespace().next().unwrap();
    let browser = site.client_with("");
    let pressed = || browser.answer("POST", &format!("/sign-in/{link}"), "", b"");
    let (status, head) = pressed();
    assert_eq!(status, 303, "{head}");
    let cookie = head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap().split(';').next().unwrap();
    assert_eq!(pressed().0, 401);
    let body = asked("x").to_string();
    let ask = |more: &str| {
        let headers = format!("content-type: application/json\r\ncookie: {cookie}\r\n{more}");
        browser.answer("POST", "/v1/chat/completions", &headers, body.as_bytes()).0
    };
    assert_eq!(ask(""), 401);
    assert_eq!(model.model.requests().count(), 0);
    assert_eq!(ask("x-coracle-csrf: 1\r\n"), 200);
}

#[test]
fn with_users_the_key_of_a_user_counts() {
    let model = Playing::new(computes());
    let site = Site::with_settings(As::current(), &["ann", "bob"], &model.settings("chat"));
    assert_eq!(local_key(&site).post("/v1/chat/completions", &asked("x")).status, 401);
    assert_eq!(site.client_with("").post("/v1/chat/completions", &asked("x")).status, 401);
    assert_eq!(site.client("ann").post("/v1/chat/completions", &asked("x")).status, 200);
    let runs = |user: &str| site.client(user).get("/api/executions").json().as_array().unwrap().len();
    assert_eq!((runs("ann"), runs("bob")), (1, 0));
}

#[test]
fn what_the_agent_did_stays_with_its_user() {
    let weather = Step::call("get_weather", json!({"city": "Rome"}));
    let code = Step::call("execute_code", json!({"code": "result = 'secret of ann'"}));
    let model = Playing::new(Library::single([vec![code], vec![weather], vec![Step::text("done")]]));
    let site = Site::with_settings(As::current(), &["ann", "bob"], &model.settings("chat"));
    let mut body = asked("x");
    body["tools"] = json!([{"type": "function", "function": {"name": "get_weather"}}]);
    let answer = site.client("ann").post("/v1/chat/completions", &body).json();
    let message = answer["choices"][0]["message"].clone();
    let id = message["tool_calls"][0]["id"].clone();
    let messages = body["messages"].as_array_mut().unwrap();
    messages.push(message);
    messages.push(json!({"role": "tool", "tool_call_id": id, "content": "sunny"}));
    // Bob repeats Ann's request, and the model does not learn what Ann's code did.
    site.client("bob").post("/v1/chat/completions", &body);
    let seen = model.model.requests().last().unwrap().body.to_string();
    assert!(!seen.contains("secret of ann"), "{seen}");
    site.client("ann").post("/v1/chat/completions", &body);
    let seen = model.model.requests().last().unwrap().body.to_string();
    assert!(seen.contains("secret of ann"), "{seen}");
}

#[test]
fn a_client_that_leaves_ends_the_model_and_the_code() {
    let endless = Step::call("execute_code", json!({"code": "while True: pass", "timeout_seconds": 600}));
    let model = Playing::new(
        Library::single([vec![endless]])
            .with("waits", coracle_scripted_model::Script::new([vec![Step::gate("never")]])),
    );
    let site = Site::with_settings(As::current(), &[], &model.settings("chat"));
    let client = local_key(&site);
    let running = || {
        let all = client.get("/api/executions").json();
        let is_running = |run: &&Value| run["state"] == "running";
        all.as_array().unwrap().iter().filter(is_running).count()
    };
    let leaving = client.begin("/v1/chat/completions", &asked("run"));
    eventually("the code runs", || running() == 1);
    drop(leaving);
    eventually("the code ends", || running() == 0);
    let leaving = client.begin("/v1/chat/completions", &asked("[script:waits]"));
    model.runtime.block_on(model.model.gates().reached("never"));
    drop(leaving);
    model.runtime.block_on(model.model.requests().abandoned(1));
}

#[test]
fn errors_have_the_form_that_clients_expect() {
    let full = Step::Status(coracle_scripted_model::Status::new(429));
    let model = Playing::new(Library::single([vec![full]]));
    let settings = model.settings("chat") + "  max_steps: 3\n";
    let site = Site::with_settings(As::current(), &[], &settings);
    let client = local_key(&site);
    let error = |body: &Value| {
        let answer = client.post("/v1/chat/completions", body);
        (answer.status, answer.json()["error"].clone())
    };
    let (status, said) = error(&json!({"model": "lab/demo", "messages": []}));
    assert_eq!((status, &said["param"], &said["type"]), (400, &json!("messages"), &json!("invalid_request_error")));
    let (status, said) = error(&json!({"model": "lab/demo"}));
    assert_eq!((status, &said["type"]), (400, &json!("invalid_request_error")), "{said}");
    let (status, said) = error(&json!({"model": "openai/gpt-5", "messages": [{"role": "user", "content": "x"}]}));
    assert_eq!((status, &said["code"], &said["param"]), (400, &json!("no_api_key"), &json!("model")), "{said}");
    let mut own = asked("x");
    own["tools"] = json!([{"type": "function", "function": {"name": "execute_code"}}]);
    let (status, said) = error(&own);
    assert_eq!((status, &said["param"]), (400, &json!("tools")), "{said}");
    let (status, said) = error(&asked("x"));
    assert_eq!((status, &said["code"]), (429, &json!("model_rate_limited")), "{said}");
    for (method, path, status) in [("GET", "/v1/nothing", 404), ("DELETE", "/v1/chat/completions", 405)] {
        let answer = client.ask(method, path, "application/json", b"").unwrap();
        assert_eq!(answer.status, status, "{}", answer.text());
        assert!(answer.json()["error"]["message"].is_string());
    }
    let mut streamed =
        client.begin("/v1/chat/completions", &json!({"stream": true, "messages": [{"role": "user", "content": "x"}]}));
    let mut head = [0; 12];
    streamed.read_exact(&mut head).unwrap();
    assert_eq!(&head, b"HTTP/1.1 429");
}

#[test]
fn a_model_on_this_machine_is_not_asked_through_a_proxy() {
    let model = Playing::new(computes());
    let coracle = Coracle::new(As::current());
    std::fs::write(coracle.workspace().join("coracle.yaml"), model.settings("chat")).unwrap();
    let mut command = coracle.command();
    // Nothing listens on this port.
    command.env("HTTP_PROXY", "http://127.0.0.1:9").env("http_proxy", "http://127.0.0.1:9");
    command.current_dir(coracle.workspace()).args(["task", "compute"]).stdin(Stdio::null());
    let done = command.output().unwrap();
    assert_eq!(done.status.code(), Some(0), "{}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn ctrl_c_stops_a_task() {
    let model = Playing::new(Library::single([vec![Step::text("I begin."), Step::gate("never")]]));
    let coracle = Coracle::new(As::current());
    std::fs::write(coracle.workspace().join("coracle.yaml"), model.settings("chat")).unwrap();
    let mut command = coracle.command();
    command.current_dir(coracle.workspace()).args(["task", "begin"]).stdin(Stdio::null());
    let mut task = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    model.runtime.block_on(model.model.gates().reached("never"));
    kill_process(Pid::from_raw(task.id().cast_signed()).unwrap(), Signal::INT).unwrap();
    let mut said = String::new();
    task.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(task.wait().unwrap().code(), Some(130), "{said}");
    assert!(said.contains("error: cancelled"), "{said}");
    model.runtime.block_on(model.model.requests().abandoned(1));
}
