//! The browser of the local user, on a server without users: a link that works once signs it in.
//!
//! Everything is in memory, so another start of the server has another link, and the browser is signed out.

use coracle_accounts::{AccountError, LINK_LIFETIME, random_token};
use coracle_store::TokenDigest;
use coracle_types::Secret;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Marks a request of the browser that was signed in with the link. It counts like the key of the server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FromLocalBrowser;

/// Link of the server, or the session that was started with it.
#[derive(Debug)]
pub(crate) struct LocalBrowser(Mutex<State>);

#[derive(Debug)]
enum State {
    /// The link has not been used.
    Link { digest: TokenDigest, until: Instant },
    /// The browser is signed in.
    SignedIn { digest: TokenDigest, until: Instant },
    /// There is no link, or it was used and the browser has signed out.
    Nothing,
}

impl LocalBrowser {
    pub(crate) fn new(link: Option<&Secret>) -> Self {
        Self(Mutex::new(match link {
            Some(token) => {
                State::Link { digest: TokenDigest::of(token.expose()), until: Instant::now() + LINK_LIFETIME }
            }
            None => State::Nothing,
        }))
    }

    /// Uses the link up and returns the token of the session. `None` if it is not the link, or was used before.
    pub(crate) fn sign_in(&self, token: &str, lifetime: Duration) -> Result<Option<Secret>, AccountError> {
        let session = random_token()?;
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*state {
            State::Link { digest, until } if *digest == TokenDigest::of(token) && Instant::now() < *until => {
                let digest = TokenDigest::of(session.expose());
                *state = State::SignedIn { digest, until: Instant::now() + lifetime };
                Ok(Some(session))
            }
            _ => Ok(None),
        }
    }

    /// Whether this is the token of the session.
    pub(crate) fn knows(&self, token: &Secret) -> bool {
        match &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            State::SignedIn { digest, until } => *digest == TokenDigest::of(token.expose()) && Instant::now() < *until,
            State::Link { .. } | State::Nothing => false,
        }
    }

    /// Ends the session, if this is its token.
    pub(crate) fn sign_out(&self, token: &Secret) {
        if self.knows(token) {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = State::Nothing;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_works_once() {
        let hour = Duration::from_hours(1);
        let browser = LocalBrowser::new(Some(&Secret::new("link")));
        assert_eq!(browser.sign_in("other", hour).unwrap(), None);
        assert!(!browser.knows(&Secret::new("link")));
        let session = browser.sign_in("link", hour).unwrap().unwrap();
        assert!(browser.knows(&session) && !browser.knows(&Secret::new("link")));
        assert_eq!(browser.sign_in("link", hour).unwrap(), None);
        browser.sign_out(&Secret::new("other"));
        assert!(browser.knows(&session));
        browser.sign_out(&session);
        assert!(!browser.knows(&session));
        assert_eq!(browser.sign_in("link", hour).unwrap(), None);
    }

    #[test]
    fn a_session_expires() {
        let browser = LocalBrowser::new(Some(&Secret::new("link")));
        let session = browser.sign_in("link", Duration::ZERO).unwrap().unwrap();
        assert!(!browser.knows(&session));
        assert_eq!(LocalBrowser::new(None).sign_in("", Duration::ZERO).unwrap(), None);
    }
}
