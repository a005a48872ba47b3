//! What a run reports while it is under way.

use crate::tools::{CallUpdate, ToolOutput};
use coracle_models::{Item, ModelEvent, Part, Usage};
use tokio::sync::mpsc;

/// Something that happens during a run.
#[derive(Clone, Debug, PartialEq)]
pub enum RunEvent {
    /// The model is asked.
    StepBegan {
        /// The number of the step, from 1.
        step: u32,
    },
    /// A part of the model's answer.
    Model(ModelEvent),
    /// The answer broke off and is asked for again. What the step has sent so far does not count.
    Repeated {
        /// Why it broke off.
        reason: String,
    },
    /// The model's answer is complete.
    StepEnded {
        /// The items of the answer.
        items: Vec<Item>,
        /// The tokens of the step.
        usage: Usage,
    },
    /// A call of one of the agent's tools starts.
    CallStarted {
        /// The call.
        id: String,
    },
    /// A call is under way.
    CallUpdate {
        /// The call.
        id: String,
        /// What happened.
        update: CallUpdate,
    },
    /// A call has its result.
    CallEnded {
        /// The call.
        id: String,
        /// The result.
        output: ToolOutput,
    },
    /// A message of the user was added to the conversation.
    Steered {
        /// The message.
        parts: Vec<Part>,
    },
    /// The conversation was shortened.
    Compacted,
}

/// Where the events of a run go. Nobody has to listen.
#[derive(Clone, Debug)]
pub(crate) struct Emitter(mpsc::Sender<RunEvent>);

impl Emitter {
    pub(crate) fn new(events: mpsc::Sender<RunEvent>) -> Self {
        Self(events)
    }

    pub(crate) async fn send(&self, event: RunEvent) {
        // A run does not end because nobody listens.
        let _ = self.0.send(event).await;
    }
}
