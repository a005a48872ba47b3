//! Runs whose server is killed at random moments, with effects on a real server.

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

/// The script of a run: code that inserts rows one by one, and then an answer.
fn script(run: usize) -> Script {
    let code = format!(
        "from servers.sqlite import write_query, read_query\n\
         import time\n\
         for number in range({ROWS}):\n\
         \x20   time.sleep(0.04)\n\
         \x20   write_query(query=f'insert into effects values ({run}, {{number}})')\n\
         result = read_query(query='select count(*) as n from effects where run = {run}')"
    );
    let code = Step::call("execute_code", json!({"code": code, "timeout_seconds": 120}));
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

fn killed_at_random(first_seed: u64, rounds: usize) {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::new(folder.path());
    let mut library = Library::single([vec![Step::text("unused")]]);
    for run in 0..rounds {
        library = library.with(&format!("run{run}"), script(run));
    }
    let model = Playing::new(library);
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
    let mut site = Site::with_settings(As::current(), &[], &settings);
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
#[ignore = "minutes: cargo xtask soak"]
fn soak_two_hundred_kills_of_runs_from_a_new_seed() {
    let first = u64::from(Rng::new().u16(..)) * 1_000;
    println!("seed {first}");
    killed_at_random(first, 200);
}
