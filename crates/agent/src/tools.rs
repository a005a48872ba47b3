//! The tools that the agent runs itself.

use async_trait::async_trait;
use coracle_models::{Call, Part, ToolDefinition};
use serde_json::{Map, Value};
use std::fmt;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Something that happens during a call: an event of the code that it runs.
pub use coracle_types::Event as CallUpdate;

/// The tools that the agent runs itself, as opposed to those of its client.
///
/// Contract: `run` returns soon after `cancel` is cancelled, with whatever result there is; its output fits into a
/// model's context. Dropping the future ends the call.
#[async_trait]
pub trait AgentTools: fmt::Debug + Send + Sync {
    /// The definitions that the model gets.
    fn definitions(&self) -> Vec<ToolDefinition>;

    /// The tool that runs code, and the name of its argument with the code. Needed for models that write code into
    /// their text instead of calling the tool.
    fn code_tool(&self) -> Option<(&str, &str)> {
        None
    }

    /// Runs one call. Name and arguments come from a model and are hostile; `arguments` are those of the call, parsed.
    async fn run(
        &self,
        call: &Call,
        arguments: Map<String, Value>,
        updates: &mpsc::Sender<CallUpdate>,
        cancel: &CancellationToken,
    ) -> ToolOutput;

    /// The same, but when `park` is cancelled while the call waits for a person, it may go on without the run: another
    /// run takes it over with the same call.
    async fn run_or_park(
        &self,
        call: &Call,
        arguments: Map<String, Value>,
        updates: &mpsc::Sender<CallUpdate>,
        cancel: &CancellationToken,
        _park: &CancellationToken,
    ) -> Ran {
        Ran::Ended(self.run(call, arguments, updates, cancel).await)
    }

    /// The model is writing the arguments of a call; `so_far` is their beginning, of which the last `added` bytes are
    /// new. Implementations can prepare for the call, but must not have any other effect.
    fn anticipate(&self, _name: &str, _so_far: &str, _added: usize) {}
}

/// How a call left the run.
#[derive(Clone, Debug, PartialEq)]
pub enum Ran {
    /// It has a result.
    Ended(ToolOutput),
    /// It waits for a person, and the run does not wait for it.
    Parked,
}

/// The result of a call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolOutput {
    /// Text and images for the model.
    pub parts: Vec<Part>,
    /// Whether the call failed.
    pub is_error: bool,
    /// The result for programs.
    pub structured: Option<Value>,
}

impl ToolOutput {
    /// A failure with this message for the model.
    pub fn error(message: impl Into<String>) -> Self {
        Self { parts: vec![Part::text(message)], is_error: true, structured: None }
    }

    /// A success with this text for the model.
    pub fn text(text: impl Into<String>) -> Self {
        Self { parts: vec![Part::text(text)], is_error: false, structured: None }
    }
}
