//! Kills the server repeatedly while eight users work: everything acknowledged is kept, and nothing is left behind.

use crate::site::{Client, Site};
use coracle_testing::harness::As;
use coracle_testing::outcome::{left_in_run, processes_in};
use coracle_testing::wait::PATIENCE;
use serde_json::{Value, json};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const PEOPLE: [&str; 8] = ["ada", "bob", "cy", "dora", "eve", "finn", "gus", "hana"];

/// Something that the server has acknowledged.
#[derive(Clone, Debug)]
enum Promise {
    /// File with this content.
    File(String, String),
    /// Skill with this source.
    Skill(String, String),
    /// State.
    State(String, Value),
    /// Task of this execution in a session, and an artifact with this URI and content.
    Task { session: String, execution: String, artifact: Option<(String, String)>, checkpoint: Option<String> },
}

fn answered(answer: &Value) -> Option<&Value> {
    let result = answer.get("result")?;
    (result["isError"] != json!(true)).then_some(result)
}

/// Works until the server is gone, and records what it acknowledged.
fn work(client: &Client, name: &str, round: u32, stop: &AtomicBool, promises: &Mutex<Vec<(String, Promise)>>) {
    let promise = |promise| promises.lock().unwrap().push((name.to_owned(), promise));
    for step in 0.. {
        if stop.load(Ordering::SeqCst) {
            return;
        }
        let unique = format!("{name}-{round}-{step}");
        match step % 4 {
            0 => {
                let file = format!("notes/{round}-{step}.txt");
                let arguments = json!({ "filename": file, "content": unique });
                let Ok(answer) = client.try_tool("write_workspace_file", arguments) else { return };
                if answered(&answer).is_some() {
                    promise(Promise::File(file, unique));
                }
            }
            1 => {
                let (skill, code) = (format!("s_{}", step % 7), format!("X = '{unique}'\n"));
                let Ok(answer) = client.try_tool("save_skill", json!({ "name": skill, "code": code })) else { return };
                if answered(&answer).is_some() {
                    promise(Promise::Skill(skill, code));
                }
            }
            2 => {
                let key = format!("k{}", step % 5);
                let Ok(answer) = client.try_tool("save_state", json!({ "key": key, "value": unique })) else { return };
                if answered(&answer).is_some() {
                    promise(Promise::State(key, json!(unique)));
                }
            }
            _ => {
                let code = format!(
                    "open('/artifacts/{unique}.txt', 'w').write('{unique}')\ncheckpoint('{unique}', {{'n': 1}})\n'{unique}'"
                );
                let session = format!("s{round}");
                let arguments = json!({ "code": code, "session": session });
                let Ok(answer) = client.try_tool("execute_code", arguments) else { return };
                let Some(ran) = answered(&answer).map(|result| &result["structuredContent"]) else { continue };
                if ran["success"] == json!(true) {
                    let artifact = ran["artifacts"][0]["uri"].as_str().map(|uri| (uri.to_owned(), unique.clone()));
                    assert!(artifact.is_some(), "{ran}");
                    let execution = ran["execution_id"].as_str().unwrap().to_owned();
                    promise(Promise::Task { session, execution, artifact, checkpoint: Some(unique) });
                }
            }
        }
    }
}

/// Checks the last promise about each thing: the newest version of a skill, the last value of a state.
fn kept(site: &Site, promises: &[(String, Promise)]) -> usize {
    let mut checked = 0;
    for (place, (name, promise)) in promises.iter().enumerate() {
        let client = site.client(name);
        let later = &promises[place + 1..];
        match promise {
            Promise::File(file, content) => {
                let answer = client.tool("read_workspace_file", json!({ "filename": file }));
                assert!(answer.to_string().contains(content), "{name} lost {file}: {answer}");
            }
            Promise::Skill(skill, code) => {
                let is_newer = |(who, what): &(String, Promise)| {
                    who == name && matches!(what, Promise::Skill(other, _) if other == skill)
                };
                if later.iter().any(is_newer) {
                    continue;
                }
                let answer = client.tool("load_skill", json!({ "name": skill }));
                let found = answer["result"]["structuredContent"]["code"].as_str().unwrap_or_default();
                let newer = ahead(found) > ahead(code);
                assert!(found == code || newer, "{name} lost {skill} = {code}: {answer}");
            }
            Promise::State(key, value) => {
                let is_newer = |(who, what): &(String, Promise)| {
                    who == name && matches!(what, Promise::State(other, _) if other == key)
                };
                if later.iter().any(is_newer) {
                    continue;
                }
                let answer = client.tool("get_state", json!({ "key": key })).to_string();
                let value = value.as_str().unwrap();
                let found = answer.split(name).nth(1).unwrap_or_default();
                assert!(answer.contains(value) || ahead(found) > ahead(value), "{name} lost {key} = {value}: {answer}");
            }
            Promise::Task { session, execution, artifact, checkpoint } => {
                let log = client.get(&format!("/api/sessions/{session}"));
                assert!(log.status == 200 && log.text().contains(execution), "{name} lost a task: {}", log.text());
                let shown = client.get(&format!("/api/executions/{execution}"));
                assert_eq!(shown.status, 200, "{name} lost {execution}");
                if let Some((uri, content)) = artifact {
                    let answer = client.mcp("resources/read", json!({ "uri": uri })).unwrap();
                    assert!(answer.to_string().contains(content.as_str()), "{name} lost {uri}: {answer}");
                }
                let is_newer = |(who, what): &(String, Promise)| {
                    who == name && matches!(what, Promise::Task { session: other, .. } if other == session)
                };
                if let Some(step) = checkpoint
                    && !later.iter().any(is_newer)
                {
                    let found = log.json()["checkpoint"]["step"].as_str().unwrap_or_default().to_owned();
                    assert!(found == *step || ahead(&found) > ahead(step), "{name} lost {step}: {found}");
                }
            }
        }
        checked += 1;
    }
    checked
}

/// Numbers in a text, which show how far the work was: unacknowledged work may be there as well.
fn ahead(text: &str) -> Vec<u64> {
    let numbers = text.split(|letter: char| !letter.is_ascii_digit()).filter(|part| !part.is_empty());
    numbers.filter_map(|number| number.parse().ok()).collect()
}

fn sound(site: &Site) {
    let database = site.coracle.home().join("store/coracle.db");
    let check = "import sqlite3, sys\nprint(sqlite3.connect(sys.argv[1]).execute('PRAGMA integrity_check').fetchall())";
    let output = Command::new("python3").args(["-c", check]).arg(database).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "[('ok',)]", "{output:?}");
}

fn killed(who: As, rounds: u32, seed: u64) {
    println!("seed {seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut site = Site::new(who, &PEOPLE);
    let promises = Mutex::new(Vec::new());
    for round in 0..rounds {
        let stop = AtomicBool::new(false);
        let clients: Vec<(&str, Client)> = PEOPLE.iter().map(|name| (*name, site.client(name))).collect();
        std::thread::scope(|scope| {
            for (name, client) in &clients {
                let (stop, promises) = (&stop, &promises);
                scope.spawn(move || work(client, name, round, stop, promises));
            }
            std::thread::sleep(Duration::from_millis(rng.u64(50..800)));
            site.kill();
            stop.store(true, Ordering::SeqCst);
        });
        site.start();
    }
    let all = promises.into_inner().unwrap();
    let checked = kept(&site, &all);
    println!("{rounds} kills: {} promises, {checked} of them the last about their thing, all kept", all.len());
    assert!(all.len() >= rounds as usize, "hardly anything was acknowledged");
    site.stop();
    sound(&site);
    let home = site.coracle.home();
    let left = || [left_in_run(&home), processes_in(home.parent().unwrap())].concat();
    let mut last = left();
    let begun = Instant::now();
    while !last.is_empty() {
        assert!(begun.elapsed() < PATIENCE, "something is left: {last:?}");
        std::thread::sleep(Duration::from_millis(10));
        last = left();
    }
}

#[test]
fn acknowledged_work_survives_kills() {
    killed(As::current(), 6, 7);
}

#[test]
#[ignore = "minutes: cargo xtask soak"]
fn soak_acknowledged_work_survives_two_hundred_kills() {
    killed(As::current(), 200, u64::from(std::process::id()));
}
