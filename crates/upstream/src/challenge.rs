use std::sync::{Mutex, PoisonError};

/// Longest challenge that is kept.
const MAX_CHALLENGE: usize = 8 << 10;

/// What a server last said when it wanted a sign-in, or a better one: where that is to be had, and for what.
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
