//! Questions about calls: the clock of the execution is paused while one is open, and its listener learns of it.

use crate::audit::Audit;
use crate::clock::{Clock, Pause};
use crate::listener::Listener;
use crate::privacy::{Privacy, tokenize_message};
use async_trait::async_trait;
use coracle_policy::{Answer, Approver, GroupAnswer, GroupApprover, Question, QuestionId, arguments_preview};
use coracle_privacy::PrivacyError;
use coracle_types::{Event, Tool};
use serde_json::{Map, Value};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Asks about one call.
pub(super) struct Asking<'a> {
    approver: &'a dyn Approver,
    clock: &'a Clock,
    listener: &'a Listener,
    audit: &'a Audit,
    /// Number of the call.
    number: u64,
    arguments: &'a Value,
    /// Set if personal data is replaced by tokens.
    privacy: Option<&'a Arc<Privacy>>,
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
        arguments: &'a Value,
        privacy: Option<&'a Arc<Privacy>>,
    ) -> Self {
        Self { approver, clock, listener, audit, number, arguments, privacy, asked: Mutex::default() }
    }

    fn asked(&self) -> MutexGuard<'_, Vec<QuestionId>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports a question, unless it is one that began anew.
    async fn tell(&self, question: &Question) {
        if !self.listener.is_present() || self.asked().contains(&question.id) {
            return;
        }
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
        self.asked().push(question.id.clone());
    }

    /// The arguments as people other than the user see them: no more than a model sees.
    async fn arguments_for_others(&self, privacy: &Privacy, question: &Question) -> Result<String, PrivacyError> {
        let mut shown = self.arguments.clone();
        tokenize_message(&*privacy.vault(&question.user).await?, &mut shown).await?;
        Ok(arguments_preview(shown.as_object().unwrap_or(&Map::new())))
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
        self.tell(&question).await;
        let _pause: Pause = self.clock.pause();
        let answer = self.approver.ask(question).await;
        asked.answered(answer);
        answer
    }

    async fn ask_group(&self, mut question: Question, groups: &dyn GroupApprover) -> GroupAnswer {
        let asked = self.audit.asked(self.number, &question);
        // A yes that the user gave earlier is none of the group.
        if self.approver.answered_before(&question) == Some(Answer::Refuse) {
            asked.answered(Answer::Refuse);
            return GroupAnswer::Refused;
        }
        if let Some(privacy) = self.privacy {
            match self.arguments_for_others(privacy, &question).await {
                Ok(shown) => question.arguments_for_others = shown,
                Err(error) => {
                    tracing::warn!(%error, "a group is not asked: the arguments could not be searched");
                    asked.answered(Answer::Nobody);
                    return GroupAnswer::Nobody;
                }
            }
        }
        self.tell(&question).await;
        let _pause: Pause = self.clock.pause();
        let answer = self.approver.ask_group(question, groups).await;
        asked.answered_by_group(&answer);
        answer
    }

    fn origin(&self) -> Option<String> {
        self.approver.origin()
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
