//! Starts the agent of a server, and finds models and tools for its runs.

use crate::agent::AgentOptions;
use crate::agent_runtime::AgentRuntime;
use crate::approvals::OpenQuestions;
use crate::mcp::{Frontend, FrontendTools, HeldExecutions};
use crate::strict_approver::StrictApprover;
use crate::user_models::UserModels;
use async_trait::async_trait;
use coracle_accounts::People;
use coracle_agent::Agent;
use coracle_policy::{Approver, NobodyToAsk};
use coracle_runs::{Owner, Prepared, RunError, RunService, RunSpec, RunTools, Surroundings};
use coracle_store::{Place, Store};
use coracle_types::{RunId, UserId};
use std::fmt;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

impl Frontend {
    /// Starts the agent of this front end and of its clones. Without a call of this, there is none. People are asked
    /// through `questions`, if there is a way to answer them.
    ///
    /// Runs that outlive their clients are left for the next process when `stop` is cancelled.
    pub(crate) fn start_agent(
        &self,
        options: AgentOptions,
        people: &People,
        questions: Option<OpenQuestions>,
        stop: &CancellationToken,
    ) -> AgentRuntime {
        let models = UserModels::new(options, people, &self.engine);
        let held = HeldExecutions::default();
        let surroundings = ServerSurroundings { frontend: self.clone(), models: models.clone(), questions, held };
        let runs = RunService::new(people.shared_store(), Arc::new(surroundings), stop.clone());
        // A front end is served once, so the runtime is never replaced.
        self.agent.get_or_init(|| AgentRuntime { models, runs }).clone()
    }
}

struct ServerSurroundings {
    frontend: Frontend,
    models: UserModels,
    questions: Option<OpenQuestions>,
    held: HeldExecutions,
}

impl ServerSurroundings {
    fn approver(&self, user: &UserId, run: &RunTools, spec: &RunSpec) -> Arc<dyn Approver> {
        let approver: Arc<dyn Approver> = match &self.questions {
            Some(questions) if spec.may_ask => questions.approver(user, Some(run.run.to_string())),
            _ => Arc::new(NobodyToAsk),
        };
        StrictApprover::around(approver, &spec.always_ask)
    }
}

/// Where what code returns to a run stays: the conversation, or the run, which has what the runs before it got. The run
/// itself may not be stored yet.
async fn conversation(
    store: &Arc<dyn Store>,
    user: &UserId,
    run: &RunTools,
    spec: &RunSpec,
) -> Result<Place, RunError> {
    let own = spec.conversation.as_ref().map_or_else(|| Place::run(&run.run), Place::conversation);
    let continued = run.continued.as_ref().map(|continued| &continued.run);
    for earlier in spec.previous.iter().chain(continued) {
        let record = store.run(user, earlier).await?;
        let conversation = record.and_then(|record| record.conversation);
        let earlier = conversation.as_ref().map_or_else(|| Place::run(earlier), Place::conversation);
        if earlier != own {
            store.copy_sources(user, &earlier, &own).await?;
        }
    }
    Ok(own)
}

impl fmt::Debug for ServerSurroundings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerSurroundings").finish_non_exhaustive()
    }
}

#[async_trait]
impl Surroundings for ServerSurroundings {
    async fn prepare(&self, user: &UserId, run: &RunTools, spec: &RunSpec) -> Result<Prepared, RunError> {
        let invalid = |message: String| RunError::invalid("model", message);
        let found = self.models.find(user, Some(&spec.model)).await.map_err(|error| invalid(error.to_string()))?;
        let chosen = found.map_err(|error| invalid(format!("{error}: {}", error.hint())))?;
        let conversation = conversation(&run.store, user, run, spec).await?;
        let tools = FrontendTools::new(self.frontend.of_user(user), self.approver(user, run, spec));
        let mut tools = tools.in_conversation(conversation).in_mode(spec.mode);
        let can_hold = spec.parks || run.continued.is_some();
        if spec.outlives_client() || can_hold {
            tools = tools.for_run(run.clone());
        }
        if can_hold {
            tools = tools.holding(self.held.clone());
        }
        let options = &self.models.options;
        let of_client = spec.instructions.as_deref().unwrap_or_default();
        let instructions = options.instructions(&tools.instructions().await, of_client);
        Ok(Prepared {
            agent: Agent::new(Arc::new(tools), options.limits(&chosen.provider_name)),
            fences: options.fences(&chosen.provider_name),
            provider: chosen.provider,
            model: chosen.model,
            instructions,
        })
    }

    fn parked(&self, user: &UserId, run: &RunId) -> Option<Owner> {
        self.held.owner(user, run)
    }

    fn let_go(&self, user: &UserId, run: &RunId) {
        self.held.stop(user, run);
    }
}
