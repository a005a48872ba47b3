use crate::connection_state::{ConnectionState, InFlight};
use rmcp::RoleClient;
use rmcp::model::{ProgressToken, RequestId};
use rmcp::service::RequestHandle;
use std::sync::Arc;
use std::time::Duration;

/// A server that does not read is not waited for longer than this.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);

/// A request whose answer is awaited. If nobody takes the answer, the server learns that it may stop working.
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

    /// Tells the server in the background: it may be the one that does not answer.
    pub(super) fn abandon(&mut self, reason: &str) {
        let reason = reason.to_owned();
        if let (Some(handle), Ok(runtime)) = (self.handle.take(), tokio::runtime::Handle::try_current())
            && !self.state.ended.is_cancelled()
        {
            runtime.spawn(async move {
                // There is nobody left who could be told of a failure.
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
        self.abandon("nobody waits for it");
    }
}
