//! Questions that wait for a person: whether a tool may be called.
//!
//! Whatever runs code for a user can ask through [`OpenQuestions::approver`]. The questions are listed and answered over
//! `/api/approvals`, and watched with [`OpenQuestions::changes`]. An answer is stored before it has an effect. Questions to
//! groups are in `groups.rs`.

mod groups;
#[cfg(test)]
mod tests;

use async_trait::async_trait;
use coracle_accounts::{AccountError, People};
use coracle_policy::{Answer, Approver, GroupAnswer, Question};
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
    reply: Reply,
}

/// Where the answer goes.
enum Reply {
    Person(oneshot::Sender<Answer>),
    Group {
        sender: oneshot::Sender<GroupAnswer>,
        /// Whether the user whose call it is has an account.
        has_account: bool,
    },
}

/// A question that waits for an answer.
#[derive(Clone, Debug)]
pub(crate) struct OpenQuestion {
    pub(crate) question: Arc<Question>,
    /// The members of the group who have approved, if there is one.
    pub(crate) approved: Vec<Approved>,
    pub(crate) asked_at: SystemTime,
    /// When the question counts as answered with no.
    pub(crate) expires_at: SystemTime,
}

/// The approval of a member of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Approved {
    pub(crate) by: UserId,
    /// How the member was authenticated.
    pub(crate) credential: String,
}

/// What an answer led to.
#[derive(Debug)]
pub(crate) enum Answered {
    /// The question has ended.
    Ended(Box<ApprovalRecord>),
    /// More members of the group have to approve.
    Open(OpenQuestion),
}

impl Answered {
    fn ended(record: ApprovalRecord) -> Self {
        Self::Ended(Box::new(record))
    }
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
    /// The user's approval does not count.
    #[error("{who} must approve this call: your approval does not count")]
    NotAnApprover {
        /// Who has to approve.
        who: String,
    },
    /// A group approves single calls.
    #[error("a group approves single calls: the decision is `once` or `refuse`")]
    OnlyOnce,
    /// The approval could not be recorded, and does not count.
    #[error("the approval could not be recorded, and does not count: {0}")]
    NotRecorded(AccountError),
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
            caller: None,
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

    /// Returns the open questions about calls of a user, and those about calls of others that the user may approve, oldest
    /// first.
    pub(crate) fn open(&self, user: &UserId) -> Vec<OpenQuestion> {
        let users = self.shared.users();
        let all = users.values().flat_map(|waiting| &waiting.open).map(|open| &open.question);
        let mut seen: Vec<OpenQuestion> = all.filter(|question| question.is_for(user)).cloned().collect();
        drop(users);
        seen.sort_by(|one, other| {
            (one.asked_at, one.question.id.as_str()).cmp(&(other.asked_at, other.question.id.as_str()))
        });
        seen
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
    ) -> Result<Answered, AnswerError> {
        let asked = self.open(user).into_iter().find(|open| open.question.id.as_str() == id);
        let asked = asked.ok_or(AnswerError::NotOpen)?;
        let shared = Arc::clone(&self.shared);
        let by = Approved { by: user.clone(), credential: by.to_owned() };
        // A task of its own: a person who disconnects now has still answered.
        let answered = tokio::spawn(async move {
            match &asked.question.quorum {
                Some(quorum) => groups::answer(&shared, &asked, quorum, by, answer).await,
                None => shared.answer(&asked, &by, answer).await.map(Answered::ended),
            }
        });
        // The task does not panic; if it is gone, so is the server.
        answered.await.unwrap_or(Err(AnswerError::Withdrawn))
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

    /// Adds a question, unless its user has too many.
    fn add(&self, open: Open) -> bool {
        let (mut users, question) = (self.users(), open.question.clone());
        let is_full = question.question.quorum.as_ref().is_some_and(|quorum| groups::is_full(&users, &quorum.groups));
        let waiting = users.entry(question.question.user.clone()).or_default();
        if is_full || waiting.open.len() >= MAX_OPEN {
            return false;
        }
        waiting.open.push(open);
        tell(&mut users, &question);
        true
    }

    /// Removes a question that is still open. One that began anew with the same ID is another one.
    fn take(&self, asked: &Arc<Question>) -> Option<Open> {
        let (mut users, user) = (self.users(), &asked.user);
        let waiting = users.get_mut(user)?;
        let place = waiting.open.iter().position(|open| Arc::ptr_eq(&open.question.question, asked))?;
        let open = waiting.open.remove(place);
        tell(&mut users, &open.question);
        if users.get(user).is_some_and(Waiting::is_idle) {
            users.remove(user);
        }
        Some(open)
    }

    /// Answers a question to one person.
    async fn answer(
        &self,
        asked: &OpenQuestion,
        by: &Approved,
        answer: PersonsAnswer,
    ) -> Result<ApprovalRecord, AnswerError> {
        let open = self.take(&asked.question).ok_or(AnswerError::NotOpen)?;
        let record = open.question.ended(answer.outcome(), Some(&by.credential));
        self.record(&record).await.map_err(AnswerError::Store)?;
        match open.reply {
            Reply::Person(reply) => reply.send(answer.into()).map_err(|_| AnswerError::Withdrawn)?,
            Reply::Group { .. } => return Err(AnswerError::Withdrawn),
        }
        Ok(record)
    }

    /// Asks, and waits for the answer. `reply` makes the place for it.
    async fn ask<A>(&self, question: Question, reply: impl FnOnce(oneshot::Sender<A>) -> Reply) -> Result<A, NoAnswer> {
        let (sender, mut answer) = oneshot::channel();
        let asked_at = SystemTime::now();
        let expires_at = asked_at + self.patience;
        let question = OpenQuestion { question: Arc::new(question), approved: Vec::new(), asked_at, expires_at };
        let withdrawal = Withdrawal { shared: self, asked: Arc::clone(&question.question) };
        if !self.add(Open { question, reply: reply(sender) }) {
            return Err(NoAnswer::TooMany);
        }
        tokio::select! {
            biased;
            answer = &mut answer => answer.map_err(|_| NoAnswer::Gone),
            () = self.stop.cancelled() => Err(NoAnswer::Gone),
            () = tokio::time::sleep(self.patience) => match self.take(&withdrawal.asked) {
                Some(open) => {
                    let record = open.question.ended(ApprovalOutcome::TimedOut, None);
                    if let Err(error) = self.record(&record).await {
                        tracing::warn!(user = %withdrawal.asked.user, %error, "cannot store that a question was not answered");
                    }
                    Err(NoAnswer::TimedOut)
                }
                // A person has just answered, and the answer is being stored.
                None => answer.await.map_err(|_| NoAnswer::Gone),
            },
        }
    }

    /// Writes the end of a question to the log of approvals.
    async fn record(&self, record: &ApprovalRecord) -> Result<(), StoreError> {
        let ApprovalRecord { id, user, server, tool, execution_id, .. } = record;
        let (outcome, by) = (record.outcome.as_str(), record.answered_by.as_deref().unwrap_or("no one"));
        tracing::info!(%user, %server, tool, execution = %execution_id, id, outcome, by, "a question has ended");
        self.people.store().add_approval(record).await
    }
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NoAnswer {
    Gone,
    TimedOut,
    TooMany,
}

/// Tells everybody who can see a question that it has changed.
fn tell(users: &mut HashMap<UserId, Waiting>, question: &OpenQuestion) {
    for (user, waiting) in users {
        if question.is_for(user) {
            waiting.changes.send_replace(());
        }
    }
}

impl OpenQuestion {
    /// Whether the call is the user's, or the user may approve it.
    fn is_for(&self, user: &UserId) -> bool {
        let question = &self.question;
        question.user == *user || question.quorum.as_ref().is_some_and(|quorum| quorum.counts(user, &question.user))
    }

    /// The question when it has ended, for the log of its user.
    fn ended(&self, outcome: ApprovalOutcome, by: Option<&str>) -> ApprovalRecord {
        let question = &self.question;
        let shortened = |text: &str| text.chars().take(MAX_TEXT_CHARS).collect::<String>();
        ApprovalRecord {
            id: question.id.as_str().to_owned(),
            user: question.user.clone(),
            caller: None,
            server: question.server.clone(),
            tool: question.tool.clone(),
            arguments: question.arguments_preview.clone(),
            reason: shortened(&question.why),
            session: question.session.clone(),
            execution_id: question.execution.clone(),
            origin: question.origin.as_deref().map(shortened),
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
    async fn ask(&self, mut question: Question) -> Answer {
        question.user.clone_from(&self.user);
        question.origin.clone_from(&self.origin);
        match self.questions.shared.ask(question, Reply::Person).await {
            Ok(answer) => answer,
            Err(NoAnswer::Gone) => Answer::Nobody,
            Err(NoAnswer::TimedOut) => Answer::TimedOut,
            Err(NoAnswer::TooMany) => Answer::TooMany,
        }
    }

    fn origin(&self) -> Option<String> {
        self.origin.clone()
    }
}

/// Withdraws a question when it is dropped.
struct Withdrawal<'a> {
    shared: &'a Shared,
    asked: Arc<Question>,
}

impl Drop for Withdrawal<'_> {
    fn drop(&mut self) {
        self.shared.take(&self.asked);
    }
}
