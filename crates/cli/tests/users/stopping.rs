//! Executions when their server stops, dies or loses its client, and many sessions.

use crate::site::{Client, Site};
use coracle_testing::harness::As;
use coracle_testing::wait::eventually;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::thread;

/// Runs until it is ended.
const ENDLESS: &str = "import time\nprint('begun', flush=True)\ntime.sleep(100)\n'ended'";

fn execute(client: &Client, code: &str, session: Option<&str>) -> std::io::Result<Value> {
    let mut body = json!({ "code": code, "timeout_seconds": 110 });
    if let Some(session) = session {
        body["session"] = json!(session);
    }
    let answer = client.ask("POST", "/api/executions", "application/json", body.to_string().as_bytes())?;
    Ok(answer.json())
}

fn listed(client: &Client) -> Vec<Value> {
    client.get("/api/executions?limit=100").json().as_array().unwrap().clone()
}

fn in_state(client: &Client, state: &str) -> usize {
    listed(client).iter().filter(|execution| execution["state"] == state).count()
}

#[test]
fn executions_of_a_stopping_server_are_answered_and_recorded() {
    let mut site = Site::new(As::current(), &["ada"]);
    let client = site.client("ada");
    assert_eq!(execute(&client, "6 * 7", None).unwrap()["result"], 42);
    let running: Vec<_> = (0..20)
        .map(|number| {
            let client = client.clone();
            thread::spawn(move || match number % 3 {
                0 => execute(&client, ENDLESS, Some(&format!("s{number}"))),
                1 => client
                    .try_tool("execute_code", json!({ "code": ENDLESS, "timeout_seconds": 110 }))
                    .map(|answer| answer["result"]["structuredContent"].clone()),
                _ => execute(&client, ENDLESS, None),
            })
        })
        .collect();
    eventually("all of them run", || in_state(&client, "running") == 20);
    // Short executions are waited for.
    let short = {
        let client = client.clone();
        thread::spawn(move || execute(&client, "import time\ntime.sleep(1)\n'ended'", None))
    };
    eventually("it runs too", || in_state(&client, "running") == 21);
    kill_process(Pid::from_raw(site.id().cast_signed()).unwrap(), Signal::TERM).unwrap();
    let short = short.join().unwrap().unwrap();
    assert_eq!((&short["success"], &short["result"]), (&json!(true), &json!("ended")), "{short}");
    for answer in running {
        let told = answer.join().unwrap().expect("an answer");
        assert_eq!((&told["success"], &told["error_code"]), (&json!(false), &json!("cancelled")), "{told}");
        assert!(told["error"].as_str().unwrap().contains("the server was stopped"), "{told}");
        assert!(told["stdout"].as_str().unwrap().contains("begun"), "{told}");
    }
    site.wait();
    site.start();
    let client = site.client("ada");
    let all = listed(&client);
    let is = |state: &'static str| all.iter().filter(move |execution| execution["state"] == state);
    assert_eq!((is("interrupted").count(), is("done").count(), all.len()), (20, 2, 22), "{all:#?}");
    assert!(is("interrupted").all(|execution| execution["outcome"]["error_code"] == "cancelled"));
    let log = client.get("/api/sessions/s0").json();
    assert_eq!(log["tasks"][0]["state"], "interrupted", "{log}");
}

#[test]
fn executions_of_a_killed_server_are_recorded() {
    let mut site = Site::new(As::current(), &["ada"]);
    let client = site.client("ada");
    let running: Vec<_> = [None, None, Some("s")]
        .map(|session| {
            let client = client.clone();
            thread::spawn(move || execute(&client, ENDLESS, session))
        })
        .into();
    eventually("all of them run", || in_state(&client, "running") == 3);
    assert!(listed(&client).iter().all(|execution| execution["outcome"].is_null()));
    site.kill();
    for answer in running {
        assert!(answer.join().unwrap().is_err(), "the server is gone");
    }
    site.start();
    let client = site.client("ada");
    let all = listed(&client);
    for execution in &all {
        assert_eq!(execution["state"], "interrupted", "{execution}");
        assert_eq!(execution["outcome"]["success"], false, "{execution}");
        assert!(execution["outcome"]["error"].as_str().unwrap().contains("is not known"), "{execution}");
    }
    assert_eq!(all.len(), 3);
    // Executions of a live server are not reported as interrupted.
    let other = client.clone();
    let again = thread::spawn(move || execute(&other, "import time\ntime.sleep(0.3)\n1", None));
    eventually("it runs", || in_state(&client, "running") == 1 || in_state(&client, "done") == 1);
    assert_eq!(again.join().unwrap().unwrap()["result"], 1);
    assert_eq!((in_state(&client, "done"), in_state(&client, "interrupted")), (1, 3));
}

#[test]
fn an_execution_without_a_client_is_recorded() {
    let site = Site::new(As::current(), &["ada"]);
    let client = site.client("ada");
    let body = json!({ "code": ENDLESS, "timeout_seconds": 110 }).to_string();
    let mut stream = TcpStream::connect(site.address()).unwrap();
    let head = format!(
        "POST /api/executions HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        site.address(),
        site.keys["ada"],
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    eventually("it runs", || in_state(&client, "running") == 1);
    drop(stream);
    eventually("it is known to be interrupted", || in_state(&client, "interrupted") == 1);
    let outcome = &listed(&client)[0]["outcome"];
    assert!(outcome["error"].as_str().unwrap().contains("the client went away"), "{outcome}");
}

#[test]
fn live_sessions_are_never_dropped_and_the_limit_is_reported() {
    let mut site = Site::new(As::current(), &["ada"]);
    site.stop();
    let file = site.coracle.home().join("coracle.yaml");
    fs::write(&file, "history: { sessions: 2, live_sessions: 4, executions: 5 }\n").unwrap();
    site.coracle.own(&file);
    site.start();
    let client = site.client("ada");
    let run = |session: &str, code: &str| execute(&client, code, Some(session)).unwrap();
    for number in 0..4 {
        assert_eq!(run(&format!("s{number}"), &format!("x = {number}\nx"))["result"], number);
    }
    for number in 0..4 {
        let again = run(&format!("s{number}"), "x");
        assert_eq!((&again["result"], &again["session_restarted"]), (&json!(number), &Value::Null), "{again}");
    }
    let refused = run("s4", "1");
    assert_eq!(refused["error_code"], "sandbox_unavailable", "{refused}");
    assert!(refused["error"].as_str().unwrap().contains("4 live sessions"), "{refused}");
    assert!(refused["hint"].as_str().unwrap().contains("history.live_sessions"), "{refused}");
    assert_eq!(execute(&client, "1", None).unwrap()["result"], 1, "without a session it runs");
    let ended = client.ask("DELETE", "/api/sessions/s1", "application/json", b"").unwrap();
    assert!(ended.status < 300, "{}", ended.text());
    assert_eq!(run("s4", "1")["result"], 1);
    assert_eq!(run("s0", "x")["result"], 0);
}
