//! Who may sign in over HTTP, and by what: people, API keys, sessions of browsers, links that work once.

use crate::{StoreError, bounds};
use async_trait::async_trait;
use coracle_types::{Secret, UserId};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::time::SystemTime;

/// What a person may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// Also look after other people's accounts.
    Admin,
    /// Their own things.
    User,
}

impl Role {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::User => "user",
        }
    }
}

/// Why a text is no role or no scope.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is none: there are {known}")]
pub struct UnknownWord {
    text: String,
    known: &'static str,
}

impl FromStr for Role {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        let known = [Self::Admin, Self::User].into_iter().find(|role| role.as_str() == text);
        known.ok_or_else(|| UnknownWord { text: text.chars().take(64).collect(), known: "admin and user" })
    }
}

/// What an API key may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KeyScope {
    /// `/mcp`.
    Mcp,
    /// `/api`, but for what only admins may.
    Api,
    /// What only admins may, if the key's owner is one.
    Admin,
    /// `/metrics`.
    Metrics,
}

impl KeyScope {
    /// All there are.
    pub const ALL: [Self; 4] = [Self::Mcp, Self::Api, Self::Admin, Self::Metrics];

    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Mcp => "mcp",
            Self::Api => "api",
            Self::Admin => "admin",
            Self::Metrics => "metrics",
        }
    }
}

impl FromStr for KeyScope {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        let known = Self::ALL.into_iter().find(|scope| scope.as_str() == text);
        known.ok_or_else(|| UnknownWord { text: text.chars().take(64).collect(), known: "mcp, api, admin and metrics" })
    }
}

/// What is kept of a token: it can be recognised and not be told.
///
/// Tokens are 256 random bits, so a plain SHA-256 is enough; passwords need more.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TokenDigest(String);

impl TokenDigest {
    /// Of this token.
    pub fn of(token: &str) -> Self {
        Self(hex::encode(Sha256::digest(token.as_bytes())))
    }

    /// In hexadecimal.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn from_row(text: String) -> Self {
        Self(text)
    }
}

/// Somebody as an OpenID provider knows them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ForeignIdentity {
    /// The provider.
    pub issuer: String,
    /// Whom it means: unique there, and never given to another.
    pub subject: String,
}

/// A person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Their name to sign in with, and that of their workspace.
    pub id: UserId,
    /// What they are called.
    pub display_name: Option<String>,
    /// What they may do.
    pub role: Role,
    /// The argon2id hash of their password, if they have one.
    pub password: Option<Secret>,
    /// May not sign in, by whatever means.
    pub disabled: bool,
    /// When they were added.
    pub created_at: SystemTime,
    /// When they last asked for something, to within a minute or so.
    pub last_seen: Option<SystemTime>,
    /// How an OpenID provider knows them.
    pub foreign: Option<ForeignIdentity>,
}

impl User {
    /// Somebody new without a password.
    pub fn new(id: UserId, role: Role, created_at: SystemTime) -> Self {
        let (display_name, password, last_seen, foreign) = (None, None, None, None);
        Self { id, display_name, role, password, disabled: false, created_at, last_seen, foreign }
    }
}

/// A key for programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKey {
    /// What it is called in lists; no secret.
    pub id: String,
    /// Of the key itself.
    pub digest: TokenDigest,
    /// In whose name it acts.
    pub user: UserId,
    /// What its owner calls it.
    pub name: String,
    /// What it is good for.
    pub scopes: BTreeSet<KeyScope>,
    /// When it was made.
    pub created_at: SystemTime,
    /// From when on it is no longer taken.
    pub expires_at: Option<SystemTime>,
    /// When it was last used, to within a minute or so.
    pub last_used: Option<SystemTime>,
    /// When it was taken back.
    pub revoked_at: Option<SystemTime>,
    /// The id of the key that made it, if a key did: it falls with that one.
    pub made_by: Option<String>,
}

/// A browser that is signed in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrowserSession {
    /// Of what is in its cookie.
    pub digest: TokenDigest,
    /// Who is signed in.
    pub user: UserId,
    /// Since when.
    pub created_at: SystemTime,
    /// Until when.
    pub expires_at: SystemTime,
    /// When it last asked for something, to within a minute or so.
    pub last_seen: SystemTime,
    /// By a link that works once: its owner may set a password without knowing the one before.
    pub by_link: bool,
}

/// A link that signs in once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignInLink {
    /// Of the token in it.
    pub digest: TokenDigest,
    /// Whom it signs in.
    pub user: UserId,
    /// Until when.
    pub expires_at: SystemTime,
}

/// Longest name of a person or a key.
pub const MAX_ACCOUNT_TEXT_BYTES: usize = 256;

/// The part of a store that knows who may sign in. The contract is that of [`crate::Store`], and:
/// - a link signs in once, whoever comes at the same time;
/// - whoever is disabled or gets another password has no session and no link afterwards;
/// - what belongs to nobody cannot be added: it is answered with `false`.
#[async_trait]
pub trait Accounts: Send + Sync + fmt::Debug {
    /// Adds somebody. Returns whether that was possible: the name and the foreign identity must be free.
    async fn add_user(&self, user: &User) -> Result<bool, StoreError>;

    /// Somebody by name.
    async fn user(&self, id: &UserId) -> Result<Option<User>, StoreError>;

    /// Somebody as an OpenID provider knows them.
    async fn user_of(&self, foreign: &ForeignIdentity) -> Result<Option<User>, StoreError>;

    /// Everybody, by name.
    async fn users(&self) -> Result<Vec<User>, StoreError>;

    /// Whether there is anybody, disabled or not.
    async fn has_users(&self) -> Result<bool, StoreError>;

    /// Whether anything is kept under this name besides an account: executions, sessions, artifacts, decisions, secrets.
    async fn has_data(&self, id: &UserId) -> Result<bool, StoreError>;

    /// Gives somebody another name, with what belongs to them, and ends their sessions and links. The new name must be
    /// free; if there is no account of the old name it may be that of an account without data.
    async fn rename_user(&self, from: &UserId, to: &UserId, belongings: Belongings) -> Result<Renamed, StoreError>;

    /// Sets or takes away a password (its hash), and ends the sessions and links of its owner. Returns whether there is
    /// such a user.
    async fn set_password(&self, id: &UserId, hash: Option<&Secret>) -> Result<bool, StoreError>;

    /// Shuts somebody out, with their sessions and links, or lets them in again. Returns whether there is such a user.
    async fn set_disabled(&self, id: &UserId, disabled: bool) -> Result<bool, StoreError>;

    /// Changes what somebody may do. Returns whether there is such a user.
    async fn set_role(&self, id: &UserId, role: Role) -> Result<bool, StoreError>;

    /// Somebody has asked for something.
    async fn user_seen(&self, id: &UserId, at: SystemTime) -> Result<(), StoreError>;

    /// Adds a key. Returns whether that was possible: its owner must be there, its id and digest be new, and the key
    /// that made it, if one did, be the same owner's and not be revoked.
    async fn add_key(&self, key: &ApiKey) -> Result<bool, StoreError>;

    /// The key with this digest, whether it is good or not.
    async fn key(&self, digest: &TokenDigest) -> Result<Option<ApiKey>, StoreError>;

    /// Somebody's keys, the oldest first, also those that are no longer good.
    async fn keys(&self, user: &UserId) -> Result<Vec<ApiKey>, StoreError>;

    /// Takes a key back, for good, and with it all that it has made; only if it is this user's, if one is named. Returns
    /// whether there was one to take back.
    async fn revoke_key(&self, user: Option<&UserId>, id: &str, at: SystemTime) -> Result<bool, StoreError>;

    /// A key was used.
    async fn key_used(&self, digest: &TokenDigest, at: SystemTime) -> Result<(), StoreError>;

    /// Adds a session. Returns whether that was possible: its owner must be there and not be disabled.
    async fn add_browser_session(&self, session: &BrowserSession) -> Result<bool, StoreError>;

    /// The session with this digest, whether it has expired or not.
    async fn browser_session(&self, digest: &TokenDigest) -> Result<Option<BrowserSession>, StoreError>;

    /// A session was used.
    async fn browser_session_seen(&self, digest: &TokenDigest, at: SystemTime) -> Result<(), StoreError>;

    /// Ends a session. Returns whether there was one.
    async fn end_browser_session(&self, digest: &TokenDigest) -> Result<bool, StoreError>;

    /// Adds a link. Returns whether that was possible: its owner must be there and not be disabled.
    async fn add_link(&self, link: &SignInLink) -> Result<bool, StoreError>;

    /// Uses a link up, and says whom it signs in: once, and only if it has not expired by then.
    async fn use_link(&self, digest: &TokenDigest, now: SystemTime) -> Result<Option<UserId>, StoreError>;

    /// Forgets sessions and links that have expired.
    async fn forget_expired(&self, now: SystemTime) -> Result<(), StoreError>;
}

/// What a user takes along to another name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Belongings {
    /// Everything.
    All,
    /// Everything but secrets, such as sign-ins to servers.
    WithoutSecrets,
}

/// What became of a change of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renamed {
    /// It is done.
    Done,
    /// Nothing is kept under the old name.
    Unknown,
    /// The new name is somebody else's, or something is kept under it.
    Taken,
}

/// What both stores refuse.
pub(crate) fn check_user(user: &User) -> Result<(), StoreError> {
    if let Some(name) = &user.display_name {
        bounds::text("display name", name, MAX_ACCOUNT_TEXT_BYTES)?;
    }
    if let Some(foreign) = &user.foreign {
        bounds::name("issuer", &foreign.issuer)?;
        bounds::name("subject", &foreign.subject)?;
    }
    user.password.as_ref().map_or(Ok(()), check_hash)
}

pub(crate) fn check_hash(hash: &Secret) -> Result<(), StoreError> {
    bounds::name("password hash", hash.expose())
}

pub(crate) fn check_key(key: &ApiKey) -> Result<(), StoreError> {
    bounds::text("key id", &key.id, MAX_ACCOUNT_TEXT_BYTES)?;
    bounds::text("key name", &key.name, MAX_ACCOUNT_TEXT_BYTES)
}

pub(crate) fn scopes_text(scopes: &BTreeSet<KeyScope>) -> String {
    scopes.iter().map(|scope| scope.as_str()).collect::<Vec<_>>().join(" ")
}
