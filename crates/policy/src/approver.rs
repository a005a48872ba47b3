use crate::Question;
use async_trait::async_trait;
use coracle_types::Tool;
use std::fmt;

/// The answer of a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// Yes, for this call.
    Once,
    /// Yes, until the session ends, or the execution if there is no session.
    Session,
    /// Yes, for calls with the same arguments until the session ends, or the execution if there is no session.
    SessionSameArguments,
    /// Yes, from now on.
    Always,
    /// Yes, for calls with the same arguments from now on.
    AlwaysSameArguments,
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

    /// The answer that a person has given to this very question before it is displayed. It counts once.
    fn answered_before(&self, _question: &Question) -> Option<Answer> {
        None
    }

    /// Whether the caller wants each call of this tool to be asked about, also those that the policy or an earlier answer
    /// allows. A call that is denied stays denied.
    fn wants_each_call(&self, _tool: &Tool) -> bool {
        false
    }
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
