use coracle_protocol::MAX_FRAME;
use coracle_types::MAX_CALL_BYTES;

// Besides the arguments or the answer, a frame contains an ID and a few short fields.
const _: () = assert!(MAX_CALL_BYTES + 1024 <= MAX_FRAME as u64);

/// Limits on the calls of one execution, except their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallCaps {
    /// Maximum size of the arguments of one call as JSON, in bytes; never more than [`MAX_CALL_BYTES`].
    pub argument_bytes: u64,
    /// Maximum size of the answer to one call as JSON, in bytes; never more than [`MAX_CALL_BYTES`].
    pub answer_bytes: u64,
    /// Maximum number of concurrent calls; further calls wait.
    pub at_once: usize,
}

impl Default for CallCaps {
    fn default() -> Self {
        Self { argument_bytes: 4 << 20, answer_bytes: MAX_CALL_BYTES, at_once: 32 }
    }
}
