//! Several processes: the test program starts itself, and the processes run concurrently or are killed.

use crate::{git, open, owner, raw};
use coracle_store::{Home, ListedTools, Owner, SqliteStore, Store, StoreError};
use coracle_types::{Secret, Tool, ToolHints};
use serde_json::json;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

const HOME: &str = "STORE_TEST_HOME";
const ROLE: &str = "STORE_TEST_ROLE";

/// The number of increments of each concurrent process.
const EACH: u64 = 25;

fn start(home: &Path, role: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "processes::part_of_another_process", "--ignored", "--nocapture", "--test-threads=1"])
        .env(HOME, home)
        .env(ROLE, role)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

#[tokio::test]
#[ignore = "the part of the processes that other tests start"]
async fn part_of_another_process() {
    let (Some(home), Ok(role)) = (std::env::var_os(HOME), std::env::var(ROLE)) else { return };
    let home = Home::new(home);
    let store = open(&home).await;
    if role == "endless" {
        for generation in 1.. {
            write_generation(&store, generation).await;
            println!("wrote {generation}");
            std::io::stdout().flush().unwrap();
        }
    } else {
        store.put_secret(&owner("ann"), &role, &Secret::new(format!("of {role}"))).await.unwrap();
        for _ in 0..EACH {
            increment(&store).await;
        }
    }
}

async fn increment(store: &SqliteStore) {
    loop {
        let found = store.shape(&Owner::Shared, &git(), "count").await.unwrap();
        let version = found.map_or(0, |shape| shape.version);
        match store.put_shape(&Owner::Shared, &git(), "count", &json!(version + 1), version).await {
            Ok(_) => return,
            Err(StoreError::Conflict { .. }) => {}
            Err(other) => panic!("{other}"),
        }
    }
}

/// Writes many pages, all of one generation.
async fn write_generation(store: &SqliteStore, generation: u64) {
    let tools = (0..50).map(|number| Tool {
        server: git(),
        name: format!("tool{number}"),
        title: None,
        description: format!("{generation} ").repeat(500),
        input_schema: coracle_types::Schema::default(),
        output_schema: None,
        category: None,
        hints: ToolHints::default(),
    });
    let listed = ListedTools {
        fingerprint: generation.to_string(),
        tools: tools.map(Arc::new).collect(),
        listed_at: UNIX_EPOCH,
    };
    store.put_tools(&Owner::Shared, &git(), &listed).await.unwrap();
    store.put_secret(&owner("ann"), "token", &Secret::new(generation.to_string())).await.unwrap();
}

/// Waits until the process has reported this number of generations. Returns the last reported one.
fn after(child: &mut Child, generations: u64) -> u64 {
    let mut last = 0;
    for line in BufReader::new(child.stdout.as_mut().unwrap()).lines() {
        // The test harness prints the beginning of a line before our first one.
        if let Some((_, number)) = line.unwrap().rsplit_once("wrote ") {
            last = number.parse().unwrap();
        }
        if last >= generations {
            return last;
        }
    }
    panic!("the process ended after generation {last}");
}

#[tokio::test]
async fn a_killed_process_leaves_complete_rows() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    for round in 0..8 {
        let mut child = start(folder.path(), "endless");
        let said = after(&mut child, 1 + round * 3);
        // At a random point of the next write.
        std::thread::sleep(std::time::Duration::from_micros(fastrand::u64(0..8_000)));
        child.kill().unwrap();
        child.wait().unwrap();

        let check: String =
            sqlx::query_scalar("PRAGMA integrity_check").fetch_one(&mut raw(&home).await).await.unwrap();
        assert_eq!(check, "ok");
        let store = open(&home).await;
        let listed = store.tools(&Owner::Shared, &git()).await.unwrap().unwrap();
        let generation: u64 = listed.fingerprint.parse().unwrap();
        assert!(generation >= said, "generation {said} was written, {generation} is there");
        assert_eq!(listed.tools.len(), 50);
        for tool in &listed.tools {
            assert_eq!(tool.description, format!("{generation} ").repeat(500));
        }
        let secret = store.secret(&owner("ann"), "token").await.unwrap().unwrap();
        let sealed: u64 = secret.expose().parse().unwrap();
        assert!(sealed >= said && (sealed == generation || sealed + 1 == generation), "{sealed} of {generation}");
        write_generation(&store, 1).await;
    }
}

#[tokio::test]
async fn processes_that_start_at_once_share_one_database_and_one_key() {
    const PROCESSES: u64 = 6;
    for _ in 0..3 {
        let folder = tempfile::tempdir().unwrap();
        let children: Vec<Child> =
            (0..PROCESSES).map(|number| start(folder.path(), &format!("worker{number}"))).collect();
        for child in children {
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        }
        let store = open(&Home::new(folder.path())).await;
        let count = store.shape(&Owner::Shared, &git(), "count").await.unwrap().unwrap();
        assert_eq!((count.version, count.value), (PROCESSES * EACH, json!(PROCESSES * EACH)));
        for number in 0..PROCESSES {
            let found = store.secret(&owner("ann"), &format!("worker{number}")).await.unwrap();
            assert_eq!(found, Some(Secret::new(format!("of worker{number}"))));
        }
    }
}
