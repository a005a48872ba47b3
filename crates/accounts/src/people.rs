use crate::attempts::{Attempts, TooMany};
use crate::credentials::{KEY_PREFIX, is_good, random_token};
use crate::error::{AccountError, SignInError};
use crate::names::{foreign_names, is_local_user, user_name};
use crate::passwords::{MAX_PASSWORD_BYTES, MIN_PASSWORD_CHARS, Passwords};
use crate::trail::Trail;
use coracle_audit::{AccountChange, AuditLog, Event, SignInMethod};
use coracle_store::{
    ApiKey, Belongings, BrowserSession, ForeignIdentity, KeyScope, Renamed, Role, SignInLink, Store, TokenDigest, User,
};
use coracle_types::{Secret, UserId};
use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Lifetime of a sign-in link.
pub const LINK_LIFETIME: Duration = Duration::from_hours(24);
/// Minimum interval between two updates of a time of last use.
const NOTED_EACH: Duration = Duration::from_mins(1);
/// Maximum number of valid keys per user.
const MAX_KEYS: usize = 100;

/// Credential that a key is created with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyMaker {
    /// A signed-in user, or the operator. The key is valid as long as its owner's account.
    Person,
    /// Another key. The new key is revoked with it.
    Key {
        /// ID of the other key.
        id: String,
        /// Expiry time of the other key, if any.
        expires_at: Option<SystemTime>,
    },
    /// An access token of the OpenID provider.
    Token {
        /// Expiry time of the token.
        expires_at: SystemTime,
    },
}

/// All user accounts.
#[derive(Clone)]
pub struct People {
    store: Arc<dyn Store>,
    /// Folder of the users' workspaces, if known.
    workspaces: Option<Arc<Path>>,
    passwords: Arc<Passwords>,
    attempts: Arc<Attempts>,
    trail: Trail,
}

impl fmt::Debug for People {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("People").finish_non_exhaustive()
    }
}

impl People {
    /// Accounts in this store.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, workspaces: None, passwords: Arc::default(), attempts: Arc::default(), trail: Trail::default() }
    }

    /// Sets the folder of the users' workspaces.
    #[must_use]
    pub fn with_workspaces(self, workspaces: &Path) -> Self {
        Self { workspaces: Some(workspaces.into()), ..self }
    }

    /// Records sign-ins and changes in an audit log.
    #[must_use]
    pub fn with_audit(self, log: Arc<dyn AuditLog>) -> Self {
        Self { trail: self.trail.with_log(log), ..self }
    }

    /// The same accounts, for a person whose changes are recorded as theirs. Without this, they are the operator's.
    #[must_use]
    pub fn by(&self, user: &UserId) -> Self {
        Self { trail: self.trail.by(user), ..self.clone() }
    }

    /// The audit log, if there is one.
    pub fn audit_log(&self) -> Option<&Arc<dyn AuditLog>> {
        self.trail.log()
    }

    /// Records a change before it is made. If this fails, it must not be made.
    pub async fn record(&self, event: Event) -> Result<(), AccountError> {
        self.trail.before(event).await
    }

    /// Records that an account was deleted with everything that belongs to it.
    pub fn record_removal(&self, name: &UserId) {
        self.trail.after_account(name, AccountChange::Removed);
    }

    /// Records that the vault of a user is going to be encrypted with another key.
    pub async fn record_rotated_vault(&self, name: &UserId) -> Result<(), AccountError> {
        self.trail.before_account(name, AccountChange::VaultRotated).await
    }

    /// Records that the vault of a user is going to be deleted.
    pub async fn record_deleted_vault(&self, name: &UserId) -> Result<(), AccountError> {
        self.trail.before_account(name, AccountChange::VaultDeleted).await
    }

    /// Records that somebody signed in in a way that this crate does not know.
    pub fn record_sign_in(&self, user: &UserId, method: SignInMethod, from: Option<IpAddr>) {
        self.trail.signed_in(user, method, from);
    }

    /// Records that somebody could not sign in in a way that this crate does not know.
    pub fn record_failed_sign_in(&self, method: SignInMethod, from: Option<IpAddr>, reason: &'static str) {
        self.trail.sign_in_failed(None, method, from, reason);
    }

    /// Whether a workspace or anything in the store belongs to this name.
    async fn has_data(&self, name: &UserId) -> Result<bool, AccountError> {
        let folder = self.workspaces.as_ref().map(|workspaces| workspaces.join(name.as_str()));
        let has_folder = folder.is_some_and(|folder| folder.symlink_metadata().is_ok());
        Ok(has_folder || self.store.has_data(name).await?)
    }

    /// Renames a user, with everything in the store. The caller moves the workspace. Data of the local user may include
    /// credentials of the operator, which stay behind.
    pub async fn rename(&self, from: &UserId, to: &UserId) -> Result<(), AccountError> {
        self.trail.before_account(from, AccountChange::Renamed).await?;
        self.trail.before_account(to, AccountChange::RenamedTo).await?;
        let belongings = if is_local_user(from) { Belongings::WithoutSecrets } else { Belongings::All };
        match self.store.rename_user(from, to, belongings).await? {
            Renamed::Done => Ok(()),
            Renamed::Unknown => Err(AccountError::Unknown(from.clone())),
            Renamed::Taken => Err(AccountError::Taken(to.clone())),
        }
    }

    /// The store of the accounts.
    pub fn shared_store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store)
    }

    /// The store.
    pub fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// Adds a user, with a password if there is one.
    pub async fn add(&self, mut user: User, password: Option<&Secret>) -> Result<User, AccountError> {
        if let Some(password) = password {
            user.password = Some(self.hash(password).await?);
        }
        if self.store.user(&user.id).await?.is_some() {
            return Err(AccountError::Taken(user.id));
        }
        self.record_new(&user).await?;
        if self.store.add_user(&user).await? { Ok(user) } else { Err(AccountError::Taken(user.id)) }
    }

    async fn record_new(&self, user: &User) -> Result<(), AccountError> {
        self.trail.before_account(&user.id, AccountChange::Added).await?;
        if user.role == Role::Admin {
            self.trail.before_account(&user.id, AccountChange::Admin).await?;
        }
        Ok(())
    }

    /// Adds a user of an OpenID provider under a free name.
    pub async fn add_foreign(
        &self,
        wanted: &str,
        display_name: Option<String>,
        foreign: ForeignIdentity,
    ) -> Result<User, AccountError> {
        let digest = TokenDigest::of(&format!("{}\n{}", foreign.issuer, foreign.subject));
        // A name is never shared with an existing user, because a name from the provider does not prove who somebody is
        // here. A name without an account may also have data, if a proxy has used it.
        for name in foreign_names(wanted, &digest) {
            if self.has_data(&name).await? {
                continue;
            }
            let (foreign, display_name) = (Some(foreign.clone()), display_name.clone());
            let user = User { display_name, foreign, ..User::new(name, Role::User, SystemTime::now()) };
            self.record_new(&user).await?;
            if self.store.add_user(&user).await? {
                return Ok(user);
            }
        }
        // Another request may have added the same user in the meantime.
        self.store
            .user_of(&foreign)
            .await?
            .ok_or_else(|| AccountError::Machine("cannot find a free user name".to_owned()))
    }

    /// All users, sorted by name.
    pub async fn all(&self) -> Result<Vec<User>, AccountError> {
        Ok(self.store.users().await?)
    }

    /// Whether there are any users.
    pub async fn are_any(&self) -> Result<bool, AccountError> {
        Ok(self.store.has_users().await?)
    }

    /// Finds a user.
    pub async fn find(&self, name: &UserId) -> Result<User, AccountError> {
        self.store.user(name).await?.ok_or_else(|| AccountError::Unknown(name.clone()))
    }

    /// Sets a password and ends all sessions of the user.
    pub async fn set_password(&self, name: &UserId, password: &Secret) -> Result<(), AccountError> {
        let hash = self.hash(password).await?;
        self.find(name).await?;
        self.trail.before_account(name, AccountChange::Password).await?;
        changed(name, self.store.set_password(name, Some(&hash)).await?)
    }

    /// Disables or enables a user.
    pub async fn set_disabled(&self, name: &UserId, disabled: bool) -> Result<(), AccountError> {
        if !disabled {
            self.find(name).await?;
            self.trail.before_account(name, AccountChange::Enabled).await?;
        }
        changed(name, self.store.set_disabled(name, disabled).await?)?;
        if disabled {
            self.trail.after_account(name, AccountChange::Disabled);
        }
        Ok(())
    }

    /// Deletes a user and all of their data in the store.
    pub async fn remove(&self, name: &UserId) -> Result<(), AccountError> {
        changed(name, self.store.delete_user(name).await?)?;
        self.record_removal(name);
        Ok(())
    }

    /// Changes the role of a user.
    pub async fn set_role(&self, name: &UserId, role: Role) -> Result<(), AccountError> {
        self.find(name).await?;
        let change = if role == Role::Admin { AccountChange::Admin } else { AccountChange::User };
        self.trail.before_account(name, change).await?;
        changed(name, self.store.set_role(name, role).await?)
    }

    async fn hash(&self, password: &Secret) -> Result<Secret, AccountError> {
        if password.expose().chars().count() < MIN_PASSWORD_CHARS {
            return Err(AccountError::ShortPassword);
        }
        if password.expose().len() > MAX_PASSWORD_BYTES {
            return Err(AccountError::LongPassword);
        }
        self.passwords.hash(password.clone()).await.map_err(AccountError::Machine)
    }

    /// Creates a one-time sign-in link and returns its token.
    pub async fn link(&self, name: &UserId) -> Result<Secret, AccountError> {
        let user = self.find(name).await?;
        self.trail.before_account(&user.id, AccountChange::Link).await?;
        let token = random_token()?;
        let digest = TokenDigest::of(token.expose());
        let link = SignInLink { digest, user: user.id.clone(), expires_at: SystemTime::now() + LINK_LIFETIME };
        if self.store.add_link(&link).await? { Ok(token) } else { Err(AccountError::Disabled(user.id)) }
    }

    /// Creates a key and returns it with its secret, which is not stored. The key expires no later than the credential
    /// that it was created with.
    pub async fn add_key(
        &self,
        owner: &UserId,
        name: &str,
        scopes: BTreeSet<KeyScope>,
        lifetime: Option<Duration>,
        maker: KeyMaker,
    ) -> Result<(ApiKey, Secret), AccountError> {
        let owner = self.find(owner).await?;
        if scopes.is_empty() {
            return Err(AccountError::Key("a key needs at least one scope".to_owned()));
        }
        if scopes.contains(&KeyScope::Admin) && owner.role != Role::Admin {
            return Err(AccountError::Key(format!(
                "{} is not an admin: their keys cannot have the scope admin",
                owner.id
            )));
        }
        let now = SystemTime::now();
        let good = self.store.keys(&owner.id).await?.iter().filter(|key| is_good(key, now)).count();
        if good >= MAX_KEYS {
            return Err(AccountError::Key(format!("{} has {good} keys: revoke some first", owner.id)));
        }
        let expires_at = match lifetime {
            None => None,
            Some(lifetime) => {
                let later = now.checked_add(lifetime);
                Some(later.ok_or_else(|| AccountError::Key("the lifetime of the key is too long".to_owned()))?)
            }
        };
        let (made_by, latest) = match maker {
            KeyMaker::Person => (None, None),
            KeyMaker::Key { id, expires_at } => (Some(id), expires_at),
            KeyMaker::Token { expires_at } => (None, Some(expires_at)),
        };
        let expires_at = expires_at.into_iter().chain(latest).min();
        let secret = Secret::new(format!("{KEY_PREFIX}{}", random_token()?.expose()));
        let digest = TokenDigest::of(secret.expose());
        let key = ApiKey {
            id: format!("key-{}", &digest.as_str()[..12]),
            digest,
            user: owner.id,
            name: name.trim().to_owned(),
            scopes,
            created_at: now,
            expires_at,
            last_used: None,
            revoked_at: None,
            made_by,
        };
        self.trail.before_key(&key.id, &key.user).await?;
        if self.store.add_key(&key).await? {
            return Ok((key, secret));
        }
        Err(match &key.made_by {
            Some(maker) => AccountError::Key(format!("cannot create a key with {maker}, because it is revoked")),
            None => AccountError::Unknown(key.user),
        })
    }

    /// Keys of a user, including revoked and expired ones.
    pub async fn keys(&self, owner: &UserId) -> Result<Vec<ApiKey>, AccountError> {
        Ok(self.store.keys(owner).await?)
    }

    /// Revokes a key, if it belongs to `owner` or `owner` is `None`. Returns whether there was such a key.
    pub async fn revoke_key(&self, owner: Option<&UserId>, id: &str) -> Result<bool, AccountError> {
        let is_revoked = self.store.revoke_key(owner, id, SystemTime::now()).await?;
        if is_revoked {
            self.trail.after_key(id, owner);
        }
        Ok(is_revoked)
    }

    /// Authenticates a user by name and password. Takes equally long for unknown users.
    pub async fn by_password(&self, name: &str, password: &Secret, from: IpAddr) -> Result<User, SignInError> {
        let method = SignInMethod::Password;
        let attempt = self.attempts.begin(name, from).map_err(|TooMany(wait)| {
            self.trail.sign_in_failed(None, method, Some(from), "too_many");
            SignInError::TooMany(wait)
        })?;
        let user = match user_name(name) {
            Ok(name) => self.store.user(&name).await.map_err(AccountError::from)?,
            Err(_) => None,
        };
        let known = user.as_ref().map(|user| user.id.clone());
        let hash = user.as_ref().and_then(|user| user.password.clone());
        let is_right = if password.expose().len() <= MAX_PASSWORD_BYTES {
            self.passwords.verify(password.clone(), hash).await.map_err(|_| SignInError::Busy)?
        } else {
            false
        };
        if let Some(user) = user.filter(|user| is_right && may_sign_in(user)) {
            attempt.succeeded();
            self.trail.signed_in(&user.id, method, Some(from));
            Ok(user)
        } else {
            self.trail.sign_in_failed(known.as_ref(), method, Some(from), "wrong");
            Err(SignInError::Wrong)
        }
    }

    /// Authenticates a user by a sign-in link, which cannot be used again.
    pub async fn by_link(&self, token: &str, from: IpAddr) -> Result<User, SignInError> {
        let method = SignInMethod::Link;
        let failed = |reason| self.trail.sign_in_failed(None, method, Some(from), reason);
        let attempt = self.attempts.begin("", from).map_err(|TooMany(wait)| {
            failed("too_many");
            SignInError::TooMany(wait)
        })?;
        let digest = TokenDigest::of(token);
        let name = self.store.use_link(&digest, SystemTime::now()).await.map_err(AccountError::from)?;
        let user = match name {
            Some(name) => self.store.user(&name).await.map_err(AccountError::from)?,
            None => None,
        };
        let Some(user) = user.filter(may_sign_in) else {
            failed("wrong");
            return Err(SignInError::Wrong);
        };
        attempt.succeeded();
        self.trail.signed_in(&user.id, method, Some(from));
        Ok(user)
    }

    /// Starts a browser session and returns the value of its cookie. The value is always new, never one sent by the
    /// client.
    pub async fn begin_session(
        &self,
        user: &UserId,
        lifetime: Duration,
        by_link: bool,
    ) -> Result<Secret, AccountError> {
        let now = SystemTime::now();
        self.store.forget_expired(now).await?;
        let token = random_token()?;
        let session = BrowserSession {
            digest: TokenDigest::of(token.expose()),
            user: user.clone(),
            created_at: now,
            expires_at: now + lifetime,
            last_seen: now,
            by_link,
        };
        if !self.store.add_browser_session(&session).await? {
            return Err(AccountError::Disabled(user.clone()));
        }
        self.store.user_seen(user, now).await?;
        Ok(token)
    }

    /// Ends a browser session.
    pub async fn end_session(&self, token: &str) -> Result<(), AccountError> {
        self.store.end_browser_session(&TokenDigest::of(token)).await?;
        Ok(())
    }

    /// Finds the user of a session cookie.
    pub async fn by_session(&self, token: &str) -> Result<Option<(User, BrowserSession)>, AccountError> {
        let Some(session) = self.store.browser_session(&TokenDigest::of(token)).await? else { return Ok(None) };
        let now = SystemTime::now();
        if session.expires_at <= now {
            return Ok(None);
        }
        let Some(user) = self.store.user(&session.user).await?.filter(may_sign_in) else { return Ok(None) };
        if is_news(Some(session.last_seen), now) {
            self.store.browser_session_seen(&session.digest, now).await?;
        }
        self.note(&user, now).await?;
        Ok(Some((user, session)))
    }

    /// Finds the user of a key, if the key is valid.
    pub async fn by_key(&self, token: &str) -> Result<Option<(User, ApiKey)>, AccountError> {
        let method = SignInMethod::Key;
        let Some(key) = self.store.key(&TokenDigest::of(token)).await? else {
            self.trail.sign_in_failed(None, method, None, "unknown");
            return Ok(None);
        };
        let now = SystemTime::now();
        if !is_good(&key, now) {
            self.trail.sign_in_failed(Some(&key.user), method, None, "expired_or_revoked");
            return Ok(None);
        }
        let Some(user) = self.store.user(&key.user).await?.filter(may_sign_in) else {
            self.trail.sign_in_failed(Some(&key.user), method, None, "disabled");
            return Ok(None);
        };
        if is_news(key.last_used, now) {
            self.trail.signed_in(&user.id, method, None);
            self.store.key_used(&key.digest, now).await?;
        }
        self.note(&user, now).await?;
        Ok(Some((user, key)))
    }

    /// Updates the time when the user was last seen.
    pub async fn note(&self, user: &User, now: SystemTime) -> Result<(), AccountError> {
        if is_news(user.last_seen, now) {
            self.store.user_seen(&user.id, now).await?;
        }
        Ok(())
    }
}

/// Whether a user may sign in at all. An account with the name of the local user may not, because its workspace would
/// be the operator's.
pub fn may_sign_in(user: &User) -> bool {
    if is_local_user(&user.id) {
        tracing::warn!("user {0} cannot sign in: the name is reserved. Run `coracle users rename {0} NAME`", user.id);
    }
    !user.disabled && !is_local_user(&user.id)
}

fn changed(name: &UserId, changed: bool) -> Result<(), AccountError> {
    if changed { Ok(()) } else { Err(AccountError::Unknown(name.clone())) }
}

fn is_news(last: Option<SystemTime>, now: SystemTime) -> bool {
    // A clock that was set back must not suppress updates for long.
    last.is_none_or(|last| now.duration_since(last).map_or(true, |since| since >= NOTED_EACH))
}
