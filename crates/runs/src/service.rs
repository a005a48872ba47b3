//! Starts, finds and stops runs.

use crate::context::{self, Thread};
use crate::drive::Drive;
use crate::error::RunError;
use crate::feed::{Feed, FeedEvent, ITEM_DONE, Listener};
use crate::item::{ItemIds, Kind, StoredItem};
use crate::journal::StoreJournal;
use crate::live::LiveRun;
use crate::open_call::open_calls;
use crate::owner::Owner;
use crate::spec::RunSpec;
use crate::surroundings::{Continued, Prepared, Resumed, RunTools, Surroundings, container};
use crate::wire::items::{self, Place};
use crate::wire::response::{self, Parts};
use coracle_agent::{Earlier, Steering};
use coracle_models::Item;
use coracle_store::{
    ItemPage, ItemRecord, ItemsOf, MAX_PAGE, MemoryStore, NewRun, RunRecord, RunState, Store, StoreError,
};
use coracle_types::{ConversationId, IdError, RunId, UserId};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Maximum number of runs of one user that are under way at once.
pub const MAX_RUNS_PER_USER: usize = 256;

/// Starts, finds and stops runs. Cheap to clone.
#[derive(Clone, Debug)]
pub struct RunService {
    pub(crate) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    /// Runs that are kept.
    pub(crate) store: Arc<dyn Store>,
    /// Runs that must leave nothing on the disk.
    memory: Arc<dyn Store>,
    pub(crate) surroundings: Arc<dyn Surroundings>,
    live: Mutex<HashMap<(UserId, RunId), Arc<LiveRun>>>,
    /// The server stops.
    pub(crate) stop: CancellationToken,
}

impl RunService {
    /// A service on a store. Runs that outlive their clients are left for the next process when `stop` is cancelled.
    pub fn new(store: Arc<dyn Store>, surroundings: Arc<dyn Surroundings>, stop: CancellationToken) -> Self {
        let memory: Arc<dyn Store> = Arc::new(MemoryStore::new());
        Self { inner: Arc::new(Inner { store, memory, surroundings, live: Mutex::default(), stop }) }
    }

    /// Starts a run with this input.
    pub async fn start(&self, user: &UserId, spec: RunSpec, input: Vec<Item>) -> Result<Arc<LiveRun>, RunError> {
        self.begin(RunId::from_random(random()?), user, spec, input, None).await
    }

    /// Starts a run with this ID, which continues a parked one if a person has answered its questions.
    pub(crate) async fn begin(
        &self,
        id: RunId,
        user: &UserId,
        spec: RunSpec,
        input: Vec<Item>,
        resumed: Option<Resumed>,
    ) -> Result<Arc<LiveRun>, RunError> {
        if spec.conversation.is_some() && !spec.is_stored {
            return Err(RunError::invalid("store", "runs of a conversation are always stored"));
        }
        let store = if spec.is_stored { &self.inner.store } else { &self.inner.memory };
        let surroundings = &self.inner.surroundings;
        let records = self.records_before(user, &spec).await?;
        let mut items = context::model_items(&records);
        check_results(&items, &input)?;
        items.extend(input.iter().cloned());
        let left = if resumed.is_none() { self.left(user, &spec, &records, &items, &input).await? } else { None };
        let owner = resumed.as_ref().and_then(|resumed| surroundings.parked(user, &resumed.continued.run));
        let owner = owner.unwrap_or_else(|| Owner::new(id.clone()));
        let items = context::close_calls(items);
        let (mut open, mut earlier) = (Vec::new(), Earlier::default());
        if resumed.is_some() {
            let functions = spec.functions();
            open = open_calls(&records, &items, &id);
            earlier.open = open.iter().map(|open| open.call.clone()).collect();
            open.retain(|open| !functions.contains(&open.call.name));
        }
        let calls = open.iter().map(|open| open.call.id.clone()).collect();
        let continued = resumed.as_ref().map(|resumed| Continued { calls, ..resumed.continued.clone() });
        let tools = RunTools { run: id.clone(), store: Arc::clone(store), owner: owner.clone(), continued };
        let prepared = surroundings.prepare(user, &tools, &spec).await?;
        let ids = ItemIds::new(&id, 1);
        let answers = resumed.as_ref().map(|resumed| resumed.answers.clone()).unwrap_or_default();
        let answers = answers.into_iter().map(|answer| (Kind::Answer, StoredItem::Answer(answer)));
        let input = answers.chain(input.into_iter().map(|item| (Kind::of(&item), StoredItem::Item(item))));
        let input = input.enumerate().map(|(number, (kind, item))| Ok(item.into_new(ids.input(kind, number)?)));
        let created_at = SystemTime::now();
        let new = NewRun {
            id: id.clone(),
            conversation: spec.conversation.clone(),
            previous: spec.previous.clone(),
            is_background: spec.is_background,
            request: serde_json::to_value(&spec).map_err(|error| RunError::invalid("input", error.to_string()))?,
            created_at,
            input: input
                .collect::<Result<_, IdError>>()
                .map_err(|error| RunError::invalid("input", error.to_string()))?,
            begun: resumed.is_none().then(StoreJournal::first_step),
            continues: tools.continued.as_ref().map(|continued| continued.run.clone()).or_else(|| left.clone()),
        };
        let drive = Drive {
            user: user.clone(),
            id: id.clone(),
            attempt: 1,
            created_at,
            spec: Arc::new(spec),
            store: Arc::clone(store),
            prepared,
            items,
            earlier,
            open,
            finished: Vec::new(),
            begun: resumed.is_none().then_some(1),
        };
        self.admit(user)?;
        // Calls of code that is still under way are recorded for one of the two runs, never for neither.
        let mut owned_by = owner.write().await;
        store.begin_run(user, &new).await.map_err(|error| match (error, &new.continues) {
            (StoreError::Conflict { .. }, Some(run)) => RunError::Continued { run: run.clone() },
            (error, _) => error.into(),
        })?;
        *owned_by = id;
        drop(owned_by);
        if let Some(run) = left {
            surroundings.let_go(user, &run);
        }
        Ok(self.launch(drive))
    }

    fn admit(&self, user: &UserId) -> Result<(), RunError> {
        let under_way = self.live().keys().filter(|(whose, _)| whose == user).count();
        if under_way >= MAX_RUNS_PER_USER { Err(RunError::TooMany { most: MAX_RUNS_PER_USER }) } else { Ok(()) }
    }

    /// The conversation before a run.
    pub async fn before(&self, user: &UserId, spec: &RunSpec) -> Result<Vec<Item>, RunError> {
        Ok(context::model_items(&self.records_before(user, spec).await?))
    }

    async fn records_before(&self, user: &UserId, spec: &RunSpec) -> Result<Vec<ItemRecord>, RunError> {
        let store = &*self.inner.store;
        if let Some(conversation) = &spec.conversation {
            return Ok(context::records(store, user, Thread::Conversation(conversation)).await?);
        }
        let Some(previous) = &spec.previous else { return Ok(Vec::new()) };
        match store.run(user, previous).await? {
            None => return Err(RunError::Missing { what: format!("response `{previous}`") }),
            Some(run) if run.state == RunState::Running => {
                let message = format!("the response `{previous}` is still in progress");
                return Err(RunError::invalid("previous_response_id", message));
            }
            Some(_) => {}
        }
        Ok(context::records(store, user, Thread::Run(previous)).await?)
    }

    pub(crate) async fn prepare(&self, user: &UserId, id: &RunId, spec: &RunSpec) -> Result<Prepared, RunError> {
        let (run, store) = (id.clone(), Arc::clone(&self.inner.store));
        let tools = RunTools { owner: Owner::new(run.clone()), run, store, continued: None };
        self.inner.surroundings.prepare(user, &tools, spec).await
    }

    /// Lets a run work in the background.
    pub(crate) fn launch(&self, drive: Drive) -> Arc<LiveRun> {
        let stop = &self.inner.stop;
        // The others are left for the next process.
        let cancel = if drive.spec.outlives_client() { CancellationToken::new() } else { stop.child_token() };
        let (response, ended) = watch::channel(None);
        let live = Arc::new(LiveRun {
            id: drive.id.clone(),
            conversation: drive.spec.conversation.clone(),
            feed: Arc::new(Feed::new(drive.attempt, drive.finished.clone())),
            cancel,
            steering: Steering::default(),
            response: ended,
        });
        let key = (drive.user.clone(), drive.id.clone());
        self.live().insert(key.clone(), Arc::clone(&live));
        let (service, run) = (self.clone(), Arc::clone(&live));
        tokio::spawn(async move {
            drive.work(&service.inner.stop, &run, response).await;
            service.live().remove(&key);
            if let Some(conversation) = &run.conversation {
                service.after_run(&key.0, conversation, &run.id).await;
            }
        });
        live
    }

    fn live(&self) -> MutexGuard<'_, HashMap<(UserId, RunId), Arc<LiveRun>>> {
        self.inner.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A run that is under way in this process.
    pub fn find_live(&self, user: &UserId, id: &RunId) -> Option<Arc<LiveRun>> {
        self.live().get(&(user.clone(), id.clone())).cloned()
    }

    /// The run that is under way in a conversation in this process.
    pub(crate) fn live_in(&self, user: &UserId, conversation: &ConversationId) -> Option<Arc<LiveRun>> {
        let live = self.live();
        let mut own = live.iter().filter(|((whose, _), _)| whose == user).map(|(_, run)| run);
        own.find(|run| run.conversation.as_ref() == Some(conversation)).cloned()
    }

    /// The runs of a user that are under way in this process.
    pub(crate) fn live_of(&self, user: &UserId) -> Vec<Arc<LiveRun>> {
        self.live().iter().filter(|((whose, _), _)| whose == user).map(|(_, run)| Arc::clone(run)).collect()
    }

    /// The response object of a run.
    pub async fn response(&self, user: &UserId, id: &RunId) -> Result<Option<Value>, RunError> {
        let Some((store, record)) = self.record(user, id).await? else { return Ok(None) };
        Ok(Some(self.view(&*store, user, &record).await?.0))
    }

    async fn record(&self, user: &UserId, id: &RunId) -> Result<Option<(Arc<dyn Store>, RunRecord)>, RunError> {
        for store in [&self.inner.store, &self.inner.memory] {
            if let Some(record) = store.run(user, id).await? {
                return Ok(Some((Arc::clone(store), record)));
            }
        }
        Ok(None)
    }

    /// The response object of a stored run, and the sequence number of its last event.
    async fn view(&self, store: &dyn Store, user: &UserId, record: &RunRecord) -> Result<(Value, u64), RunError> {
        let (spec, outcome) = response::read(record).map_err(|error| damaged(&record.id, &error))?;
        let records = store.items(user, ItemsOf::Run(&record.id), ItemPage::ALL).await?;
        // Messages of the user that arrived during the run are no output.
        let is_output = |item: &ItemRecord| {
            item.is_output && !matches!(StoredItem::of(item), Some(StoredItem::Item(Item::User { .. })))
        };
        let records: Vec<_> = records.into_iter().filter(is_output).collect();
        let (container, functions) = (container(user), spec.functions());
        let place = Place { container: &container, functions: &functions, has_shell: spec.has_shell() };
        let output = items::all(&records, &place);
        let view = response::object(Parts {
            id: &record.id,
            spec: &spec,
            created_at: record.created_at,
            state: record.state,
            ended_at: record.ended_at,
            outcome: outcome.as_ref(),
            output: &output,
        });
        Ok((view, outcome.map_or(0, |outcome| outcome.sequence)))
    }

    /// The events of a run after one of them: live, or made from its items if it has ended.
    pub async fn events(&self, user: &UserId, id: &RunId, after: Option<u64>) -> Result<Option<Events>, RunError> {
        if let Some(live) = self.find_live(user, id) {
            return Ok(Some(Events::Live(live.listen(after))));
        }
        let Some((store, record)) = self.record(user, id).await? else { return Ok(None) };
        let (view, last) = self.view(&*store, user, &record).await?;
        Ok(Some(Events::Past(past_events(&view, last, after))))
    }

    /// Stops a run and returns its response.
    pub async fn stop(&self, user: &UserId, id: &RunId) -> Result<Option<Value>, RunError> {
        if let Some(live) = self.find_live(user, id) {
            live.stop();
            if let Some(response) = live.ended().await {
                self.inner.surroundings.let_go(user, id);
                return Ok(Some((*response).clone()));
            }
        }
        self.inner.surroundings.let_go(user, id);
        self.response(user, id).await
    }

    /// Stops all runs of a user that are under way in this process, and waits for their end.
    pub async fn stop_all(&self, user: &UserId) {
        let live = self.live_of(user);
        for run in &live {
            run.stop();
        }
        for run in &live {
            run.ended().await;
        }
    }

    /// The runs of a user in the background as response objects, newest first.
    pub async fn background(&self, user: &UserId, limit: usize) -> Result<Vec<Value>, RunError> {
        let store = &self.inner.store;
        let records = store.runs(user, MAX_PAGE, None).await?;
        let mut views = Vec::new();
        for record in records.iter().filter(|record| record.is_background).take(limit) {
            views.push(self.view(&**store, user, record).await?.0);
        }
        Ok(views)
    }

    /// Deletes a run, which is stopped before. Returns whether there was one.
    pub async fn delete(&self, user: &UserId, id: &RunId) -> Result<bool, RunError> {
        self.stop(user, id).await?;
        Ok(self.inner.store.delete_run(user, id).await?)
    }
}

/// The events of a run.
#[derive(Debug)]
pub enum Events {
    /// The run is under way.
    Live(Listener),
    /// The run has ended.
    Past(Vec<FeedEvent>),
}

/// The events of a run that has ended: its items, and its end.
fn past_events(view: &Value, last: u64, after: Option<u64>) -> Vec<FeedEvent> {
    let output = view["output"].as_array().cloned().unwrap_or_default();
    let first = last.saturating_sub(output.len() as u64);
    let mut events = Vec::with_capacity(output.len() + 1);
    let mut add = |sequence: u64, kind: &'static str, mut data: Value| {
        data["type"] = kind.into();
        data["sequence_number"] = sequence.into();
        events.push(FeedEvent { sequence, kind, is_extension: false, data: data.to_string().into() });
    };
    for (index, item) in output.iter().enumerate() {
        add(first + index as u64, ITEM_DONE, json!({"output_index": index, "item": item}));
    }
    let kind = match view["status"].as_str() {
        Some("failed") => "response.failed",
        Some("incomplete" | "cancelled") => "response.incomplete",
        _ => "response.completed",
    };
    add(last, kind, json!({"response": view}));
    events.retain(|event| after.is_none_or(|after| event.sequence > after));
    events
}

/// Results must belong to calls that wait for one.
fn check_results(before: &[Item], input: &[Item]) -> Result<(), RunError> {
    let mut open: Vec<String> = context::open_calls(before).into_iter().map(|call| call.id).collect();
    for item in input {
        match item {
            Item::Call(call) => open.push(call.id.clone()),
            Item::Result(result) => {
                let Some(place) = open.iter().position(|id| *id == result.call_id) else {
                    let message = format!("no tool call with ID `{}` waits for a result", result.call_id);
                    return Err(RunError::invalid("input", message));
                };
                open.remove(place);
            }
            Item::System { .. } | Item::User { .. } | Item::Assistant { .. } | Item::Reasoning { .. } => {}
        }
    }
    Ok(())
}

pub(crate) fn random() -> Result<u128, RunError> {
    let mut bytes = [0; 16];
    let failed = |error| RunError::Store(StoreError::home("random numbers", error));
    getrandom::fill(&mut bytes).map_err(failed)?;
    Ok(u128::from_ne_bytes(bytes))
}

pub(crate) fn damaged(id: &RunId, error: &serde_json::Error) -> RunError {
    RunError::Store(StoreError::Damaged { what: format!("run {id}"), reason: error.to_string() })
}
