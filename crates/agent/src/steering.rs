//! Messages of the user that arrive during a run.

use coracle_models::Part;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum number of messages that wait for the next step.
const MAX_STEERING: usize = 32;
/// Maximum size of all of them, in bytes.
const MAX_STEERING_BYTES: usize = 64 << 20;

/// Messages of the user for a run that is under way. The model gets them before its next answer. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Steering {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Vec<Part>>,
    is_over: bool,
}

/// Why a message was not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotSteered {
    /// Too many messages wait for the next step.
    #[error("too many messages are waiting: the maximum is {MAX_STEERING}, with {MAX_STEERING_BYTES} bytes in all")]
    TooMany,
    /// The run has ended.
    #[error("the run has ended")]
    Ended,
}

impl Steering {
    /// Adds a message.
    pub fn add(&self, parts: Vec<Part>) -> Result<(), NotSteered> {
        let mut state = self.lock();
        if state.is_over {
            return Err(NotSteered::Ended);
        }
        let bytes: usize = state.waiting.iter().chain([&parts]).flatten().map(size).sum();
        if state.waiting.len() >= MAX_STEERING || bytes > MAX_STEERING_BYTES {
            return Err(NotSteered::TooMany);
        }
        state.waiting.push_back(parts);
        Ok(())
    }

    /// The messages that have arrived since the last call.
    pub(crate) fn take(&self) -> Vec<Vec<Part>> {
        self.lock().waiting.drain(..).collect()
    }

    /// Accepts no more messages, unless one is waiting. Returns whether none is.
    pub(crate) fn end_if_empty(&self) -> bool {
        let mut state = self.lock();
        state.is_over = state.waiting.is_empty();
        state.is_over
    }

    /// Accepts no more messages, and returns those that no step has got.
    pub(crate) fn end(&self) -> Vec<Vec<Part>> {
        let mut state = self.lock();
        state.is_over = true;
        state.waiting.drain(..).collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The size of a part in bytes.
fn size(part: &Part) -> usize {
    match part {
        Part::Text { text } => text.len(),
        Part::Image { mime, data } => mime.len() + data.len(),
        Part::ImageUrl { url } => url.len(),
    }
}
