use std::sync::{Mutex, PoisonError};

/// The maximum length of a challenge.
const MAX_CHALLENGE: usize = 8 << 10;

/// The last challenge of a server that requires a sign-in, or more scopes: where to get it, and for what.
#[derive(Debug, Default)]
pub(crate) struct Challenge(Mutex<Option<String>>);

impl Challenge {
    pub(crate) fn note(&self, header: &str) {
        if header.len() <= MAX_CHALLENGE {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(header.to_owned());
        }
    }

    pub(crate) fn is_noted(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    pub(crate) fn take(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
