use crate::Question;
use async_trait::async_trait;
use std::fmt;

/// The answer of a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// Yes, for this call.
    Once,
    /// Yes, until the session ends, or the execution if there is no session.
    Session,
    /// Yes, from now on.
    Always,
    /// No, for this call.
    Refuse,
    /// There is no one to ask.
    Nobody,
    /// No one answered in time.
    TimedOut,
    /// Too many other questions are waiting for the person.
    TooMany,
}

/// A way to ask a person.
///
/// Contract: any number of questions may be open at once, and each gets its own answer. Callers need no time-out: an
/// approver that limits the time or the number of open questions answers [`Answer::TimedOut`] or [`Answer::TooMany`].
/// Dropping the future withdraws the question: it is no longer displayed, and a late answer has no effect. If the person
/// goes away, the answer is [`Answer::Nobody`]. Only an action of a person counts as a yes.
#[async_trait]
pub trait Approver: Send + Sync + fmt::Debug {
    /// Displays the question and waits for the answer.
    async fn ask(&self, question: Question) -> Answer;
}

/// An approver for when there is no one to ask.
#[derive(Clone, Copy, Debug, Default)]
pub struct NobodyToAsk;

#[async_trait]
impl Approver for NobodyToAsk {
    async fn ask(&self, _: Question) -> Answer {
        Answer::Nobody
    }
}
