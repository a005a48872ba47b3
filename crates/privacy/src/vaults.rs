//! The vaults of all users.

use crate::vault::{UserVault, today};
use crate::{Detector, PrivacyError};
use coracle_store::Store;
use coracle_types::UserId;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};
use tokio::sync::OnceCell;

/// The maximum number of users whose vaults are in memory.
const MAX_OPEN: usize = 64;

/// The vaults of all users. A vault is opened with its first use, and some are held in memory.
pub struct Vaults {
    store: Arc<dyn Store>,
    detector: Arc<Detector>,
    keep: Option<Duration>,
    open: Mutex<HashMap<UserId, Slot>>,
    uses: AtomicU64,
    /// The day on which old values were last deleted.
    cleaned: AtomicU64,
}

#[derive(Default)]
struct Slot {
    vault: Arc<OnceCell<Arc<UserVault>>>,
    used: u64,
}

impl fmt::Debug for Vaults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vaults").field("keep", &self.keep).finish_non_exhaustive()
    }
}

impl Vaults {
    /// Vaults in a store. Values are kept for this time after their last use, or without a limit.
    pub fn new(store: Arc<dyn Store>, detector: Detector, keep: Option<Duration>) -> Self {
        Self {
            store,
            detector: Arc::new(detector),
            keep,
            open: Mutex::default(),
            uses: AtomicU64::new(0),
            cleaned: AtomicU64::new(0),
        }
    }

    fn open(&self) -> MutexGuard<'_, HashMap<UserId, Slot>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What finds personal data.
    pub fn detector(&self) -> &Detector {
        &self.detector
    }

    /// The vault of a user.
    pub async fn of(&self, user: &UserId) -> Result<Arc<UserVault>, PrivacyError> {
        let vault = self.opened(user).await?;
        if vault.is_current().await? {
            return Ok(vault);
        }
        self.forget(user);
        self.opened(user).await
    }

    async fn opened(&self, user: &UserId) -> Result<Arc<UserVault>, PrivacyError> {
        let slot = {
            let mut open = self.open();
            let slot = open.entry(user.clone()).or_default();
            slot.used = self.uses.fetch_add(1, Ordering::Relaxed);
            let vault = Arc::clone(&slot.vault);
            if open.len() > MAX_OPEN
                && let Some(oldest) = open.iter().min_by_key(|(_, slot)| slot.used).map(|(user, _)| user.clone())
            {
                open.remove(&oldest);
            }
            vault
        };
        self.clean().await?;
        let opening = || async {
            let (store, detector) = (Arc::clone(&self.store), Arc::clone(&self.detector));
            UserVault::open(user.clone(), store, detector, self.keep).await.map(Arc::new)
        };
        slot.get_or_try_init(opening).await.map(Arc::clone)
    }

    /// Deletes old values of all users, once a day.
    async fn clean(&self) -> Result<(), PrivacyError> {
        let Some(keep) = self.keep else { return Ok(()) };
        let today = today();
        if self.cleaned.swap(today, Ordering::Relaxed) != today
            && let Some(before) = SystemTime::now().checked_sub(keep)
        {
            self.store.forget_values(before).await?;
        }
        Ok(())
    }

    /// Forgets what is in memory of a user's vault.
    pub fn forget(&self, user: &UserId) {
        self.open().remove(user);
    }

    /// Encrypts the values of a user with a new key. Tokens stay the same. Returns how many values there are.
    pub async fn rotate(&self, user: &UserId) -> Result<usize, PrivacyError> {
        Ok(self.store.rotate_vault(user).await?)
    }

    /// Deletes the vault of a user. Its tokens can never be restored. Returns whether there was one.
    pub async fn delete(&self, user: &UserId) -> Result<bool, PrivacyError> {
        let deleted = self.store.delete_vault(user).await?;
        self.forget(user);
        Ok(deleted)
    }
}
