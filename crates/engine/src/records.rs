//! Records of executions on their way into the store. If the store cannot be written for a while, answers do not wait for
//! it, and the records are written later.

use crate::hint::with_hint;
use coracle_store::{ExecutionRecord, Store, StoreError};
use coracle_types::UserId;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::timeout;

/// Maximum time that an answer waits for its record.
const PATIENCE: Duration = Duration::from_secs(1);
/// Pause before failed writes are tried again.
const AGAIN: Duration = Duration::from_secs(1);
/// Maximum number of records that wait; if there are more, the oldest are dropped.
const MAX_WAITING: usize = 1_000;
/// Maximum time that a shutdown waits for records that could not be written.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Records that could not be written yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Records {
    waiting: Arc<Mutex<Waiting>>,
    /// Notified when no record waits any more.
    empty: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Waiting {
    records: VecDeque<ExecutionRecord>,
    /// Whether a task is trying to write them again.
    tried: bool,
}

impl Records {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a record. If that fails now, returns the reason, and writes it later.
    pub(crate) async fn keep(&self, store: &Arc<dyn Store>, record: ExecutionRecord) -> Option<String> {
        let why = match timeout(PATIENCE, store.record(&record)).await {
            Ok(Ok(())) => return None,
            Ok(Err(error)) if !error.is_passing() => {
                tracing::warn!(%error, "an execution could not be kept");
                return Some(error.to_string());
            }
            Ok(Err(error)) => {
                tracing::warn!(%error, code = error.code(), "an execution could not be kept yet");
                with_hint(&error)
            }
            Err(_) => "the store is busy".to_owned(),
        };
        let mut waiting = self.lock();
        if waiting.records.len() >= MAX_WAITING {
            waiting.records.pop_front();
            tracing::error!("too many executions wait to be written: the oldest is given up");
        }
        waiting.records.push_back(record);
        if !std::mem::replace(&mut waiting.tried, true) {
            tokio::spawn(self.clone().again(Arc::clone(store)));
        }
        Some(why)
    }

    /// Tries until no record is left.
    async fn again(self, store: Arc<dyn Store>) {
        loop {
            tokio::time::sleep(AGAIN).await;
            loop {
                let next = {
                    let mut waiting = self.lock();
                    let next = waiting.records.front().cloned();
                    waiting.tried = next.is_some();
                    next
                };
                let Some(next) = next else {
                    self.empty.notify_waiters();
                    return;
                };
                match store.record(&next).await {
                    Err(error) if error.is_passing() => break,
                    kept => self.written(&next, kept),
                }
            }
        }
    }

    fn written(&self, record: &ExecutionRecord, kept: Result<(), StoreError>) {
        if let Err(error) = kept {
            tracing::warn!(%error, "an execution could not be kept");
        }
        let mut waiting = self.lock();
        if waiting.records.front().is_some_and(|first| first.execution_id == record.execution_id) {
            waiting.records.pop_front();
        }
    }

    /// Drops the records of a user that wait.
    pub(crate) fn forget_all_of(&self, user: &UserId) {
        self.lock().records.retain(|record| record.user != *user);
    }

    /// Waits a little for records that could not be written.
    pub(crate) async fn settled(&self) {
        let told = self.empty.notified();
        if self.lock().records.is_empty() {
            return;
        }
        if timeout(LAST_WORDS, told).await.is_err() {
            let left = self.lock().records.len();
            tracing::error!(left, "executions could not be written down: the store cannot be used");
        }
    }
}
