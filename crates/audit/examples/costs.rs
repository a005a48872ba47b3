//! Measures what a record costs: `cargo run --release -p coracle-audit --example costs -- FOLDER`, where the folder is
//! on the disk in question.

#![expect(clippy::unwrap_used, reason = "a measurement that cannot go on fails")]

use coracle_audit::{AuditLog, Durability, Entry, Event, FileLog, FileLogConfig, Verdict};
use coracle_store::{Home, MemoryStore, Store};
use coracle_types::{ExecutionId, ServerName, UserId};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Number of records per measurement.
const RECORDS: u32 = 500;

fn entry(number: u32) -> Entry {
    let event = Event::CallDecided {
        execution: ExecutionId::from_random(7),
        number: number.into(),
        server: ServerName::new("github").unwrap(),
        tool: "list_issues".to_owned(),
        arguments: "0123456789abcdef0123456789abcdef".to_owned(),
        arguments_bytes: 100,
        decision: Verdict::Allow,
        reason: "default".to_owned(),
        rule: None,
        sources: Vec::new(),
    };
    Entry::of(&UserId::local(), event)
}

fn print(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |part: usize| times[(times.len() - 1) * part / 100].as_secs_f64() * 1e6;
    println!("{what:<40} {:>9.1} {:>9.1} {:>9.1}", at(50), at(95), at(100));
}

#[tokio::main]
async fn main() {
    let folder = std::env::args().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    println!("{:<40} {:>9} {:>9} {:>9}", "µs per record", "median", "95 %", "max");
    for durability in [Durability::Interval, Durability::Always] {
        let home = tempfile::tempdir_in(&folder).unwrap();
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let config = FileLogConfig::new(Home::new(home.path()), Arc::clone(&store));
        let log = FileLog::new(FileLogConfig { durability, ..config });
        log.ready().await.unwrap();
        let mut times = Vec::new();
        for number in 0..RECORDS {
            let begun = Instant::now();
            log.append(entry(number)).await.unwrap();
            times.push(begun.elapsed());
        }
        print(&format!("{durability:?}, one after the other"), times);
        let begun = Instant::now();
        let tasks: Vec<_> = (0..RECORDS)
            .map(|number| {
                let log = log.clone();
                tokio::spawn(async move { log.append(entry(number)).await.unwrap() })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        print(&format!("{durability:?}, all at once (mean)"), vec![begun.elapsed() / RECORDS]);
        let begun = Instant::now();
        let report = log.verify(&[]).await.unwrap();
        assert_eq!(report.problem, None);
        print("verify (mean)", vec![begun.elapsed() / u32::try_from(report.records).unwrap()]);
    }
}
