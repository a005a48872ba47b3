//! Who asks.

use crate::accounts::KeyMaker;
use coracle_store::{KeyScope, Role};
use coracle_types::UserId;
use std::collections::BTreeSet;
use std::time::SystemTime;

/// Who has signed in, as a part of the request.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    /// For whom everything is done.
    pub(crate) user: UserId,
    /// What they may do.
    pub(crate) role: Role,
    /// What this way of signing in is good for.
    pub(crate) scopes: BTreeSet<KeyScope>,
    /// The way.
    pub(crate) how: How,
}

/// How somebody has signed in.
#[derive(Clone, Debug)]
pub(crate) enum How {
    /// Not at all: the one user of this machine.
    Local,
    /// In a browser.
    Session {
        /// What is in the cookie.
        token: coracle_types::Secret,
        /// Since when.
        since: SystemTime,
        /// By a link that works once.
        by_link: bool,
    },
    /// By an API key.
    Key {
        /// Which.
        id: String,
        /// When it ends.
        expires_at: Option<SystemTime>,
    },
    /// By an access token of the OpenID provider.
    Bearer {
        /// When it ends.
        expires_at: SystemTime,
    },
    /// A proxy says so.
    Proxy,
}

impl How {
    /// For people and programs.
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
    /// The one user of a server that knows no others.
    pub(crate) fn local() -> Self {
        Self { user: UserId::local(), role: Role::Admin, scopes: KeyScope::ALL.into(), how: How::Local }
    }

    /// What somebody may who has signed in as a person, and not by a key. What operators look at is for admins; others
    /// read it with a key that an admin has made for that.
    pub(crate) fn scopes_of(role: Role) -> BTreeSet<KeyScope> {
        let is_for = |scope: &KeyScope| role == Role::Admin || !matches!(scope, KeyScope::Admin | KeyScope::Metrics);
        KeyScope::ALL.into_iter().filter(is_for).collect()
    }

    /// With what a key is made that this caller asks for.
    pub(crate) fn key_maker(&self) -> KeyMaker {
        match &self.how {
            How::Local | How::Session { .. } | How::Proxy => KeyMaker::Person,
            How::Key { id, expires_at } => KeyMaker::Key { id: id.clone(), expires_at: *expires_at },
            How::Bearer { expires_at } => KeyMaker::Token { expires_at: *expires_at },
        }
    }

    /// Whether it is good for this. What only admins may takes both: the person and the key.
    pub(crate) fn may(&self, scope: KeyScope) -> bool {
        self.scopes.contains(&scope) && (scope != KeyScope::Admin || self.role == Role::Admin)
    }
}
