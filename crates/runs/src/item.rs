//! Items as they are stored: what the model sees, and what programs may want to know besides.

use crate::approval::{ApprovalAnswer, AskedCall};
use coracle_models::{Call, CallResult, Item};
use coracle_store::{ItemRecord, NewItem};
use coracle_types::{IdError, ItemId, RunId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The content of a stored item.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StoredItem {
    /// An item of the conversation.
    Item(Item),
    /// The result of a call of one of the agent's tools.
    Result {
        /// The result that the model sees.
        result: CallResult,
        /// The result for programs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        structured: Option<Value>,
        /// The call, if an earlier run has made and parked it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call: Option<Call>,
    },
    /// The conversation was shortened: everything before it is replaced by these items.
    Compaction(Vec<Item>),
    /// A person was asked about a call of code. The model does not see this.
    Asked(AskedCall),
    /// A person has answered. The model does not see this.
    Answer(ApprovalAnswer),
}

impl StoredItem {
    /// Reads a stored item. Damaged ones are left out, because the rest of the conversation is still useful.
    pub(crate) fn of(record: &ItemRecord) -> Option<Self> {
        match serde_json::from_value(record.content.clone()) {
            Ok(item) => Some(item),
            Err(error) => {
                tracing::error!(item = %record.id, %error, "a stored item is damaged");
                None
            }
        }
    }

    /// The item with an ID, ready to be stored.
    pub(crate) fn into_new(self, id: ItemId) -> NewItem {
        // Serializing plain data cannot fail.
        NewItem { id, content: serde_json::to_value(self).unwrap_or_default() }
    }
}

/// Creates the IDs of the items of a run. They follow from the position of an item, so that an item has its ID from its
/// first delta on, and the same one when it is stored.
#[derive(Clone, Debug)]
pub(crate) struct ItemIds {
    run: String,
    attempt: u32,
}

impl ItemIds {
    /// IDs for an attempt of a run.
    pub(crate) fn new(run: &RunId, attempt: u32) -> Self {
        let run = run.as_str();
        Self { run: run.strip_prefix("resp_").unwrap_or(run).to_owned(), attempt }
    }

    /// An item of the input.
    pub(crate) fn input(&self, kind: Kind, number: usize) -> Result<ItemId, IdError> {
        ItemId::new(format!("{}_{}i{number:x}", kind.prefix(), self.run))
    }

    /// An item of the model's answer in this step; `number` counts the items of this kind.
    pub(crate) fn output(&self, kind: Kind, step: u32, number: usize) -> String {
        format!("{}_{}{:x}s{step:x}n{number:x}", kind.prefix(), self.run, self.attempt)
    }

    /// An item that is not part of an answer; `number` counts such items of this kind.
    pub(crate) fn other(&self, kind: Kind, number: usize) -> String {
        format!("{}_{}{:x}o{number:x}", kind.prefix(), self.run, self.attempt)
    }
}

/// The kind of an item, for its ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// A message.
    Message,
    /// Reasoning.
    Reasoning,
    /// A call of a tool.
    Call,
    /// The result of a call.
    Result,
    /// A summary.
    Compaction,
    /// The answer of a person.
    Answer,
}

impl Kind {
    /// The kind of an item.
    pub(crate) fn of(item: &Item) -> Self {
        match item {
            Item::System { .. } | Item::User { .. } | Item::Assistant { .. } => Self::Message,
            Item::Reasoning { .. } => Self::Reasoning,
            Item::Call(_) => Self::Call,
            Item::Result(_) => Self::Result,
        }
    }

    fn prefix(self) -> &'static str {
        match self {
            Self::Message => "msg",
            Self::Reasoning => "rs",
            Self::Call => "call",
            Self::Result => "res",
            Self::Compaction => "cmp",
            Self::Answer => "mcpa",
        }
    }
}

/// Counts the items of one answer by kind.
#[derive(Debug, Default)]
pub(crate) struct Positions([usize; 3]);

impl Positions {
    /// The number of the next item of this kind, from 0.
    pub(crate) fn next(&mut self, kind: Kind) -> usize {
        let place = match kind {
            Kind::Message => &mut self.0[0],
            Kind::Reasoning => &mut self.0[1],
            Kind::Call | Kind::Result | Kind::Compaction | Kind::Answer => &mut self.0[2],
        };
        *place += 1;
        *place - 1
    }
}
