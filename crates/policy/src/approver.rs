use crate::Question;
use async_trait::async_trait;
use coracle_types::{Tool, UserId};
use std::collections::BTreeSet;
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

/// The answer of a group of people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupAnswer {
    /// These people have approved this call.
    Approved(BTreeSet<UserId>),
    /// One of them refused this call.
    Refused,
    /// There is no way to ask the group.
    Nobody,
    /// Too few of them answered in time.
    TimedOut,
    /// Too many other questions are waiting.
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

    /// Passes a question with [`Question::quorum`] on to the members. An approver that wraps another one can note it.
    async fn ask_group(&self, question: Question, groups: &dyn GroupApprover) -> GroupAnswer {
        groups.ask(question).await
    }

    /// What the calls are part of, such as the ID of a run, for people who are asked elsewhere.
    fn origin(&self) -> Option<String> {
        None
    }

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

/// A way to ask the members of groups, wherever the code came from.
///
/// The contract is that of [`Approver::ask`]. Besides, an approval counts only if it comes from an authenticated member, and
/// each member counts once.
#[async_trait]
pub trait GroupApprover: Send + Sync + fmt::Debug {
    /// Displays the question to the members of [`Question::quorum`], and waits until enough of them have approved or one
    /// has refused.
    async fn ask(&self, question: Question) -> GroupAnswer;
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

#[async_trait]
impl GroupApprover for NobodyToAsk {
    async fn ask(&self, _: Question) -> GroupAnswer {
        GroupAnswer::Nobody
    }
}
