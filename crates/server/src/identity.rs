//! Who asks.

use coracle_types::UserId;

/// Who has signed in, as a part of the request.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    /// For whom everything is done.
    pub(crate) user: UserId,
}
