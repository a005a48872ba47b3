//! The limits of one answer.

use crate::error::ModelError;

/// Maximum number of calls in one answer.
pub const MAX_CALLS: usize = 64;
/// Maximum size of the arguments of one call.
pub const MAX_ARGUMENT_BYTES: usize = 2 << 20;
/// Maximum size of text and reasoning in one answer.
pub const MAX_TEXT_BYTES: usize = 4 << 20;
/// Maximum length of a call's ID or a tool's name.
pub(crate) const MAX_NAME_BYTES: usize = 512;
/// Maximum number of items in one answer.
pub(crate) const MAX_ITEMS: usize = 256;

/// Adds up what an answer contains, and ends it when a limit is exceeded.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    text: usize,
}

impl Meter {
    /// More text or reasoning has arrived.
    pub(crate) fn text(&mut self, bytes: usize) -> Result<(), ModelError> {
        self.text = self.text.saturating_add(bytes);
        within(self.text, MAX_TEXT_BYTES, "bytes of text")
    }
}

/// The arguments of one call have this size.
pub(crate) fn arguments(bytes: usize) -> Result<(), ModelError> {
    within(bytes, MAX_ARGUMENT_BYTES, "bytes of arguments for one call")
}

/// The answer has this number of calls.
pub(crate) fn calls(count: usize) -> Result<(), ModelError> {
    within(count, MAX_CALLS, "calls")
}

/// The answer has this number of items.
pub(crate) fn items(count: usize) -> Result<(), ModelError> {
    within(count, MAX_ITEMS, "items")
}

/// A call's ID or a tool's name has this size.
pub(crate) fn name(bytes: usize) -> Result<(), ModelError> {
    within(bytes, MAX_NAME_BYTES, "bytes in a name or ID")
}

fn within(size: usize, limit: usize, unit: &str) -> Result<(), ModelError> {
    if size > limit { Err(ModelError::TooLarge { limit: format!("{limit} {unit}") }) } else { Ok(()) }
}
