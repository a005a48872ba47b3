use crate::connection_state::{ConnectionState, InFlight};
use rmcp::RoleClient;
use rmcp::model::{ProgressToken, RequestId};
use rmcp::service::RequestHandle;
use std::sync::Arc;
use std::time::Duration;

/// Maximum time to send a cancellation to a server that does not read.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);

/// A request that waits for its answer. If it is dropped before, the server is notified that it may stop working.
pub(super) struct Pending<'a> {
    state: &'a ConnectionState,
    flight: Arc<InFlight>,
    handle: Option<RequestHandle<RoleClient>>,
    name: Option<(RequestId, ProgressToken)>,
}

impl<'a> Pending<'a> {
    pub(super) fn new(state: &'a ConnectionState, flight: Arc<InFlight>) -> Self {
        Self { state, flight, handle: None, name: None }
    }

    pub(super) fn started(&mut self, handle: RequestHandle<RoleClient>) -> &mut RequestHandle<RoleClient> {
        self.name = Some((handle.id.clone(), handle.progress_token.clone()));
        self.handle.insert(handle)
    }

    pub(super) fn answered(&mut self) {
        self.handle = None;
    }

    /// Notifies the server in the background, because it may not be reading.
    pub(super) fn abandon(&mut self, reason: &str) {
        let reason = reason.to_owned();
        if let (Some(handle), Ok(runtime)) = (self.handle.take(), tokio::runtime::Handle::try_current())
            && !self.state.ended.is_cancelled()
        {
            runtime.spawn(async move {
                // There is no one left to report a failure to.
                let _ = tokio::time::timeout(CANCEL_TIMEOUT, handle.cancel(Some(reason))).await;
            });
        }
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        self.flight.over.cancel();
        if let Some((id, token)) = &self.name {
            self.state.forget(id, token);
        }
        self.abandon("the caller stopped waiting");
    }
}
