//! Questions that wait for a person: whether a tool may be called.
//!
//! Whatever runs code for a user can ask through [`OpenQuestions::approver`]. The questions are listed and answered over
//! `/api/approvals`, and watched with [`OpenQuestions::changes`]. An answer is stored before it has an effect.

#[cfg(test)]
mod tests;

use async_trait::async_trait;
use coracle_accounts::People;
use coracle_policy::{Answer, Approver, Question};
use coracle_runs::ParkedQuestion;
use coracle_store::{ApprovalOutcome, ApprovalRecord, StoreError};
use coracle_types::{ExecutionId, IdError, RunId, ServerName, UserId};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;

/// Maximum number of open questions of one user.
pub(crate) const MAX_OPEN: usize = 64;
/// Maximum length of the reason and the origin in the log, in characters.
const MAX_TEXT_CHARS: usize = 1_000;

/// The open questions of all users. Cheap to clone.
#[derive(Clone)]
pub(crate) struct OpenQuestions {
    shared: Arc<Shared>,
}

struct Shared {
    users: Mutex<HashMap<UserId, Waiting>>,
    /// Access to the store, for the log of approvals.
    people: People,
    /// Maximum time to wait for an answer.
    patience: Duration,
    /// Withdraws all questions.
    stop: CancellationToken,
}

/// The open questions of one user.
#[derive(Default)]
struct Waiting {
    /// Oldest first.
    open: Vec<Open>,
    changes: watch::Sender<()>,
}

struct Open {
    question: OpenQuestion,
    reply: oneshot::Sender<Answer>,
}

/// A question that waits for an answer.
#[derive(Clone, Debug)]
pub(crate) struct OpenQuestion {
    pub(crate) question: Arc<Question>,
    /// What the call is part of, such as the ID of a run.
    pub(crate) origin: Option<String>,
    pub(crate) asked_at: SystemTime,
    /// When the question counts as answered with no.
    pub(crate) expires_at: SystemTime,
}

/// The answer of a person to an open question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PersonsAnswer {
    Once,
    Session,
    SessionSameArguments,
    Always,
    AlwaysSameArguments,
    Refuse,
}

impl PersonsAnswer {
    fn outcome(self) -> ApprovalOutcome {
        match self {
            Self::Once => ApprovalOutcome::Once,
            Self::Session => ApprovalOutcome::Session,
            Self::SessionSameArguments => ApprovalOutcome::SessionSameArguments,
            Self::Always => ApprovalOutcome::Always,
            Self::AlwaysSameArguments => ApprovalOutcome::AlwaysSameArguments,
            Self::Refuse => ApprovalOutcome::Refuse,
        }
    }
}

impl From<PersonsAnswer> for Answer {
    fn from(answer: PersonsAnswer) -> Self {
        match answer {
            PersonsAnswer::Once => Self::Once,
            PersonsAnswer::Session => Self::Session,
            PersonsAnswer::SessionSameArguments => Self::SessionSameArguments,
            PersonsAnswer::Always => Self::Always,
            PersonsAnswer::AlwaysSameArguments => Self::AlwaysSameArguments,
            PersonsAnswer::Refuse => Self::Refuse,
        }
    }
}

/// Why an answer has no effect.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AnswerError {
    /// The user has no open question with this ID.
    #[error("there is no such open question")]
    NotOpen,
    /// The call was given up while the answer was stored.
    #[error("the call no longer waits for an answer")]
    Withdrawn,
    /// The answer could not be stored, so the call was refused.
    #[error("the answer could not be stored, so the call was refused: {0}")]
    Store(StoreError),
}

impl OpenQuestions {
    /// Creates an empty registry. A question that no one answers within `patience` counts as refused, and a cancelled
    /// `stop` withdraws all questions.
    pub(crate) fn new(people: People, patience: Duration, stop: CancellationToken) -> Self {
        Self { shared: Arc::new(Shared { users: Mutex::default(), people, patience, stop }) }
    }

    /// Stores the answer to a question whose process is gone. The code asks again, and gets it then.
    pub(crate) async fn answer_late(
        &self,
        user: &UserId,
        run: &RunId,
        question: &ParkedQuestion,
        answer: PersonsAnswer,
        by: &str,
    ) -> Result<(), StoreError> {
        let shortened = |text: &str| text.chars().take(MAX_TEXT_CHARS).collect::<String>();
        let damaged = |error: IdError| StoreError::Damaged { what: "question".to_owned(), reason: error.to_string() };
        let asked = &question.asked;
        let record = ApprovalRecord {
            id: question.id.clone(),
            user: user.clone(),
            server: ServerName::new(&asked.server).map_err(damaged)?,
            tool: asked.tool.clone(),
            arguments: shortened(&asked.arguments),
            reason: shortened(&asked.why),
            session: None,
            execution_id: ExecutionId::new(&asked.execution).map_err(damaged)?,
            origin: Some(run.to_string()),
            asked_at: asked.asked_at(),
            ended_at: SystemTime::now(),
            outcome: answer.outcome(),
            answered_by: Some(shortened(by)),
        };
        self.shared.record(&record).await
    }

    /// Returns an approver that asks this user. The origin, such as the ID of a run, is listed with its questions.
    pub(crate) fn approver(&self, user: &UserId, origin: Option<String>) -> Arc<dyn Approver> {
        Arc::new(Asking { questions: self.clone(), user: user.clone(), origin })
    }

    /// Returns the open questions of a user, oldest first.
    pub(crate) fn open(&self, user: &UserId) -> Vec<OpenQuestion> {
        let users = self.shared.users();
        let open = users.get(user).map(|waiting| waiting.open.as_slice()).unwrap_or_default();
        open.iter().map(|open| open.question.clone()).collect()
    }

    /// Returns a receiver that changes when a question of the user is asked, answered or withdrawn.
    pub(crate) fn changes(&self, user: &UserId) -> watch::Receiver<()> {
        let mut users = self.shared.users();
        users.retain(|_, waiting| !waiting.is_idle());
        users.entry(user.clone()).or_default().changes.subscribe()
    }

    /// Answers an open question of a user. `by` says how the person was authenticated.
    pub(crate) async fn answer(
        &self,
        user: &UserId,
        id: &str,
        answer: PersonsAnswer,
        by: &str,
    ) -> Result<ApprovalRecord, AnswerError> {
        let Open { question, reply } = self.shared.take(user, id).ok_or(AnswerError::NotOpen)?;
        let record = question.ended(user, answer.outcome(), Some(by));
        let shared = Arc::clone(&self.shared);
        // A task of its own: a person who disconnects now has still answered.
        let stored = tokio::spawn(async move {
            shared.record(&record).await.map_err(AnswerError::Store)?;
            reply.send(answer.into()).map_err(|_| AnswerError::Withdrawn)?;
            Ok(record)
        });
        // The task does not panic; if it is gone, so is the server.
        stored.await.unwrap_or(Err(AnswerError::Withdrawn))
    }
}

impl fmt::Debug for OpenQuestions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenQuestions").finish_non_exhaustive()
    }
}

impl Waiting {
    fn is_idle(&self) -> bool {
        self.open.is_empty() && self.changes.receiver_count() == 0
    }
}

impl Shared {
    fn users(&self) -> MutexGuard<'_, HashMap<UserId, Waiting>> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a question, unless the user has too many.
    fn add(&self, user: &UserId, open: Open) -> bool {
        let mut users = self.users();
        let waiting = users.entry(user.clone()).or_default();
        if waiting.open.len() >= MAX_OPEN {
            return false;
        }
        waiting.open.push(open);
        waiting.changes.send_replace(());
        true
    }

    /// Removes a question that is still open.
    fn take(&self, user: &UserId, id: &str) -> Option<Open> {
        let mut users = self.users();
        let waiting = users.get_mut(user)?;
        let place = waiting.open.iter().position(|open| open.question.question.id.as_str() == id)?;
        let open = waiting.open.remove(place);
        waiting.changes.send_replace(());
        if waiting.is_idle() {
            users.remove(user);
        }
        Some(open)
    }

    /// Writes the end of a question to the log of approvals.
    async fn record(&self, record: &ApprovalRecord) -> Result<(), StoreError> {
        let ApprovalRecord { id, user, server, tool, execution_id, .. } = record;
        let (outcome, by) = (record.outcome.as_str(), record.answered_by.as_deref().unwrap_or("no one"));
        tracing::info!(%user, %server, tool, execution = %execution_id, id, outcome, by, "a question has ended");
        self.people.store().add_approval(record).await
    }
}

impl OpenQuestion {
    fn ended(&self, user: &UserId, outcome: ApprovalOutcome, by: Option<&str>) -> ApprovalRecord {
        let question = &self.question;
        let shortened = |text: &str| text.chars().take(MAX_TEXT_CHARS).collect::<String>();
        ApprovalRecord {
            id: question.id.as_str().to_owned(),
            user: user.clone(),
            server: question.server.clone(),
            tool: question.tool.clone(),
            arguments: question.arguments_preview.clone(),
            reason: shortened(&question.why),
            session: question.session.clone(),
            execution_id: question.execution.clone(),
            origin: self.origin.as_deref().map(shortened),
            asked_at: self.asked_at,
            ended_at: SystemTime::now(),
            outcome,
            answered_by: by.map(shortened),
        }
    }
}

/// Asks one user.
#[derive(Debug)]
struct Asking {
    questions: OpenQuestions,
    user: UserId,
    origin: Option<String>,
}

#[async_trait]
impl Approver for Asking {
    async fn ask(&self, question: Question) -> Answer {
        let shared = &*self.questions.shared;
        let (reply, mut answer) = oneshot::channel();
        let asked_at = SystemTime::now();
        let question = OpenQuestion {
            question: Arc::new(question),
            origin: self.origin.clone(),
            asked_at,
            expires_at: asked_at + shared.patience,
        };
        let withdrawal = Withdrawal { shared, user: &self.user, id: question.question.id.as_str().to_owned() };
        if !shared.add(&self.user, Open { question, reply }) {
            return Answer::TooMany;
        }
        tokio::select! {
            biased;
            answer = &mut answer => answer.unwrap_or(Answer::Nobody),
            () = shared.stop.cancelled() => Answer::Nobody,
            () = tokio::time::sleep(shared.patience) => match shared.take(&self.user, &withdrawal.id) {
                Some(open) => {
                    let record = open.question.ended(&self.user, ApprovalOutcome::TimedOut, None);
                    if let Err(error) = shared.record(&record).await {
                        tracing::warn!(user = %self.user, %error, "cannot store that a question was not answered");
                    }
                    Answer::TimedOut
                }
                // A person has just answered, and the answer is being stored.
                None => answer.await.unwrap_or(Answer::Nobody),
            },
        }
    }
}

/// Withdraws a question when it is dropped.
struct Withdrawal<'a> {
    shared: &'a Shared,
    user: &'a UserId,
    id: String,
}

impl Drop for Withdrawal<'_> {
    fn drop(&mut self) {
        self.shared.take(self.user, &self.id);
    }
}
