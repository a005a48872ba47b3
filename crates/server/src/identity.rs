//! The caller of a request.

use coracle_accounts::KeyMaker;
use coracle_store::{KeyScope, Role};
use coracle_types::UserId;
use std::collections::BTreeSet;
use std::time::SystemTime;

/// Authenticated caller, stored as an extension of the request.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    /// User on whose behalf the request runs.
    pub(crate) user: UserId,
    /// Role of the user.
    pub(crate) role: Role,
    /// Scopes that this authentication grants.
    pub(crate) scopes: BTreeSet<KeyScope>,
    /// Authentication method.
    pub(crate) how: How,
}

/// Authentication method of a request.
#[derive(Clone, Debug)]
pub(crate) enum How {
    /// No authentication: the local user.
    Local,
    /// Browser session.
    Session {
        /// Value of the session cookie.
        token: coracle_types::Secret,
        /// Start of the session.
        since: SystemTime,
        /// Whether the session was started with a one-time link.
        by_link: bool,
    },
    /// API key.
    Key {
        /// ID of the key.
        id: String,
        /// Expiry time, if any.
        expires_at: Option<SystemTime>,
    },
    /// Access token of the OpenID provider.
    Bearer {
        /// Expiry time of the token.
        expires_at: SystemTime,
    },
    /// Header of a trusted proxy.
    Proxy,
}

impl How {
    /// Stable name of the method, as in the API.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Session { .. } => "session",
            Self::Key { .. } => "key",
            Self::Bearer { .. } => "token",
            Self::Proxy => "proxy",
        }
    }
}

impl Identity {
    /// Identity of the local user, on a server without accounts.
    pub(crate) fn local() -> Self {
        Self { user: UserId::local(), role: Role::Admin, scopes: KeyScope::ALL.into(), how: How::Local }
    }

    /// Scopes of a user who signed in without a key. Only admins can read metrics this way; others need a key that an
    /// admin created for it.
    pub(crate) fn scopes_of(role: Role) -> BTreeSet<KeyScope> {
        let is_for = |scope: &KeyScope| role == Role::Admin || !matches!(scope, KeyScope::Admin | KeyScope::Metrics);
        KeyScope::ALL.into_iter().filter(is_for).collect()
    }

    /// Credential that counts as the creator of a key which this caller requests.
    pub(crate) fn key_maker(&self) -> KeyMaker {
        match &self.how {
            How::Local | How::Session { .. } | How::Proxy => KeyMaker::Person,
            How::Key { id, expires_at } => KeyMaker::Key { id: id.clone(), expires_at: *expires_at },
            How::Bearer { expires_at } => KeyMaker::Token { expires_at: *expires_at },
        }
    }

    /// The credential of the request, for the log of approvals. Reveals no secret.
    pub(crate) fn credential(&self) -> String {
        match &self.how {
            How::Key { id, .. } => format!("key {id}"),
            how => how.word().to_owned(),
        }
    }

    /// Whether the identity grants a scope. The scope `admin` also requires the role.
    pub(crate) fn may(&self, scope: KeyScope) -> bool {
        self.scopes.contains(&scope) && (scope != KeyScope::Admin || self.role == Role::Admin)
    }
}
