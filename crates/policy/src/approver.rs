use crate::Question;
use async_trait::async_trait;
use std::fmt;

/// What a person said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// Yes, this once.
    Once,
    /// Yes, for as long as the session lasts; without a session, the execution.
    Session,
    /// Yes, from now on.
    Always,
    /// No, this once.
    Refuse,
    /// There is nobody who could say it.
    Nobody,
}

/// A way to ask a person.
///
/// Contract: any number of questions may be open at once, and each gets its own answer. There is no time-out; whoever
/// calls has one. A future that is dropped withdraws its question: it is no longer shown, and an answer that still comes
/// goes nowhere. If the person goes away, the answer is [`Answer::Nobody`]. Nothing but a person's act is a yes.
#[async_trait]
pub trait Approver: Send + Sync + fmt::Debug {
    /// Shows the question and waits for the answer.
    async fn ask(&self, question: Question) -> Answer;
}

/// Where there is nobody to ask.
#[derive(Clone, Copy, Debug, Default)]
pub struct NobodyToAsk;

#[async_trait]
impl Approver for NobodyToAsk {
    async fn ask(&self, _: Question) -> Answer {
        Answer::Nobody
    }
}
