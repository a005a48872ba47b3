//! Limits and keys of single users behind `/v1`, with a scripted model.

use crate::agent::asked;
use crate::playing::{Playing, local_key};
use crate::site::{Client, Site};
use coracle_scripted_model::{Library, Step};
use coracle_testing::harness::{As, Coracle};
use serde_json::{Value, json};
use std::process::Stdio;

fn talks() -> Playing {
    Playing::new(Library::single([vec![Step::text("Hello.")]]))
}

/// A long conversation, so that few requests are needed.
fn long() -> Value {
    asked(&"Tell me more. ".repeat(500))
}

/// Asks until the limit is reached; returns the number of answers, and the error.
fn until_refused(client: &Client) -> (usize, Value) {
    for answers in 0..100 {
        let answer = client.post("/v1/chat/completions", &long());
        if answer.status != 200 {
            assert_eq!(answer.status, 429, "{}", answer.text());
            return (answers, answer.json()["error"].clone());
        }
    }
    panic!("the limit is never reached");
}

#[test]
fn each_user_has_a_number_of_tokens_per_day() {
    let model = talks();
    let settings = model.settings("chat") + "  daily_tokens: 4000\n";
    let mut site = Site::with_settings(As::current(), &["ann", "bob"], &settings);
    let (answers, error) = until_refused(&site.client("ann"));
    assert!(answers > 0, "{error}");
    let said = error["message"].as_str().unwrap();
    assert!(said.contains("agent.daily_tokens") && said.contains("4000"), "{error}");
    let asked = model.model.requests().count();
    assert_eq!(asked, u64::try_from(answers).unwrap(), "the model was asked beyond the limit");
    // The count of one user is not another's, and survives the server.
    assert_eq!(site.client("bob").post("/v1/chat/completions", &long()).status, 200);
    site.kill();
    site.start();
    assert_eq!(until_refused(&site.client("ann")).0, 0);
    assert_eq!(site.client("bob").post("/v1/chat/completions", &long()).status, 200, "the control");
}

#[test]
fn tasks_count_towards_the_day_of_the_local_user() {
    let model = talks();
    let coracle = Coracle::new(As::current());
    let task = |limit: u64| {
        let settings = model.settings("chat") + &format!("  daily_tokens: {limit}\n");
        std::fs::write(coracle.workspace().join("coracle.yaml"), settings).unwrap();
        let mut command = coracle.command();
        command.current_dir(coracle.workspace()).args(["task", "say hello"]).stdin(Stdio::null());
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert_eq!(task(1_000).0, Some(0));
    let refused = (0..20).map(|_| task(1_000)).find(|(code, _)| *code != Some(0)).expect("the limit is reached");
    assert_eq!(refused.0, Some(125), "{}", refused.1);
    assert!(refused.1.contains("agent.daily_tokens"), "{}", refused.1);
    assert_eq!(task(1_000_000).0, Some(0), "the control");
}

/// The credential that the model's server got last.
fn credential(model: &Playing) -> String {
    let last = model.model.requests().last().unwrap();
    last.headers.get("authorization").cloned().unwrap_or_default()
}

fn put_key(client: &Client, provider: &str, key: &str) -> (u16, String) {
    let body = json!({ "key": key }).to_string();
    let path = format!("/api/providers/{provider}/key");
    let answer = client.ask("PUT", &path, "application/json", body.as_bytes()).unwrap();
    let code = serde_json::from_slice::<Value>(&answer.body).unwrap_or_default()["code"].as_str().map(str::to_owned);
    (answer.status, code.unwrap_or_default())
}

#[test]
fn a_personal_key_is_used_for_its_user_only() {
    let model = talks();
    let settings = model.settings("chat").replace("api: chat", "api: chat, api_key: operators")
        + "  personal_keys: true\n  daily_tokens: 1000\n";
    let mut site = Site::with_settings(As::current(), &["ann", "bob"], &settings);
    let (ann, bob) = (site.client("ann"), site.client("bob"));
    assert_eq!(put_key(&ann, "lab", "anns-secret").0, 204);
    let ask = |client: &Client| client.post("/v1/chat/completions", &asked("x")).status;
    assert_eq!((ask(&ann), credential(&model).as_str()), (200, "Bearer anns-secret"));
    assert_eq!((ask(&bob), credential(&model).as_str()), (200, "Bearer operators"));
    // The limit of the day is for the operator's key.
    assert_eq!(until_refused(&bob).1["code"], "model_rate_limited");
    for _ in 0..3 {
        assert_eq!((ask(&ann), credential(&model).as_str()), (200, "Bearer anns-secret"));
    }

    let of = |client: &Client| {
        let list = client.get("/api/providers").json();
        assert!(!list.to_string().contains("secret"), "{list}");
        let lab = list["providers"].as_array().unwrap().iter().find(|one| one["name"] == "lab").unwrap().clone();
        (lab["usable"] == true, lab["personal_key"] == true)
    };
    assert_eq!((of(&ann), of(&bob)), ((true, true), (true, false)));
    for (provider, key, expected) in [
        ("nothing", "x", (404, "not_found")),
        ("ollama", "x", (404, "not_found")),
        ("lab", "", (400, "invalid_request")),
        ("lab", "two\nlines", (400, "invalid_request")),
        ("lab", &"x".repeat(5000), (400, "invalid_request")),
    ] {
        let (status, code) = put_key(&ann, provider, key);
        assert_eq!((status, code.as_str()), expected, "{provider}");
    }
    // The key is not in the database as text, and survives the server.
    site.stop();
    let stored = std::fs::read(site.coracle.home().join("store/coracle.db")).unwrap();
    assert!(!stored.windows(11).any(|part| part == b"anns-secret"));
    site.start();
    let (ann, bob) = (site.client("ann"), site.client("bob"));
    assert_eq!((ask(&ann), credential(&model).as_str()), (200, "Bearer anns-secret"));
    let delete = |client: &Client| client.ask("DELETE", "/api/providers/lab/key", "text/plain", b"").unwrap().status;
    assert_eq!((delete(&bob), delete(&ann), delete(&ann)), (404, 204, 404));
    assert_eq!((ask(&ann), credential(&model).as_str()), (200, "Bearer operators"));
}

#[test]
fn a_server_without_users_takes_keys_from_whoever_started_it() {
    let mut site = Site::with_settings(As::current(), &[], "agent: { find_local_servers: false }\n");
    let anyone = site.client_with("");
    let put = |client: &Client, key: &str| put_key(client, "openai", key);
    let (providers, conversations) = ("/api/providers", "/api/conversations");
    // Without a model, there is nothing to protect, but keys are set by the operator only.
    assert_eq!((anyone.get(providers).status, anyone.get(conversations).status), (200, 200));
    assert_eq!(put(&anyone, "other").0, 401);
    assert_eq!(put(&site.client_with("wrong"), "other").0, 401);
    let operator = local_key(&site);
    assert_eq!(put(&operator, "operators-own").0, 204);
    // Now there is a model, also after a restart.
    for is_restarted in [false, true] {
        if is_restarted {
            site.stop();
            site.start();
        }
        let (anyone, operator) = (site.client_with(""), local_key(&site));
        for path in [providers, conversations] {
            assert_eq!((anyone.get(path).status, operator.get(path).status), (401, 200), "{path}");
        }
        let list = operator.get(providers).json();
        let openai = list["providers"].as_array().unwrap().iter().find(|one| one["name"] == "openai").unwrap();
        assert_eq!((&openai["usable"], &openai["personal_key"]), (&true.into(), &true.into()));
        assert_eq!(put(&anyone, "other").0, 401);
    }
    let delete = |client: &Client| client.ask("DELETE", "/api/providers/openai/key", "text/plain", b"").unwrap().status;
    assert_eq!((delete(&site.client_with("")), delete(&local_key(&site))), (401, 204));
    assert_eq!(site.client_with("").get(providers).status, 200);
}

#[test]
fn personal_keys_need_the_operators_permission() {
    let model = talks();
    let site = Site::with_settings(As::current(), &["ann"], &model.settings("chat"));
    let refused = put_key(&site.client("ann"), "lab", "anns-secret");
    assert_eq!((refused.0, refused.1.as_str()), (403, "personal_keys_disabled"));
    assert_eq!(site.client("ann").get("/api/providers").json()["personal_keys"], false);
    assert_eq!(site.client("ann").post("/v1/chat/completions", &asked("x")).status, 200);
    assert_eq!(credential(&model), "");
}

#[test]
fn a_key_is_tried_without_being_stored() {
    let library = Library::single([vec![Step::text("Hello.")]]);
    let library =
        Library { key: Some("right".to_owned()), models: vec!["one".to_owned(), "two".to_owned()], ..library };
    let model = Playing::new(library);
    let settings = model.settings("chat") + "  personal_keys: true\n";
    let site = Site::with_settings(As::current(), &["ann"], &settings);
    let ann = site.client("ann");
    let trial = |client: &Client, provider: &str, key: &str| {
        let answer = client.post(&format!("/api/providers/{provider}/key/trial"), &json!({ "key": key }));
        (answer.status, answer.json())
    };
    let (status, refused) = trial(&ann, "lab", "wrong");
    assert_eq!((status, &refused["accepted"], &refused["models"]), (200, &json!(false), &json!(0)), "{refused}");
    let reason = refused["reason"].as_str().unwrap();
    assert!(reason.contains("401") && !reason.contains("wrong"), "{refused}");
    assert_eq!(trial(&ann, "lab", "right"), (200, json!({"accepted": true, "models": 2})), "the control");
    let lab = |client: &Client| {
        let list = client.get("/api/providers").json();
        list["providers"].as_array().unwrap().iter().find(|one| one["name"] == "lab").unwrap()["personal_key"].clone()
    };
    assert_eq!(lab(&ann), json!(false), "a key that was tried is stored");
    assert_eq!((trial(&ann, "nothing", "x").0, trial(&ann, "lab", " ").0), (404, 400));

    let fixed = Site::with_settings(As::current(), &["bob"], &model.settings("chat"));
    let (status, refused) = trial(&fixed.client("bob"), "lab", "right");
    assert_eq!((status, &refused["code"]), (403, &json!("personal_keys_disabled")));
}
