//! Uploaded files, files that code left for its user, the rate limit, and executions that wait for an approval.

use crate::playing::{Playing, key_of, local_key};
use crate::site::{Answer, Client, Site};
use coracle_scripted_model::{Library, Script, Step};
use coracle_testing::harness::As;
use coracle_testing::installed;
use coracle_testing::wait::eventually;
use serde_json::{Value, json};
use std::process::Command;

fn reads() -> Library {
    let read = "import glob\nresult = open(sorted(glob.glob('uploads/*-data.csv'))[-1]).read()";
    let write = "open('/artifacts/report.txt', 'w').write('figures')";
    let code = |code: &str| Step::call("execute_code", json!({ "code": code }));
    Library::single([vec![code(read)], vec![Step::text("It says {{result}}.")]])
        .with("write", Script::new([vec![code(write)], vec![Step::text("See report.txt.")]]))
}

/// A form with these fields, and with a file if there is one.
fn form(fields: &[(&str, &str)], file: Option<(&str, &[u8])>) -> Vec<u8> {
    let mut body = Vec::new();
    for (name, value) in fields {
        body.extend(format!("--b\r\ncontent-disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n").bytes());
    }
    if let Some((name, content)) = file {
        let head = format!("--b\r\ncontent-disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\r\n");
        body.extend([head.as_bytes(), content, b"\r\n"].concat());
    }
    body.extend(b"--b--\r\n");
    body
}

fn send(client: &Client, body: &[u8]) -> Answer {
    client.ask("POST", "/v1/files", "multipart/form-data; boundary=b", body).unwrap()
}

pub(crate) fn uploaded(client: &Client, name: &str, content: &[u8]) -> Value {
    let answer = send(client, &form(&[("purpose", "user_data")], Some((name, content))));
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

fn listed(client: &Client) -> usize {
    client.get("/v1/files").json()["data"].as_array().unwrap().len()
}

#[test]
fn the_official_client_uses_files_and_containers() {
    for api in ["chat", "responses"] {
        let model = Playing::new(reads());
        let site = Site::with_settings(As::current(), &[], &model.settings(api));
        let done = Command::new(installed::path("venv-openai/bin/python"))
            .args(["-I", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/users/openai_files.py")])
            .args([format!("http://{}/v1", site.address()), key_of(&site)])
            .output()
            .unwrap();
        let (said, complained) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        assert!(done.status.success(), "{api}: {said}\n{complained}");
        // The model learns where files are, and sees images.
        let seen: String = model.model.requests().all().iter().map(|request| request.body.to_string()).collect();
        assert!(seen.contains("Code can read it at") && seen.contains("/workspace/uploads/file-"), "{api}");
        assert!(seen.contains("data:image/png;base64,iVBORw0KGgo"), "{api}");
    }
}

#[test]
fn users_cannot_reach_files_and_containers_of_others() {
    let model = Playing::new(reads());
    let site = Site::with_settings(As::current(), &["ann", "bob"], &model.settings("chat"));
    let (ann, bob) = (site.client("ann"), site.client("bob"));
    let file = uploaded(&ann, "data.csv", b"secret");
    let response = ann.post("/v1/responses", &json!({"input": "[script:write]"})).json();
    let citation = &response["output"][1]["content"][0]["annotations"][0];
    let (container, artifact) = (citation["container_id"].as_str().unwrap(), citation["file_id"].as_str().unwrap());
    let id = file["id"].as_str().unwrap();
    let of_container = format!("/v1/containers/{container}/files");
    let paths = [
        format!("/v1/files/{id}"),
        format!("/v1/files/{id}/content"),
        of_container.clone(),
        format!("{of_container}/{artifact}"),
        format!("{of_container}/{artifact}/content"),
    ];
    let input = json!([{"role": "user", "content": [{"type": "input_file", "file_id": id}]}]);
    let message = json!([{"role": "user", "content": [{"type": "file", "file": {"file_id": id}}]}]);
    let uses = |client: &Client| {
        let responses = client.post("/v1/responses", &json!({ "input": input })).status;
        (responses, client.post("/v1/chat/completions", &json!({ "messages": message })).status)
    };
    for path in &paths {
        assert_eq!((bob.get(path).status, ann.get(path).status), (404, 200), "{path}");
    }
    assert_eq!((uses(&bob), uses(&ann)), ((404, 404), (200, 200)));
    // In the container of bob there is no file of ann.
    let own = bob.post("/v1/responses", &json!({"input": "[script:write]"})).json();
    let own = own["output"][1]["content"][0]["annotations"][0]["container_id"].as_str().unwrap().to_owned();
    assert_ne!(own, container);
    assert_eq!(bob.get(&format!("/v1/containers/{own}/files/{artifact}/content")).status, 404);
    assert_eq!((listed(&bob), listed(&ann)), (0, 1));
    let delete = |client: &Client| client.ask("DELETE", &paths[0], "application/json", b"").unwrap().status;
    assert_eq!((delete(&bob), delete(&ann), delete(&ann)), (404, 200, 404));
    assert_eq!(bob.get("/v1/files/..%2F..%2Fann").status, 404);
}

#[test]
fn files_in_a_request_are_uploaded_if_the_request_is_stored() {
    let model = Playing::new(reads());
    let settings = format!("{}execution: {{ limits: {{ file_mb: 1 }} }}\n", model.settings("chat"));
    let site = Site::with_settings(As::current(), &[], &settings);
    let client = local_key(&site);
    let ask = |data: &str, store: bool| {
        let part = json!({"type": "input_file", "filename": "../sum.csv", "file_data": data});
        let input = json!([{"role": "user", "content": [part]}]);
        client.post("/v1/responses", &json!({ "input": input, "store": store }))
    };
    // "a,b\n" in base64.
    for (stored, data) in (1..).zip(["YSxiCg==", "data:text/csv;base64,YSxiCg=="]) {
        let answer = ask(data, true);
        assert_eq!((answer.status, listed(&client)), (200, stored), "{}", answer.text());
    }
    let id = client.get("/v1/files").json()["data"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(client.get(&format!("/v1/files/{id}/content")).text(), "a,b\n");
    let seen: String = model.model.requests().all().iter().map(|request| request.body.to_string()).collect();
    assert!(seen.contains("Code can read it at") && seen.contains("-sum.csv"), "{seen}");
    // The second is larger than a request may be.
    let [large, too_large] = [1_000_000, 2_100_000].map(|times| "AAAA".repeat(times));
    for (data, store, status, words) in [
        ("YSxiCg==", false, 400, "not stored"),
        ("not base64!", true, 400, "base64"),
        (&large, true, 413, "file_mb"),
        (&too_large, true, 413, "longer than 8388608 bytes"),
    ] {
        let answer = ask(data, store);
        let text = answer.text();
        assert!(answer.status == status && text.contains(words), "{words}: {} {text}", answer.status);
    }
    let message = json!([{"role": "user", "content": [{"type": "file", "file": {"file_data": "YSxiCg=="}}]}]);
    assert_eq!(client.post("/v1/chat/completions", &json!({ "messages": message })).status, 400);
    assert_eq!(listed(&client), 2);
}

#[test]
fn uploads_that_cannot_be_kept_leave_nothing() {
    let model = Playing::new(reads());
    let settings = format!("{}execution: {{ limits: {{ file_mb: 1 }} }}\n", model.settings("chat"));
    let site = Site::with_settings(As::current(), &[], &settings);
    let client = local_key(&site);
    let file = ("data.csv", &b"a,b"[..]);
    let whole = form(&[("purpose", "user_data")], Some(file));
    let large = vec![b'x'; 1_000_001];
    for (body, status, words) in [
        (form(&[], Some(file)), 400, "purpose"),
        (form(&[("purpose", "world domination")], Some(file)), 400, "user_data"),
        (form(&[("purpose", "user_data")], None), 400, "file"),
        (whole[..whole.len() - 12].to_vec(), 400, "ends too early"),
        (form(&[("purpose", "user_data")], Some(("data.csv", &large))), 413, "file_mb"),
        (Vec::new(), 400, "ends too early"),
    ] {
        let answer = send(&client, &body);
        let text = answer.text();
        assert!(answer.status == status && text.contains(words), "{words}: {} {text}", answer.status);
        assert!(answer.json()["error"]["message"].is_string(), "{text}");
        assert_eq!(listed(&client), 0, "{words}");
    }
    let wrong = client.post("/v1/files", &json!({"purpose": "user_data"}));
    assert_eq!(wrong.status, 415, "{}", wrong.text());
    // The same, with nothing wrong. A purpose can also come last, and names cannot leave the folder.
    assert_eq!(send(&client, &whole).status, 200);
    let mut last = form(&[], Some(("../../evil.csv", &large[..1_000_000])));
    last.truncate(last.len() - "--b--\r\n".len());
    last.extend(form(&[("purpose", "vision")], None));
    let file = send(&client, &last).json();
    assert_eq!((&file["filename"], &file["purpose"]), (&json!("evil.csv"), &json!("vision")), "{file}");
    assert_eq!((&file["bytes"], listed(&client)), (&json!(1_000_000), 2));
    let found = client.get("/api/workspace/files?path=uploads").json();
    assert_eq!(found["files"].as_array().unwrap().len(), 2, "{found}");
}

#[test]
fn requests_beyond_the_rate_limit_are_refused() {
    let model = Playing::new(reads());
    let settings = format!("{}server: {{ requests_per_minute: 5 }}\n", model.settings("chat"));
    let site = Site::with_settings(As::current(), &["ann", "bob"], &settings);
    let (ann, bob) = (site.client("ann"), site.client("bob"));
    let until_refused = |path: &str| {
        // On a slow machine, further requests become possible meanwhile.
        let mut answers = (0..100).map(|_| ann.post(path, &json!({"code": "1", "model": "x", "messages": []})));
        answers.find(|answer| answer.status == 429).unwrap_or_else(|| panic!("{path} has no limit"))
    };
    let refused = until_refused("/v1/chat/completions").json();
    assert_eq!(refused["error"]["code"], "rate_limit_exceeded", "{refused}");
    assert_eq!(refused["error"]["type"], "rate_limit_error", "{refused}");
    let refused = until_refused("/api/executions").json();
    assert_eq!(refused["code"], "rate_limit_exceeded", "{refused}");
    // Reads of `/api` have no limit, and each key has its own.
    assert!((0..20).all(|_| ann.get("/api/executions").status == 200));
    assert_eq!(bob.get("/v1/models").status, 200);
    let headers = format!("authorization: Bearer {}\r\n", site.keys["ann"]);
    let refused = (0..100).map(|_| ann.answer("GET", "/v1/models", &headers, b"")).find(|(status, _)| *status == 429);
    let (_, head) = refused.unwrap();
    let head = head.to_ascii_lowercase();
    for name in [
        "retry-after: ",
        "x-ratelimit-limit-requests: 5",
        "x-ratelimit-remaining-requests: 0",
        "x-ratelimit-reset-requests: ",
    ] {
        assert!(head.contains(name), "{name}: {head}");
    }
}

#[test]
fn an_execution_waits_for_an_approval_if_it_should() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/bridge/fixtures/plain.py");
    let plain = json!({"command": "/usr/bin/python3", "args": ["-I", script]});
    let settings = json!({"mcpServers": {"plain": plain}}).to_string();
    let site = Site::with_settings(As::current(), &[], &settings);
    let client = site.client_with("none");
    let body = json!({"code": "from servers.plain import wipe\nwipe(what='x')\nresult = 'wiped'"});
    let refused = client.post("/api/executions", &body).json();
    assert_eq!(refused["success"], false, "{refused}");
    assert_eq!(client.post("/api/executions?approvals=always", &body).status, 400);
    let waiting = {
        let (client, body) = (client.clone(), body.clone());
        std::thread::spawn(move || client.post("/api/executions?approvals=wait", &body).json())
    };
    let mut open = json!(null);
    eventually("there is a question", || {
        open = client.get("/api/approvals?state=open").json()["approvals"][0].clone();
        open.is_object()
    });
    assert_eq!((&open["tool"], &open["doubt"]), (&json!("wipe"), &json!(null)), "{open}");
    let path = format!("/api/approvals/{}", open["id"].as_str().unwrap());
    assert_eq!(client.post(&path, &json!({"decision": "once"})).status, 200);
    let ended = waiting.join().unwrap();
    assert_eq!((&ended["success"], &ended["result"]), (&json!(true), &json!("wiped")), "{ended}");
}
