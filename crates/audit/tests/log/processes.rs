//! Several processes, some of which are killed. A process is this test program, started again with a variable.

use crate::given::{Given, entry, log_at, log_with};
use coracle_audit::AuditLog;
use coracle_store::{Home, KeySource, SqliteStore, Store};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

const HOME: &str = "CORACLE_TEST_AUDIT_HOME";
const COUNT: &str = "CORACLE_TEST_AUDIT_COUNT";

/// The other process: appends, and prints a line for each record that is acknowledged.
#[tokio::test]
async fn appending_process() {
    let Some(home) = std::env::var_os(HOME) else { return };
    let count: u64 = std::env::var(COUNT).unwrap().parse().unwrap();
    let home = Path::new(&home);
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&Home::new(home), KeySource::File).await.unwrap());
    let log = log_at(home, &store, 4_000);
    let own = u64::from(std::process::id()) << 32;
    for number in 0..count {
        log.append(entry(own + number)).await.unwrap();
        println!("acknowledged {}", own + number);
    }
}

fn start(home: &Path, count: u64) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "processes::appending_process", "--nocapture"])
        .env(HOME, home)
        .env(COUNT, count.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn acknowledged(line: &str) -> Option<u64> {
    line.split_once("acknowledged ").and_then(|(_, number)| number.trim().parse().ok())
}

async fn numbers(given: &Given) -> Vec<u64> {
    let records = given.fresh().last_records(coracle_audit::Filter::default(), usize::MAX).await.unwrap();
    records
        .iter()
        .filter(|record| record.kind == "call.refused")
        .map(|record| record.fields["number"].as_u64().unwrap())
        .collect()
}

#[tokio::test]
async fn processes_append_to_the_same_log() {
    let given = log_with(0, 4_000).await;
    let children: Vec<Child> = (0..3).map(|_| start(given.home.path(), 200)).collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
    }
    given.assert_intact(601).await;
    let mut found = numbers(&given).await;
    found.sort_unstable();
    found.dedup();
    assert_eq!(found.len(), 600);
    assert!(given.segments().len() > 10);
}

#[tokio::test]
async fn nothing_acknowledged_is_lost_when_processes_are_killed() {
    let given = log_with(0, 4_000).await;
    let mut expected = Vec::new();
    for round in 0..12 {
        let mut first = start(given.home.path(), 1_000_000);
        let mut second = start(given.home.path(), 1_000_000);
        let mut lines = BufReader::new(first.stdout.take().unwrap()).lines().map_while(Result::ok);
        // The process is killed in the middle of its work, each time at another record.
        let mut seen = 0;
        while seen < 5 + 13 * round {
            let line = lines.next().unwrap();
            if let Some(number) = acknowledged(&line) {
                expected.push(number);
                seen += 1;
            }
        }
        for child in [&mut first, &mut second] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        expected.extend(lines.filter_map(|line| acknowledged(&line)));
        let others = BufReader::new(second.stdout.take().unwrap()).lines().map_while(Result::ok);
        expected.extend(others.filter_map(|line| acknowledged(&line)));
        let report = given.verified().await;
        assert_eq!(report.problem, None, "round {round}");
    }
    let found: std::collections::HashSet<u64> = numbers(&given).await.into_iter().collect();
    let lost: Vec<_> = expected.iter().filter(|number| !found.contains(number)).collect();
    assert!(expected.len() > 800 && lost.is_empty(), "{} of {} are lost", lost.len(), expected.len());
    given.log.append(entry(1)).await.unwrap();
    assert_eq!(given.problem().await, None);
}
