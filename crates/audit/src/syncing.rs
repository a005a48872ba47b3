//! Syncs records to the disk in the background: many records with one sync, and no lock is held meanwhile.

use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::watch;

/// What is synced.
pub(crate) trait Unsynced: Send + Sync + 'static {
    /// Syncs what has been written so far.
    fn sync(&self);
}

/// How far the log is on the disk.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    /// Last record that is.
    pub(crate) synced: u64,
    /// The last attempt that failed: up to which record, and why.
    pub(crate) failed: Option<(u64, String)>,
}

/// The thread that syncs, and its work.
#[derive(Debug)]
pub(crate) struct Syncing {
    /// Whether there is something to sync. `None` if there is no thread.
    due: Arc<(Mutex<Option<bool>>, Condvar)>,
    progress: watch::Sender<Progress>,
}

impl Default for Syncing {
    fn default() -> Self {
        Self { due: Arc::default(), progress: watch::Sender::new(Progress::default()) }
    }
}

impl Syncing {
    pub(crate) fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    pub(crate) fn report(&self, change: impl FnOnce(&mut Progress)) {
        self.progress.send_modify(change);
    }

    /// Asks the thread to sync after a pause, and starts it if there is none. If that is not possible, syncs at once.
    pub(crate) fn request(&self, shared: &Arc<impl Unsynced>, pause: Duration) {
        let (due, changed) = &*self.due;
        let mut due = due.lock().unwrap_or_else(PoisonError::into_inner);
        if due.is_none() {
            let (weak, own) = (Arc::downgrade(shared), Arc::clone(&self.due));
            let thread = std::thread::Builder::new().name("audit-sync".to_owned());
            if let Err(error) = thread.spawn(move || work(&weak, &own, pause)) {
                drop(due);
                tracing::debug!(%error, "cannot start the thread that syncs the audit log");
                return shared.sync();
            }
        }
        if *due != Some(true) {
            *due = Some(true);
            changed.notify_one();
        }
    }
}

impl Drop for Syncing {
    fn drop(&mut self) {
        // The thread finds that the log is gone.
        *self.due.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(true);
        self.due.1.notify_one();
    }
}

fn work(shared: &Weak<impl Unsynced>, due: &(Mutex<Option<bool>>, Condvar), pause: Duration) {
    loop {
        {
            let mut is_due = due.0.lock().unwrap_or_else(PoisonError::into_inner);
            while *is_due != Some(true) {
                is_due = due.1.wait(is_due).unwrap_or_else(PoisonError::into_inner);
            }
            *is_due = Some(false);
        }
        if !pause.is_zero() && shared.strong_count() > 0 {
            std::thread::sleep(pause);
        }
        let Some(shared) = shared.upgrade() else { return };
        shared.sync();
    }
}
