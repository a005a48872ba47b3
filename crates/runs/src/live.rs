//! A run that is under way in this process.

use crate::feed::{Feed, Listener};
use coracle_agent::{NotSteered, Steering};
use coracle_models::Part;
use coracle_types::{ConversationId, RunId};
use serde_json::Value;
use std::sync::Arc;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// A run that is under way in this process.
#[derive(Debug)]
pub struct LiveRun {
    /// The run ID.
    pub id: RunId,
    pub(crate) conversation: Option<ConversationId>,
    pub(crate) feed: Arc<Feed>,
    pub(crate) cancel: CancellationToken,
    pub(crate) steering: Steering,
    /// The response, when the run has ended. The sender is dropped if the server stops first.
    pub(crate) response: watch::Receiver<Option<Arc<Value>>>,
}

impl LiveRun {
    /// Listens to the events of the run from the one after `after`, or from the first one.
    pub fn listen(&self, after: Option<u64>) -> Listener {
        self.feed.listen(after)
    }

    /// The response at the end of the run. `None` if the server stops before.
    pub async fn ended(&self) -> Option<Arc<Value>> {
        let mut response = self.response.clone();
        let ended = response.wait_for(Option::is_some).await.ok()?;
        ended.clone()
    }

    /// Stops the run. Its history stays valid.
    pub fn stop(&self) {
        self.cancel.cancel();
    }

    /// Stops the run when the guard is dropped.
    pub fn stop_on_drop(&self) -> StopOnDrop {
        StopOnDrop(self.cancel.clone())
    }

    /// Adds a message that the model gets before its next answer. If the run is stopped or fails before that, the
    /// message stays in the conversation.
    pub fn steer(&self, parts: Vec<Part>) -> Result<(), NotSteered> {
        self.steering.add(parts)
    }
}

/// Stops a run when its client is gone.
#[derive(Debug)]
pub struct StopOnDrop(CancellationToken);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}
