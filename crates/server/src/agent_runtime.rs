//! The agent of a server while it is served: its models, and its runs.

use crate::user_models::UserModels;
use coracle_runs::RunService;

/// The agent of a server. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct AgentRuntime {
    /// The models of users.
    pub(crate) models: UserModels,
    /// The runs.
    pub(crate) runs: RunService,
}

impl AgentRuntime {
    /// Continues runs that a process before this one has left.
    pub(crate) async fn take_up(&self) {
        if let Err(error) = self.runs.take_up().await {
            tracing::error!(%error, "runs that were interrupted cannot be continued");
        }
    }
}
