//! Conversations and runs, in memory.

use super::MemoryStore;
use crate::moment::kept;
use crate::runs::{continued_by, not_parked};
use crate::{
    ConversationRecord, ForkedItem, ItemPage, ItemRecord, ItemsOf, MAX_ITEMS, MAX_PAGE, NewItem, NewRun, NewStep,
    Progress, QueueRecord, RunCall, RunRecord, RunState, Runs, StepKind, StepRecord, StoreError, bounds,
};
use async_trait::async_trait;
use coracle_types::{ConversationId, ItemId, RunId, UserId};
use serde_json::{Map, Value};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{MutexGuard, PoisonError};
use std::time::SystemTime;

/// The conversations and runs of each user.
pub(super) type AllRuns = BTreeMap<UserId, UserRuns>;

#[derive(Debug, Default)]
pub(super) struct UserRuns {
    conversations: BTreeMap<ConversationId, ConversationRecord>,
    /// Only those that have been written.
    queues: BTreeMap<ConversationId, QueueRecord>,
    runs: BTreeMap<RunId, KeptRun>,
    /// All items in the order in which they were added.
    items: Vec<KeptItem>,
}

#[derive(Debug)]
struct KeptRun {
    record: RunRecord,
    steps: Vec<StepRecord>,
    calls: BTreeMap<(String, u64), (Value, Option<Value>)>,
}

#[derive(Debug)]
struct KeptItem {
    record: ItemRecord,
    conversation: Option<ConversationId>,
}

impl KeptRun {
    fn has_parked(&self, subject: &str) -> bool {
        self.parked().any(|step| step.begun.subject == subject)
    }

    fn parked(&self) -> impl Iterator<Item = &StepRecord> {
        self.steps.iter().filter(|step| step.begun.kind == StepKind::Parked && step.ended_at.is_none())
    }

    /// Gives up what is parked, for the run that takes it over.
    fn hand_over(&mut self, to: &NewRun) -> BTreeMap<(String, u64), (Value, Option<Value>)> {
        for step in &mut self.steps {
            if step.begun.kind == StepKind::Parked && step.ended_at.is_none() {
                step.ended_at = Some(kept(to.created_at));
                step.outcome = Some(continued_by(&to.id));
            }
        }
        std::mem::take(&mut self.calls)
    }

    fn begin(&mut self, step: &NewStep) {
        let begun = NewStep { begun_at: kept(step.begun_at), ..step.clone() };
        self.steps.push(StepRecord { number: self.steps.len() as u64 + 1, begun, ended_at: None, outcome: None });
    }
}

impl UserRuns {
    pub(super) fn is_empty(&self) -> bool {
        self.conversations.is_empty() && self.runs.is_empty()
    }

    fn is_busy(&self, id: &ConversationId) -> bool {
        let mut runs = self.runs.values().map(|run| &run.record);
        runs.any(|run| run.conversation.as_ref() == Some(id) && run.state == RunState::Running)
    }

    /// Checks that a conversation exists and no run is running in it.
    fn idle(&mut self, id: &ConversationId) -> Result<&mut ConversationRecord, StoreError> {
        let is_busy = self.is_busy(id);
        match self.conversations.get_mut(id) {
            None => Err(StoreError::NoConversation { id: id.to_string() }),
            Some(_) if is_busy => Err(StoreError::Busy { id: id.to_string() }),
            Some(found) => Ok(found),
        }
    }

    fn has_item(&self, id: &ItemId) -> bool {
        self.items.iter().any(|item| item.record.id == *id)
    }

    fn add(
        &mut self,
        new: &[NewItem],
        conversation: Option<&ConversationId>,
        run: Option<&RunId>,
        is_output: bool,
    ) -> Result<(), StoreError> {
        if let Some(taken) = new.iter().find(|item| self.has_item(&item.id)) {
            return Err(StoreError::Conflict { what: format!("the item {}", taken.id), expected: 0 });
        }
        self.items.extend(new.iter().map(|item| KeptItem {
            record: ItemRecord { id: item.id.clone(), run: run.cloned(), is_output, content: item.content.clone() },
            conversation: conversation.cloned(),
        }));
        Ok(())
    }

    fn delete_run(&mut self, id: &RunId) {
        self.runs.remove(id);
        self.items.retain(|item| item.record.run.as_ref() != Some(id));
    }

    fn delete_conversation(&mut self, id: &ConversationId) {
        self.conversations.remove(id);
        self.queues.remove(id);
        self.runs.retain(|_, run| run.record.conversation.as_ref() != Some(id));
        self.items.retain(|item| item.conversation.as_ref() != Some(id));
    }

    /// The queue of a conversation; `None` if the conversation does not exist.
    pub(super) fn queue_mut(&mut self, id: &ConversationId) -> Option<&mut QueueRecord> {
        self.conversations.contains_key(id).then(|| self.queues.entry(id.clone()).or_default())
    }

    /// The conversations that have a queue.
    pub(super) fn queues(&self) -> impl Iterator<Item = &ConversationId> {
        self.queues.iter().filter(|(_, queue)| queue.content.is_some()).map(|(id, _)| id)
    }

    pub(super) fn conversation_mut(&mut self, id: &ConversationId) -> Option<&mut ConversationRecord> {
        self.conversations.get_mut(id)
    }

    /// All conversations, last changed first.
    pub(super) fn newest_conversations(&self) -> Vec<&ConversationRecord> {
        let mut found: Vec<&ConversationRecord> = self.conversations.values().collect();
        found.sort_by_key(|conversation| Reverse((conversation.changed_at, &conversation.id)));
        found
    }

    /// All runs, newest first.
    pub(super) fn newest_runs(&self) -> Vec<&RunRecord> {
        let mut found: Vec<&RunRecord> = self.runs.values().map(|run| &run.record).collect();
        found.sort_by_key(|run| Reverse((run.created_at, &run.id)));
        found
    }

    pub(super) fn items_in(&self, id: &ConversationId) -> impl Iterator<Item = &ItemRecord> {
        self.items.iter().filter(move |item| item.conversation.as_ref() == Some(id)).map(|item| &item.record)
    }

    /// Adds a conversation with items that belong to no run.
    pub(super) fn fork(&mut self, fork: ConversationRecord, items: &[ForkedItem]) -> Result<(), StoreError> {
        if self.conversations.contains_key(&fork.id) {
            return Err(StoreError::Conflict { what: format!("the conversation {}", fork.id), expected: 0 });
        }
        if let Some(taken) = items.iter().find(|forked| self.has_item(&forked.item.id)) {
            return Err(StoreError::Conflict { what: format!("the item {}", taken.item.id), expected: 0 });
        }
        self.items.extend(items.iter().map(|ForkedItem { item, is_output }| KeptItem {
            record: ItemRecord { id: item.id.clone(), run: None, is_output: *is_output, content: item.content.clone() },
            conversation: Some(fork.id.clone()),
        }));
        self.conversations.insert(fork.id.clone(), fork);
        Ok(())
    }

    /// The runs that those of a kind continue, directly or not.
    fn continued_by(&self, is_meant: impl Fn(&RunRecord) -> bool) -> BTreeSet<RunId> {
        let mut needed = BTreeSet::new();
        for run in self.runs.values().map(|run| &run.record).filter(|run| is_meant(run)) {
            let mut next = run.previous.as_ref();
            while let Some(id) = next.filter(|id| needed.insert(RunId::clone(id))) {
                next = self.runs.get(id).and_then(|run| run.record.previous.as_ref());
            }
        }
        needed
    }

    /// A run that records calls of this step.
    fn recording(&mut self, id: &RunId, subject: &str) -> Result<&mut KeptRun, StoreError> {
        let may_record = |run: &&mut KeptRun| run.record.state == RunState::Running || run.has_parked(subject);
        self.runs.get_mut(id).filter(may_record).ok_or_else(|| StoreError::NoRun { id: id.to_string() })
    }

    fn running(&mut self, id: &RunId) -> Result<&mut KeptRun, StoreError> {
        let found = self.runs.get_mut(id).filter(|run| run.record.state == RunState::Running);
        found.ok_or_else(|| StoreError::NoRun { id: id.to_string() })
    }
}

impl MemoryStore {
    pub(super) fn all_runs(&self) -> MutexGuard<'_, AllRuns> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Runs for MemoryStore {
    async fn create_conversation(
        &self,
        user: &UserId,
        conversation: &ConversationRecord,
        items: &[NewItem],
    ) -> Result<(), StoreError> {
        bounds::conversation(conversation.title.as_deref(), &conversation.metadata)?;
        bounds::items(items)?;
        let mut all = self.all_runs();
        let own = all.entry(user.clone()).or_default();
        if own.conversations.contains_key(&conversation.id) {
            return Err(StoreError::Conflict { what: format!("the conversation {}", conversation.id), expected: 0 });
        }
        own.add(items, Some(&conversation.id), None, false)?;
        let (created_at, changed_at) = (kept(conversation.created_at), kept(conversation.changed_at));
        let record = ConversationRecord { created_at, changed_at, ..conversation.clone() };
        own.conversations.insert(conversation.id.clone(), record);
        Ok(())
    }

    async fn conversation(&self, user: &UserId, id: &ConversationId) -> Result<Option<ConversationRecord>, StoreError> {
        Ok(self.all_runs().get(user).and_then(|own| own.conversations.get(id).cloned()))
    }

    async fn conversations(
        &self,
        user: &UserId,
        limit: usize,
        before: Option<&ConversationId>,
    ) -> Result<Vec<ConversationRecord>, StoreError> {
        let all = self.all_runs();
        let Some(own) = all.get(user) else { return Ok(Vec::new()) };
        let newest_first = own.newest_conversations().into_iter();
        Ok(after(newest_first, before, |conversation| &conversation.id).take(limit.min(MAX_PAGE)).cloned().collect())
    }

    async fn update_conversation(
        &self,
        user: &UserId,
        id: &ConversationId,
        metadata: &Map<String, Value>,
    ) -> Result<bool, StoreError> {
        bounds::conversation(None, metadata)?;
        let mut all = self.all_runs();
        let Some(found) = all.get_mut(user).and_then(|own| own.conversations.get_mut(id)) else { return Ok(false) };
        found.metadata.clone_from(metadata);
        Ok(true)
    }

    async fn delete_conversation(&self, user: &UserId, id: &ConversationId) -> Result<bool, StoreError> {
        let mut all = self.all_runs();
        let Some(own) = all.get_mut(user) else { return Ok(false) };
        let is_idle = own.idle(id).is_ok();
        if is_idle {
            own.delete_conversation(id);
        }
        Ok(is_idle)
    }

    async fn add_items(
        &self,
        user: &UserId,
        id: &ConversationId,
        items: &[NewItem],
        at: SystemTime,
    ) -> Result<(), StoreError> {
        bounds::items(items)?;
        let mut all = self.all_runs();
        let own = all.entry(user.clone()).or_default();
        own.idle(id)?;
        own.add(items, Some(id), None, false)?;
        own.idle(id)?.changed_at = kept(at);
        Ok(())
    }

    async fn item(&self, user: &UserId, id: &ItemId) -> Result<Option<ItemRecord>, StoreError> {
        let all = self.all_runs();
        let mut items = all.get(user).into_iter().flat_map(|own| &own.items);
        Ok(items.find(|item| item.record.id == *id).map(|item| item.record.clone()))
    }

    async fn delete_item(&self, user: &UserId, of: &ConversationId, id: &ItemId) -> Result<bool, StoreError> {
        let mut all = self.all_runs();
        let Some(own) = all.get_mut(user).filter(|own| !own.is_busy(of)) else { return Ok(false) };
        let before = own.items.len();
        own.items.retain(|item| item.record.id != *id || item.conversation.as_ref() != Some(of));
        Ok(own.items.len() < before)
    }

    async fn items(&self, user: &UserId, of: ItemsOf<'_>, page: ItemPage<'_>) -> Result<Vec<ItemRecord>, StoreError> {
        let all = self.all_runs();
        let belongs = |item: &&KeptItem| match of {
            ItemsOf::Run(id) => item.record.run.as_ref() == Some(id),
            ItemsOf::Conversation(id) => item.conversation.as_ref() == Some(id),
        };
        let items = all.get(user).into_iter().flat_map(|own| &own.items).filter(belongs).map(|item| &item.record);
        let mut found: Vec<&ItemRecord> = items.collect();
        if page.newest_first {
            found.reverse();
        }
        let limit = page.limit.unwrap_or(MAX_ITEMS).min(MAX_ITEMS);
        Ok(after(found.into_iter(), page.after, |item| &item.id).take(limit).cloned().collect())
    }

    async fn begin_run(&self, user: &UserId, run: &NewRun) -> Result<(), StoreError> {
        bounds::run(run)?;
        bounds::items(&run.input)?;
        let mut all = self.all_runs();
        let own = all.entry(user.clone()).or_default();
        if own.runs.contains_key(&run.id) {
            return Err(StoreError::Conflict { what: format!("the run {}", run.id), expected: 0 });
        }
        if let Some(conversation) = &run.conversation {
            own.idle(conversation)?;
        }
        let earlier = run.continues.as_ref().map(|id| {
            let parked = own.runs.get(id).filter(|earlier| earlier.parked().next().is_some());
            parked.map(|_| id).ok_or_else(|| not_parked(id))
        });
        let earlier = earlier.transpose()?;
        own.add(&run.input, run.conversation.as_ref(), Some(&run.id), false)?;
        let calls = earlier.and_then(|id| own.runs.get_mut(id)).map(|earlier| earlier.hand_over(run));
        if let Some(conversation) = &run.conversation {
            own.idle(conversation)?.changed_at = kept(run.created_at);
        }
        let record = RunRecord {
            id: run.id.clone(),
            conversation: run.conversation.clone(),
            previous: run.previous.clone(),
            is_background: run.is_background,
            request: run.request.clone(),
            created_at: kept(run.created_at),
            state: RunState::Running,
            ended_at: None,
            outcome: None,
            attempts: 1,
        };
        let mut begun = KeptRun { record, steps: Vec::new(), calls: calls.unwrap_or_default() };
        if let Some(step) = &run.begun {
            begun.begin(step);
        }
        own.runs.insert(run.id.clone(), begun);
        Ok(())
    }

    async fn advance(&self, user: &UserId, run: &RunId, progress: &Progress) -> Result<(), StoreError> {
        bounds::progress(progress)?;
        let mut all = self.all_runs();
        let own = all.entry(user.clone()).or_default();
        let conversation = own.running(run)?.record.conversation.clone();
        own.add(&progress.items, conversation.as_ref(), Some(run), true)?;
        let found = own.running(run)?;
        for end in &progress.ended {
            let is_meant = |step: &&mut StepRecord| {
                step.begun.kind == end.kind && step.begun.subject == end.subject && step.ended_at.is_none()
            };
            if let Some(step) = found.steps.iter_mut().rev().find(is_meant) {
                step.ended_at = Some(kept(end.ended_at));
                step.outcome = Some(end.outcome.clone());
            }
        }
        for step in &progress.begun {
            found.begin(step);
        }
        if let Some(end) = &progress.end {
            found.record.state = end.state;
            found.record.ended_at = Some(kept(end.ended_at));
            found.record.outcome = Some(end.outcome.clone());
            let parked: Vec<String> = found.parked().map(|step| step.begun.subject.clone()).collect();
            found.calls.retain(|(subject, _), _| parked.contains(subject));
            if let Some(conversation) = conversation.and_then(|id| own.conversations.get_mut(&id)) {
                conversation.changed_at = kept(end.ended_at);
            }
        }
        Ok(())
    }

    async fn run(&self, user: &UserId, id: &RunId) -> Result<Option<RunRecord>, StoreError> {
        Ok(self.all_runs().get(user).and_then(|own| own.runs.get(id)).map(|run| run.record.clone()))
    }

    async fn runs(&self, user: &UserId, limit: usize, before: Option<&RunId>) -> Result<Vec<RunRecord>, StoreError> {
        let all = self.all_runs();
        let Some(own) = all.get(user) else { return Ok(Vec::new()) };
        Ok(after(own.newest_runs().into_iter(), before, |run| &run.id).take(limit.min(MAX_PAGE)).cloned().collect())
    }

    async fn delete_run(&self, user: &UserId, id: &RunId) -> Result<bool, StoreError> {
        let mut all = self.all_runs();
        let Some(own) = all.get_mut(user) else { return Ok(false) };
        let is_over = own.runs.get(id).is_some_and(|run| run.record.state != RunState::Running);
        if is_over {
            own.delete_run(id);
        }
        Ok(is_over)
    }

    async fn steps(&self, user: &UserId, run: &RunId) -> Result<Vec<StepRecord>, StoreError> {
        let all = self.all_runs();
        Ok(all.get(user).and_then(|own| own.runs.get(run)).map(|run| run.steps.clone()).unwrap_or_default())
    }

    async fn begin_call(
        &self,
        user: &UserId,
        run: &RunId,
        subject: &str,
        number: u64,
        call: &Value,
    ) -> Result<(), StoreError> {
        bounds::run_call(call, None)?;
        let mut all = self.all_runs();
        let found = all.entry(user.clone()).or_default().recording(run, subject)?;
        found.calls.insert((subject.to_owned(), number), (call.clone(), None));
        Ok(())
    }

    async fn end_call(
        &self,
        user: &UserId,
        run: &RunId,
        subject: &str,
        number: u64,
        call: &Value,
        answer: &Value,
    ) -> Result<(), StoreError> {
        bounds::run_call(call, Some(answer))?;
        let mut all = self.all_runs();
        let found = all.entry(user.clone()).or_default().recording(run, subject)?;
        found.calls.insert((subject.to_owned(), number), (call.clone(), Some(answer.clone())));
        Ok(())
    }

    async fn calls(&self, user: &UserId, run: &RunId, subject: &str) -> Result<Vec<RunCall>, StoreError> {
        let all = self.all_runs();
        let calls = all.get(user).and_then(|own| own.runs.get(run)).into_iter().flat_map(|run| &run.calls);
        let of_step = calls.filter(|((of, _), _)| of == subject);
        let call = |((_, number), (call, answer)): (&(String, u64), &(Value, Option<Value>))| RunCall {
            number: *number,
            call: call.clone(),
            answer: answer.clone(),
        };
        Ok(of_step.map(call).collect())
    }

    /// Returns nothing: runs end with the only process that could run them.
    async fn take_lost_runs(&self) -> Result<Vec<(UserId, RunId)>, StoreError> {
        Ok(Vec::new())
    }

    async fn delete_old_runs(&self, before: SystemTime) -> Result<u64, StoreError> {
        let mut deleted = 0;
        for own in self.all_runs().values_mut() {
            let old = own.conversations.values().filter(|found| found.changed_at < before && !own.is_busy(&found.id));
            let conversations: Vec<ConversationId> = old.map(|found| found.id.clone()).collect();
            let is_past = |run: &RunRecord| run.ended_at.is_some_and(|at| at < before);
            let needed = own.continued_by(|run| !is_past(run));
            let is_old = |run: &&RunRecord| run.conversation.is_none() && is_past(run) && !needed.contains(&run.id);
            let runs: Vec<RunId> =
                own.runs.values().map(|run| &run.record).filter(is_old).map(|run| run.id.clone()).collect();
            deleted += (conversations.len() + runs.len()) as u64;
            for id in &conversations {
                own.delete_conversation(id);
            }
            for id in &runs {
                own.delete_run(id);
            }
        }
        Ok(deleted)
    }
}

/// The entries after one with this ID, all of them without an ID, and none if there is no such entry.
pub(super) fn after<'a, T: 'a, I: PartialEq>(
    entries: impl Iterator<Item = &'a T>,
    id: Option<&I>,
    id_of: impl Fn(&T) -> &I,
) -> impl Iterator<Item = &'a T> {
    let mut is_past = id.is_none();
    entries.filter(move |entry| {
        let was_past = is_past;
        is_past |= id.is_some_and(|id| *id == *id_of(entry));
        was_past
    })
}
