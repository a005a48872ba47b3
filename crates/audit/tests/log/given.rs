//! Logs to test with.

use coracle_audit::{AuditLog, Durability, Entry, Event, FileLog, FileLogConfig, Report};
use coracle_store::{Home, KeySource, SqliteStore, Store};
use coracle_types::{ExecutionId, UserId};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

/// A data folder with a store and a log.
pub(crate) struct Given {
    pub(crate) home: TempDir,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) log: FileLog,
}

/// A data folder with `count` records besides the first, in segments of this length.
pub(crate) async fn log_with(count: u64, segment_bytes: u64) -> Given {
    let home = tempfile::tempdir().unwrap();
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&Home::new(home.path()), KeySource::File).await.unwrap());
    let log = log_at(home.path(), &store, segment_bytes);
    log.ready().await.unwrap();
    let given = Given { home, store, log };
    for records in 0..count {
        given.log.append(entry(records)).await.unwrap();
    }
    given
}

pub(crate) fn log_at(home: &Path, store: &Arc<dyn Store>, segment_bytes: u64) -> FileLog {
    FileLog::new(FileLogConfig { segment_bytes, ..FileLogConfig::new(Home::new(home), Arc::clone(store)) })
}

pub(crate) fn durable_log_at(home: &Path, store: &Arc<dyn Store>) -> FileLog {
    let durability = Durability::Always;
    FileLog::new(FileLogConfig { durability, ..FileLogConfig::new(Home::new(home), Arc::clone(store)) })
}

pub(crate) fn entry(number: u64) -> Entry {
    let execution = ExecutionId::from_random(7);
    Entry::of(&UserId::new("ann").unwrap(), Event::CallRefused { execution, number, code: "x".to_owned() })
}

impl Given {
    pub(crate) fn folder(&self) -> &Path {
        self.log.folder()
    }

    /// The same log, as another process sees it.
    pub(crate) fn fresh(&self) -> FileLog {
        log_at(self.home.path(), &self.store, 1 << 20)
    }

    pub(crate) async fn verified(&self) -> Report {
        self.fresh().verify(&[]).await.unwrap()
    }

    /// What `verify` says is wrong.
    pub(crate) async fn problem(&self) -> Option<String> {
        self.verified().await.problem.map(|problem| format!("{}: {}", problem.place, problem.what))
    }

    /// Positive control.
    pub(crate) async fn assert_intact(&self, records: u64) {
        let report = self.verified().await;
        assert_eq!((report.problem, report.records), (None, records));
    }

    /// All segments, in order.
    pub(crate) fn segments(&self) -> Vec<PathBuf> {
        let mut files: Vec<_> = fs::read_dir(self.folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
        files.sort();
        files
    }
}
