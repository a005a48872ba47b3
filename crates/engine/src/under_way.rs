//! Executions that are running. One that takes a while is recorded before it ends, one whose caller has gone away is
//! recorded as interrupted, and all of them are cancelled when the process shuts down.

use crate::records::Records;
use coracle_store::{ExecutionRecord, Store, TaskState};
use coracle_types::{ErrorCode, Failure, UserId};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::sync::{CancellationToken, DropGuard};

/// An execution that ends sooner is recorded only once, at its end.
const SHORT: Duration = Duration::from_millis(20);

/// All running executions of one engine.
#[derive(Clone, Debug, Default)]
pub(crate) struct UnderWay(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    stopping: AtomicBool,
    all: Mutex<All>,
    /// Notified when the last one has ended.
    empty: Notify,
}

#[derive(Debug, Default)]
struct All {
    next: u64,
    cancel: HashMap<u64, (UserId, CancellationToken)>,
}

impl UnderWay {
    fn lock(&self) -> MutexGuard<'_, All> {
        self.0.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the process is shutting down, so that no execution may begin.
    pub(crate) fn is_stopping(&self) -> bool {
        self.0.stopping.load(Ordering::Acquire)
    }

    /// Begins an execution that `cancel` ends. `record` is what is known of it now; it is kept only if it `is_listed`.
    pub(crate) fn begin(
        &self,
        store: &Arc<dyn Store>,
        record: ExecutionRecord,
        cancel: &CancellationToken,
        is_listed: bool,
    ) -> Open {
        let mut all = self.lock();
        let number = all.next;
        all.next += 1;
        all.cancel.insert(number, (record.user.clone(), cancel.clone()));
        drop(all);
        if self.is_stopping() {
            cancel.cancel();
        }
        let ended = CancellationToken::new();
        let (store, kept, over) = (Arc::clone(store), record.clone(), ended.clone());
        let place = Place { under_way: self.clone(), number };
        let record = is_listed.then_some(record);
        let open = Open { store: Arc::clone(&store), record, _place: place, _ended: ended.drop_guard() };
        if !is_listed {
            return open;
        }
        tokio::spawn(async move {
            tokio::select! {
                () = over.cancelled() => {}
                () = tokio::time::sleep(SHORT) => write(&*store, &kept).await,
            }
        });
        open
    }

    /// Cancels all executions of a user.
    pub(crate) fn cancel_all_of(&self, user: &UserId) {
        let all = self.lock();
        let own: Vec<_> = all.cancel.values().filter(|(whose, _)| whose == user).map(|(_, own)| own.clone()).collect();
        drop(all);
        for cancel in own {
            cancel.cancel();
        }
    }

    /// Ends all executions, and returns when all of them are recorded.
    pub(crate) async fn interrupt(&self) {
        self.0.stopping.store(true, Ordering::Release);
        let running: Vec<_> = self.lock().cancel.values().map(|(_, cancel)| cancel.clone()).collect();
        for cancel in running {
            cancel.cancel();
        }
        loop {
            let empty = self.0.empty.notified();
            if self.lock().cancel.is_empty() {
                return;
            }
            empty.await;
        }
    }
}

/// The entry of a running execution.
#[derive(Debug)]
struct Place {
    under_way: UnderWay,
    number: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut all = self.under_way.lock();
        all.cancel.remove(&self.number);
        if all.cancel.is_empty() {
            self.under_way.0.empty.notify_waiters();
        }
    }
}

/// An execution that has begun. If it is dropped before its end is recorded, it is recorded as interrupted.
#[derive(Debug)]
pub(crate) struct Open {
    store: Arc<dyn Store>,
    record: Option<ExecutionRecord>,
    _place: Place,
    _ended: DropGuard,
}

impl Open {
    /// The record of its end.
    pub(crate) fn record(&self, state: TaskState, outcome: Value) -> Option<ExecutionRecord> {
        self.record.clone().map(|record| ExecutionRecord { state, outcome, ..record })
    }

    /// Drops the record of an execution that did not begin after all.
    pub(crate) fn discard(mut self) {
        self.record = None;
    }

    /// Records the end, even if this future is dropped; in `elsewhere`, if it is given. Returns the reason if that could
    /// not be done yet.
    pub(crate) async fn finish(
        mut self,
        record: ExecutionRecord,
        elsewhere: Option<&Arc<dyn Store>>,
        records: &Records,
    ) -> Option<String> {
        if let Some(store) = elsewhere {
            self.store = Arc::clone(store);
        }
        let record = self.record.insert(record).clone();
        let why = records.keep(&self.store, record).await;
        self.record = None;
        why
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let (Some(record), Ok(runtime)) = (self.record.take(), tokio::runtime::Handle::try_current()) else { return };
        let record = if record.state == TaskState::Running {
            let error = "the client went away before the code came to its end";
            let outcome = json!({ "success": false, "error": error, "error_code": ErrorCode::Cancelled });
            ExecutionRecord { state: TaskState::Interrupted, outcome, ..record }
        } else {
            record
        };
        let store = Arc::clone(&self.store);
        runtime.spawn(async move { write(&*store, &record).await });
    }
}

async fn write(store: &dyn Store, record: &ExecutionRecord) {
    if let Err(error) = store.record(record).await {
        tracing::warn!(execution = %record.execution_id, %error, "an execution could not be kept");
    }
}

/// The failure of executions that end because the process shuts down.
pub(crate) fn stopped() -> Failure {
    Failure {
        error: "the server was stopped before the code came to its end".to_owned(),
        error_code: ErrorCode::Cancelled,
        traceback: None,
        hint: Some(
            "look at what the code has already done in the workspace and elsewhere, then run it again".to_owned(),
        ),
    }
}
