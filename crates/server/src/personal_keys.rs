//! API keys of model providers that belong to single users. They are stored encrypted, as one secret of the user.

use crate::agent::AgentOptions;
use coracle_accounts::{People, is_local_user};
use coracle_models::{Directory, DirectoryError};
use coracle_store::{Owner, StoreError};
use coracle_types::{Secret, UserId};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The name of the secret.
const SECRET: &str = "provider_keys";
/// Maximum length of a key in bytes.
pub(crate) const MAX_KEY_BYTES: usize = 4 << 10;
/// Maximum number of users whose clients are kept ready.
const MAX_READY: usize = 1_000;

/// The users' keys, and clients that use them.
#[derive(Default)]
pub(crate) struct PersonalKeys {
    /// Clients that were made before, with their keys.
    ready: Mutex<HashMap<UserId, OwnModels>>,
    /// Changes are made one at a time, because all keys of a user are one secret.
    changing: tokio::sync::Mutex<()>,
}

/// Why keys cannot be used or changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeysError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A key is not valid.
    #[error("{0}")]
    Invalid(#[from] DirectoryError),
    /// The stored keys cannot be parsed.
    #[error("the stored keys of providers are damaged: {0}")]
    Damaged(serde_json::Error),
}

/// Names of the providers that the person who runs a server without users has set keys for on its page.
pub async fn local_providers(agent: &AgentOptions, people: &People) -> Vec<String> {
    let keys = PersonalKeys::default().keys(people, &UserId::local()).await;
    let keys = keys.inspect_err(|error| tracing::warn!(%error, "cannot read the keys of the local user"));
    let known = agent.models.keyed();
    keys.unwrap_or_default().into_keys().filter(|name| known.contains(name.as_str())).collect()
}

/// The models of one user.
#[derive(Clone)]
pub(crate) struct OwnModels {
    directory: Arc<Directory>,
    keys: BTreeMap<String, Secret>,
}

impl OwnModels {
    pub(crate) fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Whether the user's own key is used for this provider.
    pub(crate) fn has_key(&self, provider: &str) -> bool {
        self.keys.contains_key(provider)
    }
}

impl PersonalKeys {
    fn ready(&self) -> MutexGuard<'_, HashMap<UserId, OwnModels>> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The models of a user: those of the operator, and those that the user has a key for.
    pub(crate) async fn directory(
        &self,
        agent: &AgentOptions,
        people: &People,
        user: &UserId,
    ) -> Result<OwnModels, KeysError> {
        // The local user of a server without users is the operator.
        let may_have_keys = agent.allows_personal_keys || is_local_user(user);
        let keys = if may_have_keys { self.keys(people, user).await? } else { BTreeMap::new() };
        if keys.is_empty() {
            return Ok(OwnModels { directory: Arc::clone(&agent.models), keys });
        }
        if let Some(ready) = self.ready().get(user).filter(|ready| ready.keys == keys) {
            return Ok(ready.clone());
        }
        let own = OwnModels { directory: Arc::new(agent.models.with_keys(&keys)?), keys };
        let mut ready = self.ready();
        if ready.len() >= MAX_READY {
            ready.clear();
        }
        ready.insert(user.clone(), own.clone());
        Ok(own)
    }

    /// The keys of a user, by provider.
    pub(crate) async fn keys(&self, people: &People, user: &UserId) -> Result<BTreeMap<String, Secret>, KeysError> {
        match people.store().secret(&Owner::User(user.clone()), SECRET).await? {
            None => Ok(BTreeMap::new()),
            Some(text) => {
                let keys: BTreeMap<String, String> = serde_json::from_str(text.expose()).map_err(KeysError::Damaged)?;
                Ok(keys.into_iter().map(|(name, key)| (name, Secret::new(key))).collect())
            }
        }
    }

    /// Sets or deletes a key of a user. Returns whether there was one before.
    pub(crate) async fn change(
        &self,
        agent: &AgentOptions,
        people: &People,
        user: &UserId,
        provider: &str,
        key: Option<Secret>,
    ) -> Result<bool, KeysError> {
        let _changing = self.changing.lock().await;
        let mut keys = self.keys(people, user).await?;
        let had_one = match key {
            Some(key) => {
                // A key that cannot be sent is rejected now.
                agent.models.with_keys(&BTreeMap::from([(provider.to_owned(), key.clone())]))?;
                keys.insert(provider.to_owned(), key).is_some()
            }
            None => keys.remove(provider).is_some(),
        };
        let owner = Owner::User(user.clone());
        if keys.is_empty() {
            people.store().delete_secret(&owner, SECRET).await?;
        } else {
            let plain: BTreeMap<&str, &str> = keys.iter().map(|(name, key)| (name.as_str(), key.expose())).collect();
            let text = serde_json::to_string(&plain).map_err(KeysError::Damaged)?;
            people.store().put_secret(&owner, SECRET, &Secret::new(text)).await?;
        }
        self.ready().remove(user);
        Ok(had_one)
    }
}
