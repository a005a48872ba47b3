//! Answers that a person gave after the process that asked was gone.

use async_trait::async_trait;
use coracle_policy::{Answer, Approver, Question};
use coracle_runs::LateAnswer;
use coracle_types::Tool;
use std::sync::{Arc, Mutex, PoisonError};

/// Answers that wait for code that runs again and asks the same. Each counts once. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct LateAnswers(Arc<Mutex<Vec<LateAnswer>>>);

impl LateAnswers {
    pub(crate) fn new(answers: Vec<LateAnswer>) -> Self {
        Self(Arc::new(Mutex::new(answers)))
    }

    fn take(&self, digest: &str) -> Option<LateAnswer> {
        let mut answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = answers.iter().position(|answer| answer.digest == digest)?;
        Some(answers.swap_remove(place))
    }

    /// An approver that gives these answers, and asks another one about everything else.
    pub(crate) fn before(&self, other: Arc<dyn Approver>) -> Arc<dyn Approver> {
        Arc::new(LateApprover { late: self.clone(), other })
    }
}

#[derive(Debug)]
struct LateApprover {
    late: LateAnswers,
    other: Arc<dyn Approver>,
}

#[async_trait]
impl Approver for LateApprover {
    async fn ask(&self, question: Question) -> Answer {
        match self.answered_before(&question) {
            Some(answer) => answer,
            None => self.other.ask(question).await,
        }
    }

    fn answered_before(&self, question: &Question) -> Option<Answer> {
        let answer = self.late.take(&question.digest)?;
        Some(if answer.approve { Answer::Once } else { Answer::Refuse })
    }

    fn origin(&self) -> Option<String> {
        self.other.origin()
    }

    fn wants_each_call(&self, tool: &Tool) -> bool {
        self.other.wants_each_call(tool)
    }
}
