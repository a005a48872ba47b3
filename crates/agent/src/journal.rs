//! The journal of a run: everything that is needed to take it up after a crash.

use async_trait::async_trait;
use coracle_models::{Call, CallResult, Item, Part, StopReason, Usage};
use serde_json::Value;
use std::fmt;

/// Where a run records its progress.
///
/// Contract: `record` returns when the entry is on the disk. A run that cannot record its progress ends.
#[async_trait]
pub trait RunJournal: fmt::Debug + Send + Sync {
    /// Records what has happened, or is about to happen.
    async fn record(&self, entry: Entry<'_>) -> Result<(), JournalError>;
}

/// An entry of the journal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Entry<'a> {
    /// The model is about to be asked.
    Asking {
        /// The number of the step, from 1.
        step: u32,
    },
    /// The model has answered.
    Answered {
        /// The number of the step.
        step: u32,
        /// The items that the answer adds to the conversation.
        items: &'a [Item],
        /// Why the answer ended.
        stop: StopReason,
        /// The tokens of the step.
        usage: Usage,
        /// The calls that the agent is about to run.
        own: &'a [Call],
        /// The calls that the client has to make.
        of_client: &'a [Call],
    },
    /// A call has its result.
    Result {
        /// The result as it is added to the conversation.
        result: &'a CallResult,
        /// The result for programs.
        structured: Option<&'a Value>,
    },
    /// A message of the user is added to the conversation.
    Steered {
        /// The message.
        parts: &'a [Part],
    },
    /// The conversation is about to be shortened.
    Compacting,
    /// The conversation was shortened.
    Compacted {
        /// The whole conversation from now on.
        items: &'a [Item],
        /// The tokens that this took.
        usage: Usage,
    },
}

/// Why an entry could not be recorded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the progress of the run cannot be recorded: {0}")]
pub struct JournalError(pub String);

/// The journal of runs that end with their client.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NoJournal;

#[async_trait]
impl RunJournal for NoJournal {
    async fn record(&self, _: Entry<'_>) -> Result<(), JournalError> {
        Ok(())
    }
}

/// Where an earlier attempt of a run ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Earlier {
    /// The number of questions to the model.
    pub steps: u32,
    /// The number of calls that the agent has run.
    pub calls: u32,
    /// The tokens so far.
    pub usage: Usage,
    /// Calls of the last answer that have no result yet. They are the last items of the conversation, apart from the
    /// results of the calls before them.
    pub open: Vec<Call>,
    /// Why the last answer ended, if it has no calls and nothing was added to the conversation after it. The model is not
    /// asked again.
    pub last: Option<StopReason>,
}
