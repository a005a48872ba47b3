use super::MemoryStore;
use crate::moment::kept;
use crate::token_vault::{VaultKeys, check};
use crate::{KEPT_VAULT_VALUES, StoreError, TokenVault, VaultValue};
use async_trait::async_trait;
use coracle_types::UserId;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::SystemTime;
use zeroize::Zeroizing;

/// The vaults of users.
pub(super) type Vaults = BTreeMap<UserId, Vault>;

pub(super) struct Vault {
    token_key: Zeroizing<[u8; 32]>,
    values: BTreeMap<String, VaultValue>,
}

impl std::fmt::Debug for Vault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Vault").field("values", &self.values.len()).finish_non_exhaustive()
    }
}

impl Vault {
    fn by_use(&self) -> Vec<VaultValue> {
        let mut values: Vec<_> = self.values.values().cloned().collect();
        values
            .sort_by(|one, other| (Reverse(one.last_used), &one.token).cmp(&(Reverse(other.last_used), &other.token)));
        values
    }
}

#[async_trait]
impl TokenVault for MemoryStore {
    async fn token_key(&self, user: &UserId) -> Result<Zeroizing<[u8; 32]>, StoreError> {
        let keys = VaultKeys::new()?;
        let new = || Vault { token_key: keys.tokens, values: BTreeMap::new() };
        Ok(self.state().vaults.entry(user.clone()).or_insert_with(new).token_key.clone())
    }

    async fn put_values(&self, user: &UserId, values: &[VaultValue]) -> Result<bool, StoreError> {
        check(values)?;
        let mut state = self.state();
        let Some(vault) = state.vaults.get_mut(user) else { return Ok(false) };
        for value in values {
            let last_used = kept(value.last_used);
            match vault.values.get_mut(&value.token) {
                Some(known) => known.last_used = known.last_used.max(last_used),
                None => drop(vault.values.insert(value.token.clone(), VaultValue { last_used, ..value.clone() })),
            }
        }
        if vault.values.len() > KEPT_VAULT_VALUES {
            for old in vault.by_use().split_off(KEPT_VAULT_VALUES) {
                vault.values.remove(&old.token);
            }
        }
        Ok(true)
    }

    async fn values(&self, user: &UserId, tokens: &[String]) -> Result<Vec<VaultValue>, StoreError> {
        let state = self.state();
        let Some(vault) = state.vaults.get(user) else { return Ok(Vec::new()) };
        Ok(tokens.iter().filter_map(|token| vault.values.get(token)).cloned().collect())
    }

    async fn recent_values(&self, user: &UserId, limit: usize) -> Result<Vec<VaultValue>, StoreError> {
        let mut values = self.state().vaults.get(user).map(Vault::by_use).unwrap_or_default();
        values.truncate(limit);
        Ok(values)
    }

    async fn rotate_vault(&self, user: &UserId) -> Result<usize, StoreError> {
        Ok(self.state().vaults.get(user).map_or(0, |vault| vault.values.len()))
    }

    async fn forget_values(&self, before: SystemTime) -> Result<u64, StoreError> {
        let mut forgotten = 0;
        for vault in self.state().vaults.values_mut() {
            let count = vault.values.len();
            vault.values.retain(|_, value| value.last_used >= before);
            forgotten += (count - vault.values.len()) as u64;
        }
        Ok(forgotten)
    }

    async fn delete_vault(&self, user: &UserId) -> Result<bool, StoreError> {
        Ok(self.state().vaults.remove(user).is_some())
    }
}
