//! The journal of a run, in the store.

use crate::approval::AskedCall;
use crate::item::{ItemIds, Kind, Positions, StoredItem};
use crate::open_call::OpenCall;
use crate::spec::RunSpec;
use async_trait::async_trait;
use coracle_agent::{CallUpdate, Entry, JournalError, RunEvent, RunJournal};
use coracle_models::{Call, Item};
use coracle_store::{NewItem, NewStep, Progress, StepEnd, StepKind, Store, StoreError};
use coracle_types::{ItemId, RunId, UserId};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

/// Records the progress of one attempt of a run.
#[derive(Debug)]
pub(crate) struct StoreJournal {
    store: Arc<dyn Store>,
    user: UserId,
    run: RunId,
    ids: ItemIds,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The step that was recorded when the run began.
    begun: Option<u32>,
    step: u32,
    /// Number of items that the run has added to the conversation and that are recorded.
    recorded: usize,
    steered: usize,
    compacted: usize,
    /// Calls without a result.
    calls: Vec<OpenCall>,
    /// Whether questions to a person are items.
    shows_questions: bool,
}

impl StoreJournal {
    /// The journal of an attempt; `begun` is the step that is recorded already.
    pub(crate) fn new(
        store: Arc<dyn Store>,
        user: UserId,
        run: RunId,
        attempt: u32,
        begun: Option<u32>,
        open: &[OpenCall],
        spec: &RunSpec,
    ) -> Self {
        let calls = open.to_vec();
        let state = Mutex::new(State { begun, calls, shows_questions: spec.may_ask, ..State::default() });
        Self { ids: ItemIds::new(&run, attempt), store, user, run, state }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The step with which a run begins.
    pub(crate) fn first_step() -> NewStep {
        begun(StepKind::Model, "1")
    }

    /// The items of an outcome that are not recorded yet: results of calls that did not run.
    pub(crate) fn rest(&self, items: &[Item]) -> Result<Vec<NewItem>, StoreError> {
        let from = self.state().recorded.min(items.len());
        let rest = items[from..].iter().enumerate().map(|(place, item)| match item {
            Item::Result(result) => {
                let (id, call) = self.answered_call(&result.call_id);
                new_item(&id, StoredItem::Result { result: result.clone(), structured: None, call })
            }
            other => {
                let id = format!("{}x{place:x}", self.ids.other(Kind::of(other), from));
                new_item(&id, StoredItem::Item(other.clone()))
            }
        });
        rest.collect()
    }

    /// Records questions to a person as steps. They have no effect by themselves, so the run does not depend on it.
    pub(crate) async fn note(&self, event: &RunEvent) {
        let mut progress = Progress::default();
        match event {
            RunEvent::CallUpdate { update: update @ CallUpdate::Asked { question, .. }, .. } => {
                progress.begun.push(begun(StepKind::Question, question));
                let asked = AskedCall::of(update).filter(|_| self.state().shows_questions);
                progress.items.extend(asked.and_then(|asked| new_item(question, StoredItem::Asked(asked)).ok()));
            }
            RunEvent::CallUpdate { update: CallUpdate::Answered { question, allowed, .. }, .. } => {
                progress.ended.push(ended(StepKind::Question, question, json!({ "allowed": allowed })));
            }
            _ => return,
        }
        if let Err(error) = self.store.advance(&self.user, &self.run, &progress).await {
            tracing::warn!(run = %self.run, %error, "cannot record a question");
        }
    }

    /// The ID of the result of a call, and the call if an earlier run has made it.
    fn answered_call(&self, call_id: &str) -> (String, Option<Call>) {
        let mut state = self.state();
        let place = state.calls.iter().position(|open| open.call.id == call_id);
        match place.map(|place| state.calls.remove(place)) {
            Some(open) => (open.id.replacen("call_", "res_", 1), open.is_taken_over.then_some(open.call)),
            // Every result belongs to a call, so this is only a precaution.
            None => (self.ids.other(Kind::Result, state.recorded), None),
        }
    }

    fn answered(
        &self,
        step: u32,
        items: &[Item],
        outcome: Value,
        own: &[Call],
        of_client: &[Call],
    ) -> Result<Progress, StoreError> {
        let mut positions = Positions::default();
        let mut new = Vec::with_capacity(items.len());
        for item in items {
            let kind = Kind::of(item);
            let id = self.ids.output(kind, step, positions.next(kind));
            if let Item::Call(call) = item {
                let open = OpenCall { id: id.clone(), call: call.clone(), is_taken_over: false };
                self.state().calls.push(open);
            }
            new.push(new_item(&id, StoredItem::Item(item.clone()))?);
        }
        let own = own.iter().map(|call| begun(StepKind::Execution, &subject(&call.id)));
        let of_client = of_client.iter().map(|call| begun(StepKind::ClientCall, &subject(&call.id)));
        Ok(Progress {
            ended: vec![ended(StepKind::Model, &step.to_string(), outcome)],
            items: new,
            begun: own.chain(of_client).collect(),
            end: None,
        })
    }

    fn progress(&self, entry: Entry<'_>) -> Result<(Progress, usize), StoreError> {
        let mut progress = Progress::default();
        let mut added = 0;
        match entry {
            Entry::Asking { step } => {
                let mut state = self.state();
                state.step = step;
                if state.begun.take() != Some(step) {
                    progress.begun.push(begun(StepKind::Model, &step.to_string()));
                }
            }
            Entry::Answered { step, items, stop, usage, own, of_client } => {
                let outcome = json!({ "usage": usage, "stop": stop });
                progress = self.answered(step, items, outcome, own, of_client)?;
                added = items.len();
            }
            Entry::Result { result, structured } => {
                let (id, call) = self.answered_call(&result.call_id);
                let stored = StoredItem::Result { result: result.clone(), structured: structured.cloned(), call };
                progress.items.push(new_item(&id, stored)?);
                let outcome = json!({ "is_error": result.is_error });
                progress.ended.push(ended(StepKind::Execution, &subject(&result.call_id), outcome));
                added = 1;
            }
            Entry::Steered { parts } => {
                let mut state = self.state();
                let id = self.ids.other(Kind::Message, state.steered);
                state.steered += 1;
                progress.items.push(new_item(&id, StoredItem::Item(Item::User { parts: parts.to_vec() }))?);
                added = 1;
            }
            Entry::Compacting => progress.begun.push(begun(StepKind::Compaction, "")),
            Entry::Compacted { items, usage } => {
                let mut state = self.state();
                let id = self.ids.other(Kind::Compaction, state.compacted);
                state.compacted += 1;
                progress.items.push(new_item(&id, StoredItem::Compaction(items.to_vec()))?);
                progress.ended.push(ended(StepKind::Compaction, "", json!({ "usage": usage })));
            }
        }
        Ok((progress, added))
    }
}

#[async_trait]
impl RunJournal for StoreJournal {
    async fn record(&self, entry: Entry<'_>) -> Result<(), JournalError> {
        let failed = |error: StoreError| JournalError(error.to_string());
        let (progress, added) = self.progress(entry).map_err(failed)?;
        if progress != Progress::default() {
            self.store.advance(&self.user, &self.run, &progress).await.map_err(failed)?;
        }
        self.state().recorded += added;
        Ok(())
    }
}

/// The subject of a step about a call. IDs of calls come from models.
pub(crate) fn subject(call_id: &str) -> String {
    const MAX_BYTES: usize = 256;
    call_id[..call_id.floor_char_boundary(MAX_BYTES)].to_owned()
}

/// The steps of calls that a run has parked.
pub(crate) fn parked_steps(calls: &[Call]) -> Vec<NewStep> {
    calls.iter().map(|call| begun(StepKind::Parked, &subject(&call.id))).collect()
}

fn begun(kind: StepKind, subject: &str) -> NewStep {
    NewStep { kind, subject: subject.to_owned(), begun_at: SystemTime::now() }
}

fn ended(kind: StepKind, subject: &str, outcome: Value) -> StepEnd {
    StepEnd { kind, subject: subject.to_owned(), ended_at: SystemTime::now(), outcome }
}

fn new_item(id: &str, item: StoredItem) -> Result<NewItem, StoreError> {
    let id = ItemId::new(id)
        .map_err(|error| StoreError::Damaged { what: "item ID".to_owned(), reason: error.to_string() })?;
    Ok(item.into_new(id))
}
