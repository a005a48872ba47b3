//! Runs and executions whose server is killed at random moments, with effects on a real server.

use crate::playing::{Playing, local_key};
use crate::site::{Client, Site};
use coracle_scripted_model::{Library, Script, Step};
use coracle_testing::harness::As;
use coracle_testing::installed;
use coracle_testing::kills::rounds;
use coracle_testing::wait::eventually;
use fastrand::Rng;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Number of rows that each run inserts.
const ROWS: u64 = 5;

/// A database that code writes to through an MCP server.
struct Database(PathBuf);

impl Database {
    fn new(folder: &Path) -> Self {
        let database = Self(folder.join("effects.db"));
        database.python("db.execute('create table effects (run integer, number integer)')");
        database
    }

    fn python(&self, code: &str) -> String {
        let path = self.0.display();
        let program = format!("import sqlite3\nwith sqlite3.connect('{path}', timeout=60) as db:\n    {code}");
        let done = Command::new("python3").args(["-I", "-c", &program]).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    }

    /// The rows of a run.
    fn rows(&self, run: usize) -> Vec<u64> {
        let query = format!("select number from effects where run = {run} order by rowid");
        let rows = self.python(&format!("print([row[0] for row in db.execute('{query}')])"));
        serde_json::from_str(&rows).unwrap()
    }
}

/// Code that inserts rows one by one.
fn code(run: usize) -> String {
    format!(
        "from servers.sqlite import write_query, read_query\n\
         import time\n\
         for number in range({ROWS}):\n\
         \x20   time.sleep(0.04)\n\
         \x20   write_query(query=f'insert into effects values ({run}, {{number}})')\n\
         result = read_query(query='select count(*) as n from effects where run = {run}')"
    )
}

/// The script of a run: the code, and then an answer.
fn script(run: usize) -> Script {
    let code = Step::call("execute_code", json!({"code": code(run), "timeout_seconds": 120}));
    Script::new([vec![Step::text("I insert."), code], vec![Step::text("Done.")]])
}

/// Answers open questions as somebody who looks whether the call has happened. Returns their number.
fn answer(client: &Client, database: &Database, run: usize) -> usize {
    let open = client.get("/api/approvals?state=open").json();
    let open = open["approvals"].as_array().unwrap();
    for question in open {
        let wanted = question["arguments"].to_string();
        let happened = database.rows(run).iter().any(|number| wanted.contains(&format!("({run}, {number})")));
        let decision = if happened { "refuse" } else { "once" };
        let path = format!("/api/approvals/{}", question["id"].as_str().unwrap());
        let answered = client.post(&path, &json!({ "decision": decision }));
        assert_eq!(answered.status, 200, "{}", answered.text());
    }
    open.len()
}

/// A server whose code can write to the database.
fn site(model: &Playing, database: &Database) -> Site {
    let servers = json!({
        "mcpServers": {
            "sqlite": {
                "command": installed::path("venv-sqlite/bin/mcp-server-sqlite"),
                "args": ["--db-path", database.0],
            },
        },
        "policy": { "tools": { "*": "allow" } },
    });
    let settings = format!("{}\n{}", model.settings("chat"), as_yaml(&servers));
    Site::with_settings(As::current(), &[], &settings)
}

/// Executions outside of runs, which the client resumes.
fn executions_killed_at_random(first_seed: u64, rounds: usize) {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::new(folder.path());
    let model = Playing::new(Library::single([vec![Step::text("unused")]]));
    let mut site = site(&model, &database);
    let (mut asked, mut replayed) = (0, 0);
    for run in 0..rounds {
        let seed = first_seed + run as u64;
        let mut rng = Rng::with_seed(seed);
        let client = local_key(&site);
        let body = json!({"code": code(run), "timeout_seconds": 120});
        let waiting = client.begin("/api/executions", &body);
        let rows = rng.usize(1..=ROWS as usize);
        eventually("rows are inserted", || database.rows(run).len() >= rows);
        std::thread::sleep(Duration::from_millis(rng.u64(..40)));
        site.kill();
        drop(waiting);
        site.start();
        let client = local_key(&site);
        let all = client.get("/api/executions").json();
        let killed = all.as_array().unwrap().iter().find(|execution| execution["code"] == body["code"]).unwrap();
        let resume = json!({ "resume": killed["execution_id"] });
        let resumed = std::thread::scope(|scope| {
            let resuming = scope.spawn(move || resume_and_wait(&client, &resume));
            let client = local_key(&site);
            eventually("the resumed execution ends", || {
                asked += answer(&client, &database, run);
                resuming.is_finished()
            });
            resuming.join().unwrap()
        });
        let rows = database.rows(run);
        let what = format!("seed {seed}, run {run}: {rows:?} {resumed:#}");
        assert_eq!(rows.iter().collect::<BTreeSet<_>>().len(), rows.len(), "an effect was repeated: {what}");
        if resumed["success"] == true {
            assert_eq!(rows.len() as u64, ROWS, "{what}");
        } else {
            assert!(resumed["error"].as_str().unwrap().contains("may have happened"), "{what}");
        }
        let calls = resumed["calls"].as_array().unwrap();
        replayed += calls.iter().filter(|call| call["replayed"] == true).count();
    }
    println!("{rounds} executions, {replayed} calls replayed, {asked} questions");
    assert!(replayed > 0);
}

fn resume_and_wait(client: &Client, body: &Value) -> Value {
    let answer = client.post("/api/executions?approvals=wait", body);
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

fn killed_at_random(first_seed: u64, rounds: usize) {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::new(folder.path());
    let mut library = Library::single([vec![Step::text("unused")]]);
    for run in 0..rounds {
        library = library.with(&format!("run{run}"), script(run));
    }
    let model = Playing::new(library);
    let mut site = site(&model, &database);
    let (mut asked, mut continued) = (0, 0);
    for run in 0..rounds {
        let seed = first_seed + run as u64;
        let mut rng = Rng::with_seed(seed);
        let client = local_key(&site);
        let begun = client.post("/v1/responses", &json!({"input": format!("[script:run{run}]"), "background": true}));
        assert_eq!(begun.status, 200, "{}", begun.text());
        let path = format!("/v1/responses/{}", begun.json()["id"].as_str().unwrap());
        let rows = rng.usize(..=ROWS as usize);
        eventually("rows are inserted", || database.rows(run).len() >= rows);
        // The moment itself is random; the outcome must be the same for all of them.
        std::thread::sleep(Duration::from_millis(rng.u64(..40)));
        site.kill();
        site.start();
        let client = local_key(&site);
        continued += usize::from(client.get(&path).json()["status"] == "in_progress");
        eventually("the run ends", || {
            let status = client.get(&path).json()["status"].clone();
            asked += answer(&client, &database, run);
            status != "in_progress"
        });
        let response = client.get(&path).json();
        check(&response, &database, run, seed);
    }
    println!("{rounds} runs, {continued} continued, {asked} questions");
}

/// No item is lost or doubled, and no effect is repeated.
fn check(response: &Value, database: &Database, run: usize, seed: u64) {
    let what = format!("seed {seed}, run {run}: {response:#}");
    assert_eq!(response["status"], "completed", "{what}");
    let items = response["output"].as_array().unwrap();
    // Questions about calls that may have happened come between them.
    let kinds = items.iter().map(|item| item["type"].as_str().unwrap());
    let kinds: Vec<&str> = kinds.filter(|kind| *kind != "mcp_approval_request").collect();
    assert_eq!(kinds, ["message", "code_interpreter_call", "message"], "{what}");
    let ids: BTreeSet<&str> = items.iter().map(|item| item["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), items.len(), "{what}");
    let rows = database.rows(run);
    let different: BTreeSet<&u64> = rows.iter().collect();
    assert_eq!(different.len(), rows.len(), "an effect was repeated: {rows:?}; {what}");
    if items[1]["status"] == "completed" {
        assert_eq!(rows.len() as u64, ROWS, "{what}");
    }
}

fn as_yaml(value: &Value) -> String {
    // JSON is YAML; the outer braces are left out because other settings stand before it.
    let fields = value.as_object().unwrap().iter().map(|(name, value)| format!("{name}: {value}"));
    fields.collect::<Vec<_>>().join("\n") + "\n"
}

#[test]
fn runs_killed_at_random_go_on_and_repeat_nothing() {
    killed_at_random(100, rounds());
}

#[test]
fn executions_killed_at_random_are_resumed_and_repeat_nothing() {
    executions_killed_at_random(200, rounds() / 2);
}

#[test]
#[ignore = "minutes: cargo xtask soak"]
fn soak_two_hundred_kills_of_executions_from_a_new_seed() {
    let first = u64::from(Rng::new().u16(..)) * 1_000;
    println!("seed {first}");
    executions_killed_at_random(first, 200);
}

#[test]
#[ignore = "minutes: cargo xtask soak"]
fn soak_two_hundred_kills_of_runs_from_a_new_seed() {
    let first = u64::from(Rng::new().u16(..)) * 1_000;
    println!("seed {first}");
    killed_at_random(first, 200);
}
