//! Random IDs.

use coracle_types::{ExecutionId, SessionId};
use std::time::SystemTime;

/// The ID of a new execution: unguessable if the system provides randomness, and unique in any case.
pub(crate) fn new_execution_id() -> ExecutionId {
    ExecutionId::from_random(getrandom::u64().unwrap_or_else(|_| {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        now.as_nanos() as u64
    }))
}

/// The ID of a new session. It must be unguessable, so this fails if the system provides no randomness.
pub(crate) fn new_session_id() -> Result<SessionId, getrandom::Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    Ok(SessionId::from_random(u128::from_be_bytes(bytes)))
}
