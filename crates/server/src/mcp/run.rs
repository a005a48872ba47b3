//! Follows one call of a client to its end: progress, questions, cancellation and disconnects.

use super::client_requests::{self, Asked, ClientRequests, Way};
use super::progress::Progress;
use crate::gone::Gone;
use coracle_types::{UserId, sorted_json};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use rmcp::ErrorData;
use rmcp::model::{CallToolRequestParams, CallToolResponse, InputRequests, InputRequiredResult};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

/// A client that does not answer a question within this time has given up.
const PATIENCE: Duration = Duration::from_mins(10);

/// Prefix of our own request states. Those of servers behind the gateway are forwarded.
const OURS: &str = "coracle-";

/// Maximum number of calls that wait for an answer of their client.
const MAX_PARKED: usize = 256;
/// Maximum number of waiting calls per user, so that others find room.
const MAX_PARKED_OF_ONE: usize = 32;

/// Result of a call.
pub(crate) type Answer = Result<CallToolResponse, ErrorData>;

/// Where a run waits for its client, and what is cancelled when the one client there is has gone.
#[derive(Clone, Copy)]
pub(crate) struct Client<'a> {
    pub(crate) parked: &'a Parked,
    pub(crate) gone: Option<&'a CancellationToken>,
}

/// Running call of a client.
pub(crate) struct Run {
    task: JoinHandle<Answer>,
    asked: mpsc::Receiver<Asked>,
    /// Questions without an answer, by key.
    open: BTreeMap<String, Asked>,
    progress: Progress,
    cancel: CancellationToken,
    /// Cancels the run when it is no longer followed.
    _ends: DropGuard,
}

impl Run {
    /// Starts a call with a cancellation token and a way to ask the client.
    pub(crate) fn start<F>(
        context: &RequestContext<RoleServer>,
        progress: Progress,
        start: impl FnOnce(CancellationToken, Arc<ClientRequests>) -> F,
    ) -> Self
    where
        F: Future<Output = Answer> + Send + 'static,
    {
        let (client, asked) = ClientRequests::new(context);
        let cancel = CancellationToken::new();
        let task = tokio::spawn(start(cancel.clone(), Arc::new(client)));
        Self { task, asked, open: BTreeMap::new(), progress, _ends: cancel.clone().drop_guard(), cancel }
    }

    /// Follows the call until it ends or the client has to answer a question first.
    pub(crate) async fn follow(
        mut self,
        client: Client<'_>,
        call: Call<'_>,
        context: &RequestContext<RoleServer>,
    ) -> Answer {
        let way = Way::of(context);
        let mut put = FuturesUnordered::new();
        let gone = gone(client.gone, context);
        tokio::pin!(gone);
        loop {
            tokio::select! {
                biased;
                () = &mut gone => {
                    self.cancel.cancel();
                    // Waits until the sandbox is free again.
                    let _ended = (&mut self.task).await;
                    return Err(ErrorData::internal_error("cancelled", None));
                }
                ended = &mut self.task => return match ended {
                    Ok(answer) => answer,
                    Err(error) => Err(ErrorData::internal_error(format!("the call failed: {error}"), None)),
                },
                Some(asked) = self.asked.recv() => match way {
                    Way::Request => put.push(client_requests::put(context.peer.clone(), asked)),
                    Way::InputRequired => {
                        self.open.insert(asked.key.clone(), asked);
                        while let Ok(asked) = self.asked.try_recv() {
                            self.open.insert(asked.key.clone(), asked);
                        }
                        return client.parked.park(self, call);
                    }
                },
                Some(()) = put.next() => {}
                () = self.progress.report(&context.peer) => {}
            }
        }
    }

    /// Reports progress to this request from now on.
    pub(crate) fn of(mut self, context: &RequestContext<RoleServer>) -> Self {
        self.progress.follow(context);
        self
    }

    /// Passes the client's answers to the questions.
    fn answered(&mut self, mut answers: BTreeMap<String, Value>) {
        for (key, asked) in std::mem::take(&mut self.open) {
            match answers.remove(&key) {
                // The asking side may have stopped waiting.
                Some(answer) => drop(asked.reply.send(Ok(answer))),
                None => drop(asked.reply.send(Err("the client did not answer".to_owned()))),
            }
        }
    }
}

/// Identifies a call and its user: an answer only reaches the call that asked.
#[derive(Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(crate) user: &'a UserId,
    pub(crate) request: &'a CallToolRequestParams,
}

impl Call<'_> {
    /// The digest of the arguments. Needed only for a call that waits, or continues, because of a question.
    fn digest(&self) -> String {
        let Self { user, request } = self;
        let text = sorted_json(&(user.as_str(), &request.name, &request.arguments)).unwrap_or_default();
        hex::encode(Sha256::digest(&text))
    }
}

/// Runs that wait for an answer of their client.
#[derive(Clone, Default)]
pub(crate) struct Parked(Arc<Mutex<HashMap<String, Waiting>>>);

struct Waiting {
    run: Run,
    user: UserId,
    digest: String,
}

impl Parked {
    fn park(&self, run: Run, call: Call<'_>) -> Answer {
        let mut bytes = [0; 24];
        if getrandom::fill(&mut bytes).is_err() {
            return Err(ErrorData::internal_error("cannot get random numbers", None));
        }
        let state = format!("{OURS}{}", hex::encode(bytes));
        let requests: InputRequests =
            run.open.iter().map(|(key, asked)| (key.clone(), asked.request.clone())).collect();
        let waiting = Waiting { run, user: call.user.clone(), digest: call.digest() };
        let mut parked = self.lock();
        let own = parked.values().filter(|other| other.user == waiting.user).count();
        if parked.len() >= MAX_PARKED || own >= MAX_PARKED_OF_ONE {
            return Err(ErrorData::internal_error(
                "too many calls are waiting for their clients: try again later",
                None,
            ));
        }
        parked.insert(state.clone(), waiting);
        let (all, key) = (self.clone(), state.clone());
        tokio::spawn(async move {
            tokio::time::sleep(PATIENCE).await;
            // Dropping the run ends it.
            let given_up = all.lock().remove(&key);
            drop(given_up);
        });
        Ok(InputRequiredResult::new(Some(requests), Some(state)).into())
    }

    /// Returns the run that a client has answered a question of.
    pub(crate) fn resume(&self, call: Call<'_>) -> Option<Result<Run, ErrorData>> {
        let request = call.request;
        let state = request.request_state.as_ref().filter(|state| state.starts_with(OURS))?;
        let gone = || {
            ErrorData::invalid_params(
                "no call is waiting with this requestState: it was already answered, has ended, or belongs to another call",
                None,
            )
        };
        let digest = call.digest();
        let mut parked = self.lock();
        if parked.get(state).is_none_or(|waiting| waiting.digest != digest) {
            return Some(Err(gone()));
        }
        let mut run = parked.remove(state)?.run;
        run.answered(request.input_responses.clone().unwrap_or_default());
        Some(Ok(run))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Waiting>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits until the client cancels the call or disconnects.
async fn gone(client: Option<&CancellationToken>, context: &RequestContext<RoleServer>) {
    let request = context.extensions.get::<http::request::Parts>().and_then(|parts| parts.extensions.get::<Gone>());
    match request.map(|request| &request.0).or(client) {
        None => context.ct.cancelled().await,
        Some(gone) => {
            tokio::select! {
                () = context.ct.cancelled() => {}
                () = gone.cancelled() => {}
            }
        }
    }
}
