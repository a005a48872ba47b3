//! The agent of a server while it is served: its models, and its runs.

use crate::user_models::UserModels;
use coracle_runs::RunService;
use std::time::{Duration, SystemTime};
use tokio_util::sync::CancellationToken;

/// Time between searches for old conversations.
const TIDIED_EACH: Duration = Duration::from_hours(1);

/// The agent of a server. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct AgentRuntime {
    /// The models of users.
    pub(crate) models: UserModels,
    /// The runs.
    pub(crate) runs: RunService,
}

impl AgentRuntime {
    /// Deletes old conversations now and then, if they are not kept for ever, until the server stops.
    pub(crate) async fn keep_tidy(&self, stop: &CancellationToken) {
        let Some(kept_for) = self.models.options.kept_for else { return };
        let tidying = self.runs.keep_tidy(kept_for, tokio::time::interval(TIDIED_EACH), SystemTime::now);
        stop.run_until_cancelled(tidying).await;
    }

    /// Continues runs that a process before this one has left.
    pub(crate) async fn take_up(&self) {
        if let Err(error) = self.runs.take_up().await {
            tracing::error!(%error, "runs that were interrupted cannot be continued");
        }
    }
}
