//! `mcp_approval_response` items: the answers of a person to the questions of a parked run.

use super::error::OpenAiError;
use crate::approvals::{AnswerError, OpenQuestion, PersonsAnswer};
use crate::http::App;
use crate::http::problem::ApiError;
use crate::identity::Identity;
use axum::http::StatusCode;
use coracle_models::Item;
use coracle_runs::{ApprovalAnswer, LateAnswer, LiveRun, ParkedQuestion, RunSpec};
use coracle_store::{ApprovalOutcome, ApprovalRecord, KeyScope};
use std::sync::Arc;

/// What the answers of a request have to do.
#[derive(Debug, Default)]
struct Due {
    /// Questions that are open in this process.
    open: Vec<ApprovalAnswer>,
    /// Questions whose process is gone.
    late: Vec<(ParkedQuestion, bool)>,
}

/// Continues the run that asked these questions.
pub(super) async fn continue_run(
    app: &App,
    caller: &Identity,
    mut spec: RunSpec,
    input: Vec<Item>,
    answers: Vec<ApprovalAnswer>,
) -> Result<Arc<LiveRun>, OpenAiError> {
    if !caller.may(KeyScope::Approve) {
        let message = "approving a call requires a person: a browser session, or an API key with the scope approve";
        return Err(ApiError::forbidden("insufficient_scope", message).into());
    }
    let user = &caller.user;
    let parked = app.runs.find_parked(user, &mut spec, &answers).await?;
    let open = app.questions.open(user);
    let mut due = Due::default();
    for question in parked.questions {
        let answer = answers.iter().find(|answer| answer.question == question.id);
        due.add(app, caller, &open, question, answer).await?;
    }
    // An answer is stored before it has an effect.
    for (question, approve) in &due.late {
        let by = caller.credential();
        let stored = app.questions.answer_late(user, &parked.run, question, said(*approve), &by).await;
        stored.map_err(ApiError::from)?;
    }
    let late = due
        .late
        .iter()
        .map(|(question, approve)| LateAnswer { digest: question.asked.digest.clone(), approve: *approve });
    let run = app.runs.continue_parked(user, spec, input, parked.run, answers, late.collect()).await?;
    let (questions, user, by) = (app.questions.clone(), user.clone(), caller.credential());
    // A task of its own: a client that disconnects now has still answered.
    tokio::spawn(async move {
        for answer in due.open {
            match questions.answer(&user, &answer.question, said(answer.approve), &by).await {
                Ok(_) | Err(AnswerError::NotOpen | AnswerError::Withdrawn) => {}
                Err(error) => tracing::error!(%error, %user, "an answer does not count"),
            }
        }
    });
    Ok(run)
}

fn said(approve: bool) -> PersonsAnswer {
    if approve { PersonsAnswer::Once } else { PersonsAnswer::Refuse }
}

impl Due {
    /// Finds out what an answer to a question means now.
    async fn add(
        &mut self,
        app: &App,
        caller: &Identity,
        open: &[OpenQuestion],
        question: ParkedQuestion,
        answer: Option<&ApprovalAnswer>,
    ) -> Result<(), OpenAiError> {
        let found = open.iter().find(|open| open.question.id.as_str() == question.id);
        if let Some(open) = found {
            let answer = answer.ok_or_else(|| unanswered(&question.id))?;
            let (asked, user) = (&open.question, &caller.user);
            if answer.approve
                && let Some(quorum) = asked.quorum.as_ref().filter(|quorum| !quorum.counts(user, &asked.user))
            {
                return Err(waits_for(&quorum.to_string(), &question.id));
            }
            self.open.push(answer.clone());
            return Ok(());
        }
        let record = app.auth.people.store().approval(&caller.user, &question.id).await.map_err(ApiError::from)?;
        match (record, answer) {
            (Some(record), Some(answer)) => agrees(&record, answer),
            (Some(_), None) => Ok(()),
            (None, _) if question.is_answered => Ok(()),
            (None, Some(answer)) => {
                self.late.push((question, answer.approve));
                Ok(())
            }
            (None, None) => Err(unanswered(&question.id)),
        }
    }
}

fn unanswered(question: &str) -> OpenAiError {
    let message = format!("the approval request `{question}` has no answer: send an `mcp_approval_response` for each");
    OpenAiError::parameter("input", message)
}

/// Other people have to approve.
fn waits_for(who: &str, question: &str) -> OpenAiError {
    let message = format!(
        "the approval request `{question}` waits for {who}: send the same answer again when they have approved, or \
         `approve: false` to give the call up"
    );
    ApiError::new(StatusCode::CONFLICT, "waits_for_group", message).into()
}

/// A question that has ended keeps its answer.
fn agrees(record: &ApprovalRecord, answer: &ApprovalAnswer) -> Result<(), OpenAiError> {
    let is_yes = record.outcome.is_yes();
    let ended = match record.outcome {
        ApprovalOutcome::TimedOut => "timed out, which counts as no",
        _ if is_yes => "was approved",
        _ => "was refused",
    };
    if is_yes == answer.approve {
        return Ok(());
    }
    let message = format!(
        "the approval request `{}` {ended}: to continue, send `approve: {is_yes}`, or a message without an answer",
        record.id
    );
    Err(ApiError::new(StatusCode::CONFLICT, "already_answered", message).into())
}
