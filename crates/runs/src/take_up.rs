//! Continues runs whose process is gone.

use crate::context::{self, Thread};
use crate::drive::Drive;
use crate::error::RunError;
use crate::open_call::{OpenCall, open_calls};
use crate::service::{RunService, damaged};
use crate::spec::RunSpec;
use crate::surroundings::container;
use crate::wire::items::{self, Place};
use crate::wire::response::{self, StoredOutcome};
use coracle_agent::Earlier;
use coracle_models::{Call, Item, StopReason, Usage};
use coracle_store::{ItemRecord, Progress, RunEnd, RunRecord, RunState, StepKind, StepRecord};
use coracle_types::{RunId, UserId};
use std::sync::Arc;
use std::time::SystemTime;

/// Maximum number of attempts of a run. A run that ends its process each time must not do so for ever.
const MAX_ATTEMPTS: u32 = 20;

impl RunService {
    /// Continues the runs whose process is gone, ends those whose client is gone, and goes on with queues. Returns the number
    /// of these runs.
    pub async fn take_up(&self) -> Result<usize, RunError> {
        let lost = self.inner.store.take_lost_runs().await?;
        let count = lost.len();
        for (user, id) in lost {
            if let Err(error) = self.take_up_one(&user, &id).await {
                tracing::error!(run = %id, %user, %error, "a run that was interrupted cannot be continued");
                self.give_up(&user, &id, RunState::Failed, "interrupted", &error.to_string()).await;
            }
        }
        self.resume_queues().await?;
        Ok(count)
    }

    async fn take_up_one(&self, user: &UserId, id: &RunId) -> Result<(), RunError> {
        let store = &self.inner.store;
        let Some(record) = store.run(user, id).await? else { return Ok(()) };
        let (spec, _) = response::read(&record).map_err(|error| damaged(id, &error))?;
        if !spec.outlives_client() {
            let message = "the server stopped, and the client was gone";
            self.give_up(user, id, RunState::Incomplete, "interrupted", message).await;
            return Ok(());
        }
        if record.attempts > MAX_ATTEMPTS {
            let message = format!("the server stopped {MAX_ATTEMPTS} times during this run");
            self.give_up(user, id, RunState::Failed, "interrupted", &message).await;
            return Ok(());
        }
        let prepared = self.prepare(user, id, &spec).await?;
        let thread = spec.conversation.as_ref().map_or(Thread::Run(id), Thread::Conversation);
        let records = context::records(&**store, user, thread).await?;
        let model_items = context::close_calls(context::model_items(&records));
        let open = open_calls(&records, &model_items, id);
        let own: Vec<ItemRecord> =
            records.into_iter().filter(|item| item.is_output && item.run.as_ref() == Some(id)).collect();
        let finished = finished(user, &spec, &own, &open);
        let calls = open.iter().map(|open| open.call.clone()).collect();
        let earlier = earlier(&store.steps(user, id).await?, calls, model_items.last());
        let RunRecord { created_at, attempts, .. } = record;
        tracing::info!(run = %id, %user, attempt = attempts, steps = earlier.steps, "a run is continued");
        self.launch(Drive {
            user: user.clone(),
            id: id.clone(),
            attempt: attempts,
            created_at,
            spec: Arc::new(spec),
            store: Arc::clone(store),
            prepared,
            items: model_items,
            earlier,
            open,
            finished,
            begun: None,
        });
        Ok(())
    }

    async fn give_up(&self, user: &UserId, id: &RunId, state: RunState, ended: &str, message: &str) {
        let outcome =
            StoredOutcome { ended: ended.to_owned(), message: Some(message.to_owned()), ..StoredOutcome::default() };
        let outcome = serde_json::to_value(outcome).unwrap_or_default();
        let end = Some(RunEnd { state, ended_at: SystemTime::now(), outcome });
        let progress = Progress { end, ..Progress::default() };
        if let Err(error) = self.inner.store.advance(user, id, &progress).await {
            tracing::error!(run = %id, %user, %error, "cannot write the end of a run");
        }
    }
}

/// The finished items of earlier attempts, as clients see them.
fn finished(user: &UserId, spec: &RunSpec, own: &[ItemRecord], open: &[OpenCall]) -> Vec<serde_json::Value> {
    let done: Vec<ItemRecord> =
        own.iter().filter(|record| !open.iter().any(|open| open.id == record.id.as_str())).cloned().collect();
    let (container, functions) = (container(user), spec.functions());
    items::all(&done, &Place { container: &container, functions: &functions, has_shell: spec.has_shell() })
}

/// Where the earlier attempts ended, given the last item of the conversation.
fn earlier(steps: &[StepRecord], open: Vec<Call>, last_item: Option<&Item>) -> Earlier {
    let mut usage = Usage::default();
    let (mut asked, mut calls) = (0, 0);
    for step in steps {
        match step.begun.kind {
            StepKind::Model if step.ended_at.is_some() => asked += 1,
            StepKind::Execution => calls += 1,
            StepKind::Model | StepKind::ClientCall | StepKind::Question | StepKind::Compaction | StepKind::Parked => {}
        }
        let used = step.outcome.as_ref().and_then(|outcome| outcome.get("usage")).cloned();
        if let Some(used) = used.and_then(|used| serde_json::from_value(used).ok()) {
            usage += used;
        }
    }
    // After an answer with calls there are their steps, and after a message of the user there is the message.
    let is_answer = |step: &&StepRecord| step.begun.kind == StepKind::Model && step.ended_at.is_some();
    let last = steps.last().filter(is_answer).filter(|_| !matches!(last_item, Some(Item::User { .. })));
    let last = last.map(|step| {
        let stop = step.outcome.as_ref().and_then(|outcome| outcome.get("stop")).cloned();
        stop.and_then(|stop| serde_json::from_value(stop).ok()).unwrap_or(StopReason::End)
    });
    Earlier { steps: asked, calls, usage, open, last }
}

#[cfg(test)]
mod tests {
    use super::earlier;
    use coracle_models::{Item, Part, StopReason};
    use coracle_store::{NewStep, StepKind, StepRecord};
    use serde_json::{Value, json};
    use std::time::SystemTime;

    fn step(number: u64, kind: StepKind, outcome: Option<Value>) -> StepRecord {
        let now = SystemTime::now();
        let begun = NewStep { kind, subject: number.to_string(), begun_at: now };
        StepRecord { number, begun, ended_at: outcome.is_some().then_some(now), outcome }
    }

    #[test]
    fn a_model_that_has_given_its_last_answer_is_not_asked_again() {
        let user = Item::User { parts: vec![Part::text("go on")] };
        let done = |stop: &str| Some(json!({ "stop": stop }));
        let last = |steps: &[StepRecord], item| earlier(steps, Vec::new(), item).last;
        let asked = step(1, StepKind::Model, None);
        let ended = step(1, StepKind::Model, done("end"));
        let ran = step(2, StepKind::Execution, Some(json!({})));
        assert_eq!(last(&[asked], None), None);
        assert_eq!(last(std::slice::from_ref(&ended), None), Some(StopReason::End));
        assert_eq!(last(&[step(1, StepKind::Model, done("length"))], None), Some(StopReason::Length));
        // As earlier versions wrote it.
        assert_eq!(last(&[step(1, StepKind::Model, Some(json!({})))], None), Some(StopReason::End));
        // A message of the user arrived after the answer, or the answer had calls.
        assert_eq!(last(std::slice::from_ref(&ended), Some(&user)), None);
        assert_eq!(last(&[ended.clone(), ran.clone()], None), None);
        assert_eq!(last(&[ended.clone(), ran.clone(), step(3, StepKind::Model, None)], None), None);
        assert_eq!(last(&[ended, ran, step(3, StepKind::Model, done("end"))], None), Some(StopReason::End));
    }
}
