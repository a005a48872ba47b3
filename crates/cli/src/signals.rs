//! What asks this program to end: the keyboard, somebody, a terminal that goes away.

use crate::status::Status;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

pub(crate) struct Signals([Signal; 3]);

impl Signals {
    pub(crate) fn listen() -> std::io::Result<Self> {
        let [interrupt, terminate, hangup] =
            [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()].map(signal);
        Ok(Self([interrupt?, terminate?, hangup?]))
    }

    pub(crate) async fn next(&mut self) {
        let Self([interrupt, terminate, hangup]) = self;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }

    /// The first one cancels, the second ends at once; the launcher cleans up either way.
    pub(crate) async fn cancel(mut self, cancel: CancellationToken) {
        self.next().await;
        cancel.cancel();
        self.next().await;
        std::process::exit(Status::Cancelled.code().into());
    }
}
