//! One attempt of a run, from its beginning to its end.

use crate::journal::{StoreJournal, parked_steps};
use crate::live::LiveRun;
use crate::open_call::OpenCall;
use crate::spec::RunSpec;
use crate::surroundings::{Prepared, container};
use crate::wire::narrator::Narrator;
use crate::wire::response::StoredOutcome;
use coracle_agent::{Agent, Earlier, Ended, Questions, RunLimits, RunOutcome, RunRequest};
use coracle_models::Item;
use coracle_store::{Progress, RunEnd, RunState, Store};
use coracle_types::{RunId, UserId};
use serde_json::Value;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

/// Events of the agent that may wait to be told.
const MAX_WAITING_EVENTS: usize = 256;
/// Time between attempts to write the end of a run.
const RETRY: Duration = Duration::from_secs(2);

/// Everything that an attempt of a run needs.
#[derive(Debug)]
pub(crate) struct Drive {
    pub(crate) user: UserId,
    pub(crate) id: RunId,
    pub(crate) attempt: u32,
    pub(crate) created_at: SystemTime,
    pub(crate) spec: Arc<RunSpec>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) prepared: Prepared,
    /// The conversation, with everything that earlier attempts have added.
    pub(crate) items: Vec<Item>,
    pub(crate) earlier: Earlier,
    /// Calls without a result, with their item IDs.
    pub(crate) open: Vec<OpenCall>,
    /// Items that earlier attempts have finished, as clients see them.
    pub(crate) finished: Vec<Value>,
    /// The step that is recorded already.
    pub(crate) begun: Option<u32>,
}

impl Drive {
    /// Works until the run has ended, or the server stops.
    pub(crate) async fn work(
        self,
        stop: &CancellationToken,
        live: &LiveRun,
        response: watch::Sender<Option<Arc<Value>>>,
    ) {
        let Self { user, id, attempt, created_at, spec, store, prepared, items, earlier, open, finished, begun } = self;
        let is_left = spec.outlives_client();
        let journal = StoreJournal::new(Arc::clone(&store), user.clone(), id.clone(), attempt, begun, &open, &spec);
        let journal = Arc::new(journal);
        let feed = Arc::clone(&live.feed);
        let mut narrator = Narrator::new(feed, id.clone(), attempt, Arc::clone(&spec), created_at, container(&user));
        narrator.began(finished, &open);

        let Prepared { provider, model, instructions, agent, fences } = prepared;
        let mut request = RunRequest::new(provider, spec.model_request(model, instructions));
        request.request.items = items;
        request.fences = fences;
        request.steering = live.steering.clone();
        request.cancel = live.cancel.clone();
        request.journal = Arc::<StoreJournal>::clone(&journal);
        request.earlier = earlier;
        request.questions = if spec.parks { Questions::Park } else { Questions::Wait };
        let agent = limited(agent, &spec);
        let (sender, mut events) = mpsc::channel(MAX_WAITING_EVENTS);
        let narrating = async {
            while let Some(event) = events.recv().await {
                journal.note(&event).await;
                narrator.tell_event(event);
            }
        };
        let working = async { tokio::join!(agent.run(request, sender), narrating).0 };
        let outcome = tokio::select! {
            biased;
            () = stop.cancelled(), if is_left => {
                tracing::info!(run = %id, %user, "a run is left for the next start of the server");
                return;
            }
            outcome = working => outcome,
        };
        let (state, mut kept) = stored(&outcome);
        kept.sequence = live.feed.next_sequence();
        let ended_at = SystemTime::now();
        let end = RunEnd { state, ended_at, outcome: serde_json::to_value(&kept).unwrap_or_default() };
        let items = journal.rest(&outcome.items).unwrap_or_default();
        let parked = if let Ended::Parked { calls, .. } = &outcome.ended { parked_steps(calls) } else { Vec::new() };
        let progress = Progress { items, begun: parked, end: Some(end), ..Progress::default() };
        // The end must be written: otherwise the run would look as if it were under way for as long as this process lives.
        while let Err(error) = store.advance(&user, &id, &progress).await {
            tracing::error!(run = %id, %user, %error, "cannot write the end of a run");
            if !error.is_passing() {
                break;
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(RETRY) => {}
            }
        }
        let view = narrator.ended(state, ended_at, &kept);
        if !spec.is_stored {
            // The client has the response, and nothing else may need it.
            if let Err(error) = store.delete_run(&user, &id).await {
                tracing::warn!(run = %id, %error, "cannot forget a run");
            }
        }
        tracing::info!(run = %id, %user, state = state.as_str(), ended = kept.ended, steps = outcome.steps, "a run has ended");
        response.send_replace(Some(Arc::new(view)));
    }
}

/// An agent whose limits are also those of the request.
fn limited(agent: Agent, spec: &RunSpec) -> Agent {
    let Some(most) = spec.max_tool_calls else { return agent };
    let limits = agent.limits();
    let calls = limits.calls.min(most);
    agent.with_limits(RunLimits { calls, ..limits })
}

/// The state and the stored outcome of a run.
fn stored(outcome: &RunOutcome) -> (RunState, StoredOutcome) {
    let (state, ended, message) = match &outcome.ended {
        Ended::Done => (RunState::Completed, "done", None),
        Ended::ClientCalls(_) => (RunState::Completed, "client_calls", None),
        Ended::Parked { .. } => (RunState::Completed, "approval", None),
        Ended::Refused => (RunState::Incomplete, "refused", Some("the model refused".to_owned())),
        Ended::Length => (RunState::Incomplete, "length", Some("the answer reached its maximum length".to_owned())),
        Ended::Steps(most) => (RunState::Incomplete, "steps", Some(format!("stopped after {most} steps"))),
        Ended::Calls(most) => (RunState::Incomplete, "calls", Some(format!("stopped after {most} tool calls"))),
        Ended::Tokens(most) => (RunState::Incomplete, "tokens", Some(format!("stopped after {most} tokens"))),
        Ended::Loop => {
            (RunState::Incomplete, "loop", Some("stopped because the model repeated the same call".to_owned()))
        }
        Ended::Cancelled => (RunState::Cancelled, "cancelled", Some("the run was stopped".to_owned())),
        Ended::Failed(error) => (RunState::Failed, error.code(), Some(error.to_string())),
        Ended::NotRecorded(error) => (RunState::Failed, "not_recorded", Some(error.to_string())),
    };
    (state, StoredOutcome { ended: ended.to_owned(), message, usage: outcome.usage, sequence: 0 })
}
