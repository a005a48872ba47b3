use coracle_protocol::MAX_FRAME;
use coracle_types::MAX_CALL_BYTES;

// A frame contains an ID and a few short fields besides the arguments or the answer.
const _: () = assert!(MAX_CALL_BYTES + 1024 <= MAX_FRAME as u64);

/// Limits on the calls of one execution, except their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallCaps {
    /// The largest arguments of one call, as JSON; never more than [`MAX_CALL_BYTES`].
    pub argument_bytes: u64,
    /// The largest answer to one call, as JSON; never more than [`MAX_CALL_BYTES`].
    pub answer_bytes: u64,
    /// Maximum number of calls in flight; further calls wait.
    pub at_once: usize,
}

impl Default for CallCaps {
    fn default() -> Self {
        Self { argument_bytes: 4 << 20, answer_bytes: MAX_CALL_BYTES, at_once: 32 }
    }
}
