//! Questions about calls: the clock of the execution is paused while one is open, and its listener learns of it.

use crate::audit::Audit;
use crate::clock::{Clock, Pause};
use crate::listener::Listener;
use async_trait::async_trait;
use coracle_policy::{Answer, Approver, Question, QuestionId};
use coracle_types::{Event, Tool};
use std::fmt;
use std::sync::{Mutex, PoisonError};

/// Asks about one call.
pub(super) struct Asking<'a> {
    approver: &'a dyn Approver,
    clock: &'a Clock,
    listener: &'a Listener,
    audit: &'a Audit,
    /// Number of the call.
    number: u64,
    /// The questions that the listener knows of: about the data, and about the tool.
    asked: Mutex<Vec<QuestionId>>,
}

impl<'a> Asking<'a> {
    pub(super) fn new(
        approver: &'a dyn Approver,
        clock: &'a Clock,
        listener: &'a Listener,
        audit: &'a Audit,
        number: u64,
    ) -> Self {
        Self { approver, clock, listener, audit, number, asked: Mutex::default() }
    }

    /// Reports the decision, if there were questions.
    pub(super) async fn decided(&self, allowed: bool) {
        let asked = std::mem::take(&mut *self.asked.lock().unwrap_or_else(PoisonError::into_inner));
        let last = asked.len().saturating_sub(1);
        for (place, question) in asked.into_iter().enumerate() {
            // There is a next question only after a yes.
            let allowed = allowed || place < last;
            self.listener.tell(Event::Answered { number: self.number, question: question.to_string(), allowed }).await;
        }
    }
}

#[async_trait]
impl Approver for Asking<'_> {
    async fn ask(&self, question: Question) -> Answer {
        let asked = self.audit.asked(self.number, &question);
        if let Some(answer) = self.approver.answered_before(&question) {
            asked.answered(answer);
            return answer;
        }
        if self.listener.is_present() {
            let event = Event::Asked {
                number: self.number,
                question: question.id.to_string(),
                server: question.server.to_string(),
                tool: question.tool.clone(),
                why: question.why.clone(),
                arguments: question.arguments_json.clone(),
                digest: question.digest.clone(),
                execution: question.execution.to_string(),
            };
            self.listener.tell(event).await;
            self.asked.lock().unwrap_or_else(PoisonError::into_inner).push(question.id.clone());
        }
        let _pause: Pause = self.clock.pause();
        let answer = self.approver.ask(question).await;
        asked.answered(answer);
        answer
    }

    fn wants_each_call(&self, tool: &Tool) -> bool {
        self.approver.wants_each_call(tool)
    }
}

impl fmt::Debug for Asking<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.approver.fmt(f)
    }
}
