//! Accounts for HTTP: users, API keys, browser sessions, and one-time links.

use crate::{StoreError, bounds};
use async_trait::async_trait;
use coracle_types::{Secret, UserId};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::time::SystemTime;

/// The role of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// May also manage the accounts of other users.
    Admin,
    /// May access only their own data.
    User,
}

impl Role {
    /// The role as a string.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::User => "user",
        }
    }
}

/// Why a string is not a role or a scope.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not valid: use {known}")]
pub struct UnknownWord {
    text: String,
    known: &'static str,
}

impl FromStr for Role {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        let known = [Self::Admin, Self::User].into_iter().find(|role| role.as_str() == text);
        known.ok_or_else(|| UnknownWord { text: text.chars().take(64).collect(), known: "admin or user" })
    }
}

/// A permission of an API key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KeyScope {
    /// Use of `/mcp`.
    Mcp,
    /// Use of `/api`, except for routes that require an admin.
    Api,
    /// Use of routes that require an admin, if the key's owner is one.
    Admin,
    /// Use of `/metrics`.
    Metrics,
    /// Answering questions whether a tool may be called, which is otherwise a person's act. Keys do not have it by
    /// default.
    Approve,
}

impl KeyScope {
    /// All scopes.
    pub const ALL: [Self; 5] = [Self::Mcp, Self::Api, Self::Admin, Self::Metrics, Self::Approve];

    /// The scope as a string.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Mcp => "mcp",
            Self::Api => "api",
            Self::Admin => "admin",
            Self::Metrics => "metrics",
            Self::Approve => "approve",
        }
    }
}

impl FromStr for KeyScope {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        let known = Self::ALL.into_iter().find(|scope| scope.as_str() == text);
        let known_words = "mcp, api, admin, metrics or approve";
        known.ok_or_else(|| UnknownWord { text: text.chars().take(64).collect(), known: known_words })
    }
}

/// The digest of a token, which can verify the token but does not reveal it.
///
/// Tokens have 256 random bits, so a plain SHA-256 is enough. Passwords need more.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TokenDigest(String);

impl TokenDigest {
    /// The digest of this token.
    pub fn of(token: &str) -> Self {
        Self(hex::encode(Sha256::digest(token.as_bytes())))
    }

    /// The digest in hexadecimal.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn from_row(text: String) -> Self {
        Self(text)
    }
}

/// The identity of a user at an OpenID provider.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ForeignIdentity {
    /// The provider.
    pub issuer: String,
    /// The subject: unique at the provider, and never reassigned.
    pub subject: String,
}

/// A user account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The name to sign in with, which is also the name of the workspace.
    pub id: UserId,
    /// The name to display.
    pub display_name: Option<String>,
    /// The role.
    pub role: Role,
    /// The argon2id hash of the password, if there is one.
    pub password: Option<Secret>,
    /// A disabled user cannot sign in by any means.
    pub disabled: bool,
    /// When the account was added.
    pub created_at: SystemTime,
    /// When the user last made a request, to within about a minute.
    pub last_seen: Option<SystemTime>,
    /// The identity at an OpenID provider.
    pub foreign: Option<ForeignIdentity>,
}

impl User {
    /// Creates an account without a password.
    pub fn new(id: UserId, role: Role, created_at: SystemTime) -> Self {
        let (display_name, password, last_seen, foreign) = (None, None, None, None);
        Self { id, display_name, role, password, disabled: false, created_at, last_seen, foreign }
    }
}

/// An API key, for programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKey {
    /// The ID in lists, which is not secret.
    pub id: String,
    /// The digest of the key.
    pub digest: TokenDigest,
    /// The owner, as whom the key acts.
    pub user: UserId,
    /// The name that the owner gave it.
    pub name: String,
    /// The scopes.
    pub scopes: BTreeSet<KeyScope>,
    /// When the key was created.
    pub created_at: SystemTime,
    /// When the key expires.
    pub expires_at: Option<SystemTime>,
    /// When the key was last used, to within about a minute.
    pub last_used: Option<SystemTime>,
    /// When the key was revoked.
    pub revoked_at: Option<SystemTime>,
    /// The ID of the key that created this one, if any. Revoking that key also revokes this one.
    pub made_by: Option<String>,
}

/// A browser session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrowserSession {
    /// The digest of the token in the cookie.
    pub digest: TokenDigest,
    /// The user who is signed in.
    pub user: UserId,
    /// When the session began.
    pub created_at: SystemTime,
    /// When the session expires.
    pub expires_at: SystemTime,
    /// When the session was last used, to within about a minute.
    pub last_seen: SystemTime,
    /// Whether the user signed in with a one-time link, and so may set a password without knowing the previous one.
    pub by_link: bool,
}

/// A one-time sign-in link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignInLink {
    /// The digest of the token in the link.
    pub digest: TokenDigest,
    /// The user whom the link signs in.
    pub user: UserId,
    /// When the link expires.
    pub expires_at: SystemTime,
}

/// The maximum length of the display name of a user, and of the name of a key.
pub const MAX_ACCOUNT_TEXT_BYTES: usize = 256;

/// The part of a store that holds accounts. Its contract is that of [`crate::Store`], and:
/// - a link signs in once, even if it is used several times at once;
/// - a user who is disabled or gets another password has no sessions and no links afterwards;
/// - adding something for a user who does not exist returns `false`.
#[async_trait]
pub trait Accounts: Send + Sync + fmt::Debug {
    /// Adds a user. Returns false if the name or the foreign identity is already taken.
    async fn add_user(&self, user: &User) -> Result<bool, StoreError>;

    /// The user with this name.
    async fn user(&self, id: &UserId) -> Result<Option<User>, StoreError>;

    /// The user with this identity at an OpenID provider.
    async fn user_of(&self, foreign: &ForeignIdentity) -> Result<Option<User>, StoreError>;

    /// All users, by name.
    async fn users(&self) -> Result<Vec<User>, StoreError>;

    /// Whether there are any users, including disabled ones.
    async fn has_users(&self) -> Result<bool, StoreError>;

    /// Whether there is any data under this name besides an account: executions, sessions, artifacts, decisions,
    /// approvals, conversations, runs, secrets.
    async fn has_data(&self, id: &UserId) -> Result<bool, StoreError>;

    /// Renames a user with their data, and ends their browser sessions and links. The new name must be free. If the old
    /// name has no account, the new one may have an account without data.
    async fn rename_user(&self, from: &UserId, to: &UserId, belongings: Belongings) -> Result<Renamed, StoreError>;

    /// Sets or removes a password (its hash), and ends the user's browser sessions and links. Returns whether there is
    /// such a user.
    async fn set_password(&self, id: &UserId, hash: Option<&Secret>) -> Result<bool, StoreError>;

    /// Disables a user, which ends their browser sessions and links, or enables them. Returns whether there is such a
    /// user.
    async fn set_disabled(&self, id: &UserId, disabled: bool) -> Result<bool, StoreError>;

    /// Changes the role of a user. Returns whether there is such a user.
    async fn set_role(&self, id: &UserId, role: Role) -> Result<bool, StoreError>;

    /// Notes that a user has made a request.
    async fn user_seen(&self, id: &UserId, at: SystemTime) -> Result<(), StoreError>;

    /// Adds a key. Returns false if its owner does not exist, its ID or digest is already used, or the key that created
    /// it belongs to another user or is revoked.
    async fn add_key(&self, key: &ApiKey) -> Result<bool, StoreError>;

    /// The key with this digest, whether it is valid or not.
    async fn key(&self, digest: &TokenDigest) -> Result<Option<ApiKey>, StoreError>;

    /// The keys of a user, oldest first, including those that are no longer valid.
    async fn keys(&self, user: &UserId) -> Result<Vec<ApiKey>, StoreError>;

    /// Revokes a key permanently, and all keys that it has created. If a user is given, only a key of that user.
    /// Returns whether there was one to revoke.
    async fn revoke_key(&self, user: Option<&UserId>, id: &str, at: SystemTime) -> Result<bool, StoreError>;

    /// Notes that a key was used.
    async fn key_used(&self, digest: &TokenDigest, at: SystemTime) -> Result<(), StoreError>;

    /// Adds a session. Returns false if its owner does not exist or is disabled.
    async fn add_browser_session(&self, session: &BrowserSession) -> Result<bool, StoreError>;

    /// The session with this digest, whether it has expired or not.
    async fn browser_session(&self, digest: &TokenDigest) -> Result<Option<BrowserSession>, StoreError>;

    /// Notes that a session was used.
    async fn browser_session_seen(&self, digest: &TokenDigest, at: SystemTime) -> Result<(), StoreError>;

    /// Ends a session. Returns whether there was one.
    async fn end_browser_session(&self, digest: &TokenDigest) -> Result<bool, StoreError>;

    /// Adds a link. Returns false if its owner does not exist or is disabled.
    async fn add_link(&self, link: &SignInLink) -> Result<bool, StoreError>;

    /// Uses up a link. Returns its user, but only once, and only if the link has not expired.
    async fn use_link(&self, digest: &TokenDigest, now: SystemTime) -> Result<Option<UserId>, StoreError>;

    /// Removes sessions and links that have expired.
    async fn forget_expired(&self, now: SystemTime) -> Result<(), StoreError>;
}

/// The data that moves when a user is renamed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Belongings {
    /// All data.
    All,
    /// All data except secrets, such as sign-ins to servers.
    WithoutSecrets,
}

/// The result of renaming a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renamed {
    /// The user was renamed.
    Done,
    /// The old name has no data.
    Unknown,
    /// The new name has an account or data.
    Taken,
}

/// Checks a user. Both stores reject the same values.
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
