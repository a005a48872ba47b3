//! Runs that wait for a person: their questions, and how they go on.

use crate::approval::{ApprovalAnswer, LateAnswer, ParkedQuestion, ParkedRun, missing};
use crate::context;
use crate::error::RunError;
use crate::item::StoredItem;
use crate::live::LiveRun;
use crate::service::{RunService, damaged, random};
use crate::spec::RunSpec;
use crate::surroundings::{Continued, Resumed};
use crate::wire::response;
use coracle_models::Item;
use coracle_store::{ItemPage, ItemRecord, ItemsOf, RunState, StepKind, StepRecord};
use coracle_types::{ItemId, Mode, RunId, UserId};
use std::collections::BTreeSet;
use std::sync::Arc;

impl RunService {
    /// Finds the parked run that these answers belong to: in the thread of the request, or by the questions if the
    /// request has none, which then continues that run. Questions of other users do not exist.
    pub async fn find_parked(
        &self,
        user: &UserId,
        spec: &mut RunSpec,
        answers: &[ApprovalAnswer],
    ) -> Result<ParkedRun, RunError> {
        let store = &self.inner.store;
        let Some(first) = answers.first() else { return Err(RunError::invalid("input", "there are no answers")) };
        let id = ItemId::new(&first.question).map_err(|_| missing(&first.question))?;
        let item = store.item(user, &id).await?;
        let run = item.and_then(|item| item.run.clone().filter(|_| is_question(&item)));
        let run = run.ok_or_else(|| missing(&first.question))?;
        let record = store.run(user, &run).await?.ok_or_else(|| missing(&first.question))?;
        match (&spec.previous, &spec.conversation) {
            (None, None) => {
                spec.conversation.clone_from(&record.conversation);
                spec.previous = Some(run.clone()).filter(|_| record.conversation.is_none());
            }
            (Some(previous), _) if *previous == run => {}
            (None, Some(_)) if record.conversation == spec.conversation => {}
            _ => return Err(missing(&first.question)),
        }
        if record.state == RunState::Running {
            let message = format!(
                "the response `{run}` is still in progress: answer its questions with `POST /api/approvals/{}`",
                first.question
            );
            return Err(RunError::invalid("input", message));
        }
        // Code that runs again must ask the same, whether or not the client repeats its wishes.
        let (asking, _) = response::read(&record).map_err(|error| damaged(&run, &error))?;
        spec.always_ask.extend(asking.always_ask);
        if asking.mode == Mode::Plan {
            spec.mode = Mode::Plan;
        }
        let steps = store.steps(user, &run).await?;
        if !steps.iter().any(is_parked) {
            return Err(RunError::Continued { run });
        }
        let is_answered = |id: &str| {
            let mut of_question = steps.iter().filter(|step| step.begun.kind == StepKind::Question);
            of_question.any(|step| step.begun.subject == id && step.ended_at.is_some())
        };
        let records = store.items(user, ItemsOf::Run(&run), ItemPage::ALL).await?;
        let questions = records.iter().filter(|record| record.is_output).filter_map(|record| {
            let Some(StoredItem::Asked(asked)) = StoredItem::of(record) else { return None };
            Some(ParkedQuestion { is_answered: is_answered(record.id.as_str()), id: record.id.to_string(), asked })
        });
        let questions: Vec<ParkedQuestion> = questions.collect();
        let known: BTreeSet<&str> = questions.iter().map(|question| question.id.as_str()).collect();
        match answers.iter().find(|answer| !known.contains(answer.question.as_str())) {
            Some(unknown) => Err(missing(&unknown.question)),
            None => Ok(ParkedRun { run, questions }),
        }
    }

    /// Continues a parked run whose questions a person has answered. The late answers are for code that has to run
    /// again, because the process that asked is gone.
    pub async fn continue_parked(
        &self,
        user: &UserId,
        spec: RunSpec,
        input: Vec<Item>,
        parked: RunId,
        answers: Vec<ApprovalAnswer>,
        late: Vec<LateAnswer>,
    ) -> Result<Arc<LiveRun>, RunError> {
        if !spec.is_stored {
            return Err(RunError::invalid("store", "a response that continues a stored one is stored, too"));
        }
        if input.iter().any(|item| !matches!(item, Item::Result(_))) {
            let message = "answers to approval requests can be sent together with results of function calls only: send \
                           messages in the next request";
            return Err(RunError::invalid("input", message));
        }
        let continued = Continued { run: parked, calls: Vec::new(), late };
        self.begin(RunId::from_random(random()?), user, spec, input, Some(Resumed { continued, answers })).await
    }

    /// The parked run that a request leaves behind, because it goes on without an answer.
    pub(crate) async fn left(
        &self,
        user: &UserId,
        spec: &RunSpec,
        records: &[ItemRecord],
        items: &[Item],
        input: &[Item],
    ) -> Result<Option<RunId>, RunError> {
        // A parked run has calls without a result.
        let last = spec.previous.clone().or_else(|| records.iter().rev().find_map(|record| record.run.clone()));
        let Some(last) = last.filter(|_| !context::open_calls(items).is_empty()) else { return Ok(None) };
        if !self.inner.store.steps(user, &last).await?.iter().any(is_parked) {
            return Ok(None);
        }
        if input.iter().any(|item| matches!(item, Item::User { .. } | Item::System { .. })) {
            return Ok(Some(last));
        }
        let message = format!(
            "the response `{last}` waits for an approval: send an `mcp_approval_response`, or a message to go on without \
             the call"
        );
        Err(RunError::invalid("input", message))
    }
}

fn is_question(item: &ItemRecord) -> bool {
    item.is_output && matches!(StoredItem::of(item), Some(StoredItem::Asked(_)))
}

fn is_parked(step: &StepRecord) -> bool {
    step.begun.kind == StepKind::Parked && step.ended_at.is_none()
}
