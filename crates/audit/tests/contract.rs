//! The contract of `AuditLog`, tested with every implementation.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use async_trait::async_trait;
use coracle_audit::{AuditLog, Entry, Event, FileLog, FileLogConfig, Filter, MemoryLog};
use coracle_store::{Home, MemoryStore, Store};
use coracle_types::{ExecutionId, UserId};
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempDir;

/// A log, and what a test does to it from outside.
#[async_trait]
trait Given {
    fn log(&self) -> Arc<dyn AuditLog>;

    /// The events in the log, as their numbers.
    async fn numbers(&self) -> Vec<u64>;

    /// Makes it impossible to append, or possible again.
    fn break_down(&self, is_broken: bool);
}

struct InMemory(Arc<MemoryLog>);

#[async_trait]
impl Given for InMemory {
    fn log(&self) -> Arc<dyn AuditLog> {
        Arc::<MemoryLog>::clone(&self.0)
    }

    async fn numbers(&self) -> Vec<u64> {
        self.0.events().into_iter().filter_map(number).collect()
    }

    fn break_down(&self, is_broken: bool) {
        self.0.set_unavailable(is_broken);
    }
}

struct InFiles {
    folder: TempDir,
    log: FileLog,
}

impl InFiles {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let log = FileLog::new(FileLogConfig::new(Home::new(folder.path()), store));
        Self { folder, log }
    }

    fn aside(&self) -> PathBuf {
        self.folder.path().join("aside")
    }
}

#[async_trait]
impl Given for InFiles {
    fn log(&self) -> Arc<dyn AuditLog> {
        Arc::new(self.log.clone())
    }

    async fn numbers(&self) -> Vec<u64> {
        let filter = Filter { kind: Some("call.refused".to_owned()), ..Filter::default() };
        let records = self.log.last_records(filter, usize::MAX).await.unwrap();
        records.into_iter().map(|record| record.fields["number"].as_u64().unwrap()).collect()
    }

    fn break_down(&self, is_broken: bool) {
        let (from, to) = (self.log.folder().to_owned(), self.aside());
        if is_broken { std::fs::rename(from, to) } else { std::fs::rename(to, from) }.unwrap();
    }
}

fn entry(number: u64) -> Entry {
    let execution = ExecutionId::from_random(7);
    Entry::of(&UserId::new("ann").unwrap(), Event::CallRefused { execution, number, code: "x".to_owned() })
}

#[expect(clippy::needless_pass_by_value, reason = "what is read from the log is not needed any more")]
fn number(event: Event) -> Option<u64> {
    match event {
        Event::CallRefused { number, .. } => Some(number),
        _ => None,
    }
}

async fn entries_are_kept_in_order(given: &dyn Given) {
    for records in 0..20 {
        if records % 3 == 0 {
            given.log().append_later(entry(records));
        } else {
            given.log().append(entry(records)).await.unwrap();
        }
    }
    assert_eq!(given.numbers().await, (0..20).collect::<Vec<_>>());
}

async fn concurrent_entries_are_all_kept(given: &dyn Given) {
    let tasks: Vec<_> = (0..50)
        .map(|records| {
            let log = given.log();
            tokio::spawn(async move { log.append(entry(records)).await.unwrap() })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let mut numbers = given.numbers().await;
    numbers.sort_unstable();
    assert_eq!(numbers, (0..50).collect::<Vec<_>>());
}

async fn a_log_that_fails_refuses_entries_until_it_works_again(given: &dyn Given) {
    given.log().append(entry(1)).await.unwrap();
    given.break_down(true);
    let error = given.log().append(entry(2)).await.unwrap_err();
    assert_eq!(error.code(), "audit_unavailable");
    assert!(!error.hint().is_empty());
    // What has happened already is written as soon as possible.
    given.log().append_later(entry(3));
    given.break_down(false);
    assert_eq!(given.numbers().await, [1]);
    given.log().append(entry(4)).await.unwrap();
    assert_eq!(given.numbers().await, [1, 3, 4]);
}

async fn digests_are_equal_for_equal_contents(given: &dyn Given) {
    let log = given.log();
    let first = log.digest(b"yes").await.unwrap();
    assert_eq!(log.digest(b"yes").await.unwrap(), first);
    assert_ne!(log.digest(b"no").await.unwrap(), first);
    assert_eq!(first.len(), 32);
}

macro_rules! contract {
    ($($part:ident),* $(,)?) => {
        mod in_memory { $( #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $part() { crate::$part(&crate::InMemory(Default::default())).await; } )* }
        mod in_files { $( #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $part() { crate::$part(&crate::InFiles::new()).await; } )* }
    };
}

contract!(
    entries_are_kept_in_order,
    concurrent_entries_are_all_kept,
    a_log_that_fails_refuses_entries_until_it_works_again,
    digests_are_equal_for_equal_contents,
);
