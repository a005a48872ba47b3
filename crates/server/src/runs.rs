//! The agent of a server: its models, and its runs.

use crate::agent::AgentOptions;
use crate::mcp::{Frontend, FrontendTools};
use async_trait::async_trait;
use coracle_agent::Agent;
use coracle_policy::NobodyToAsk;
use coracle_runs::{Prepared, RunError, RunService, RunSpec, RunTools, Surroundings};
use coracle_store::{MemoryStore, Store};
use coracle_types::UserId;
use std::fmt;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The agent of a server. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct AgentRuntime {
    /// Models and limits.
    pub(crate) options: Arc<AgentOptions>,
    /// The runs.
    pub(crate) runs: RunService,
}

impl Frontend {
    /// Starts the agent of this front end and of its clones. Without a call of this, there is none.
    ///
    /// Runs that outlive their clients are left for the next process when `stop` is cancelled.
    pub(crate) fn start_agent(&self, options: AgentOptions, stop: &CancellationToken) -> AgentRuntime {
        let options = Arc::new(options);
        let store = options.store.clone();
        let store = store.unwrap_or_else(|| Arc::new(MemoryStore::new()) as Arc<dyn Store>);
        let surroundings = ServerSurroundings { frontend: self.clone(), options: Arc::clone(&options) };
        let runs = RunService::new(store, Arc::new(surroundings), stop.clone());
        // A front end is served once, so the runtime is never replaced.
        self.agent.get_or_init(|| AgentRuntime { options, runs }).clone()
    }
}

impl AgentRuntime {
    /// Continues runs that a process before this one has left.
    pub(crate) async fn take_up(&self) {
        if let Err(error) = self.runs.take_up().await {
            tracing::error!(%error, "runs that were interrupted cannot be continued");
        }
    }
}

struct ServerSurroundings {
    frontend: Frontend,
    options: Arc<AgentOptions>,
}

impl fmt::Debug for ServerSurroundings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerSurroundings").finish_non_exhaustive()
    }
}

#[async_trait]
impl Surroundings for ServerSurroundings {
    async fn prepare(&self, user: &UserId, _run: &RunTools, spec: &RunSpec) -> Result<Prepared, RunError> {
        let chosen = self.options.models.find(Some(&spec.model));
        let chosen = chosen.map_err(|error| RunError::invalid("model", format!("{error}: {}", error.hint())))?;
        let tools = FrontendTools::new(self.frontend.of_user(user), Arc::new(NobodyToAsk));
        let of_client = spec.instructions.as_deref().unwrap_or_default();
        let instructions = self.options.instructions(&tools, of_client).await;
        Ok(Prepared {
            agent: Agent::new(Arc::new(tools), self.options.limits(&chosen.provider_name)),
            fences: self.options.fences(&chosen.provider_name),
            provider: chosen.provider,
            model: chosen.model,
            instructions,
        })
    }
}
