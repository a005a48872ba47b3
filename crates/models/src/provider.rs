//! The trait that wire formats implement, and what a model answers.

use crate::conversation::{Item, ModelRequest};
use crate::error::ModelError;
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;
use std::ops::AddAssign;
use tokio::sync::mpsc;

/// A provider of language models.
///
/// Contract: `ask` sends an event for every delta, in order, before it returns. The concatenated deltas of an answer
/// equal its items. A request is repeated only as long as no event was sent. Dropping the future ends the request. If
/// nobody receives events, the answer is the same.
#[async_trait]
pub trait ModelProvider: fmt::Debug + Send + Sync {
    /// Identifies wire format and address. [`Native`](crate::Native) items are only sent back to the provider with the
    /// same identity. Contains no credential.
    fn identity(&self) -> &str;

    /// Asks a model and waits for its whole answer.
    async fn ask(&self, request: &ModelRequest, events: &mpsc::Sender<ModelEvent>) -> Result<ModelAnswer, ModelError>;

    /// The names of the models that the provider offers, if it can list them.
    async fn models(&self) -> Result<Vec<String>, ModelError>;
}

/// A part of an answer, as soon as it arrives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelEvent {
    /// More text.
    Text(String),
    /// More readable reasoning.
    Reasoning(String),
    /// A call begins.
    CallBegan {
        /// The position among the calls of the answer.
        index: usize,
        /// The ID of the call.
        id: String,
        /// The tool.
        name: String,
    },
    /// More arguments of a call that began.
    CallArguments {
        /// The position among the calls of the answer.
        index: usize,
        /// The next part of the arguments.
        delta: String,
    },
}

/// A whole answer.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelAnswer {
    /// The items that the model added to the conversation: reasoning, messages and calls.
    pub items: Vec<Item>,
    /// Why the answer ended.
    pub stop: StopReason,
    /// The tokens that were used.
    pub usage: Usage,
}

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The model has finished, or came to a stop text.
    End,
    /// The model waits for the results of its calls.
    Calls,
    /// The limit on output tokens was reached.
    Length,
    /// The provider or the model refused to go on.
    Refusal,
}

/// The tokens of one or more requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the input, including the cached ones.
    pub input_tokens: u64,
    /// Tokens of the input that came from the provider's cache.
    pub cached_tokens: u64,
    /// Tokens of the input that were written to the provider's cache.
    pub cache_write_tokens: u64,
    /// Tokens of the output, including reasoning.
    pub output_tokens: u64,
    /// Tokens of the output that were reasoning.
    pub reasoning_tokens: u64,
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        for (sum, more) in [
            (&mut self.input_tokens, other.input_tokens),
            (&mut self.cached_tokens, other.cached_tokens),
            (&mut self.cache_write_tokens, other.cache_write_tokens),
            (&mut self.output_tokens, other.output_tokens),
            (&mut self.reasoning_tokens, other.reasoning_tokens),
        ] {
            *sum = sum.saturating_add(more);
        }
    }
}

/// Maximum number of models in a list.
const MAX_MODELS: usize = 2_000;
/// Maximum length of a model's name.
const MAX_MODEL_NAME: usize = 256;

/// The names in a list of models, which all providers send in the same form.
pub(crate) fn model_names(list: &Value) -> Vec<String> {
    let models = list.get("data").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let names = models.iter().filter_map(|model| model.get("id")?.as_str());
    names.filter(|name| !name.is_empty() && name.len() <= MAX_MODEL_NAME).take(MAX_MODELS).map(str::to_owned).collect()
}
