//! The vault: the values that tokens such as `[EMAIL_…]` stand for, by user.

use crate::{StoreError, bounds};
use async_trait::async_trait;
use coracle_types::{Secret, UserId};
use std::fmt;
use std::time::SystemTime;
use zeroize::Zeroizing;

/// The number of values that are kept per user. The least recently used ones are deleted.
pub const KEPT_VAULT_VALUES: usize = 200_000;
/// The maximum length of a value.
pub const MAX_VAULT_VALUE_BYTES: usize = 64 << 10;

/// The name of the secret of a user with the keys of the vault: that for tokens, and the data key.
pub(crate) const VAULT_SECRET: &str = "privacy:vault";

/// A token and the value that it stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VaultValue {
    /// The token.
    pub token: String,
    /// The value, as text.
    pub value: Secret,
    /// Whether the value was a number in JSON, and not a string.
    pub is_number: bool,
    /// When the token was last issued.
    pub last_used: SystemTime,
}

/// The part of a store that holds the vaults of users. Its contract is that of [`crate::Store`]. In addition:
/// - what was put is on the disk when [`TokenVault::put_values`] returns;
/// - values are stored only encrypted, with a data key of the user that is itself encrypted with the master key.
#[async_trait]
pub trait TokenVault: Send + Sync + fmt::Debug {
    /// The key that the tokens of a user are computed with. It is created with the vault, if there is none, and never
    /// changes.
    async fn token_key(&self, user: &UserId) -> Result<Zeroizing<[u8; 32]>, StoreError>;

    /// Adds values. A token that exists keeps its value, and the later time. The [`KEPT_VAULT_VALUES`] of the user that
    /// were used last are kept. Returns whether the values were added: not if the user has no vault (any more).
    async fn put_values(&self, user: &UserId, values: &[VaultValue]) -> Result<bool, StoreError>;

    /// The values of those of these tokens that exist.
    async fn values(&self, user: &UserId, tokens: &[String]) -> Result<Vec<VaultValue>, StoreError>;

    /// The values of a user that were used last, the latest first, at most `limit`.
    async fn recent_values(&self, user: &UserId, limit: usize) -> Result<Vec<VaultValue>, StoreError>;

    /// Encrypts the values of a user with a new data key. Tokens stay the same. Returns how many values there are.
    async fn rotate_vault(&self, user: &UserId) -> Result<usize, StoreError>;

    /// Deletes the values of all users that were last used before this time. Returns how many there were.
    async fn forget_values(&self, before: SystemTime) -> Result<u64, StoreError>;

    /// Deletes the vault of a user: its keys, without which copies of the values are useless, and the values. Returns
    /// whether there was one.
    async fn delete_vault(&self, user: &UserId) -> Result<bool, StoreError>;
}

/// Checks values. Both stores reject the same ones.
pub(crate) fn check(values: &[VaultValue]) -> Result<(), StoreError> {
    values.iter().try_for_each(|value| {
        bounds::name("token", &value.token)?;
        bounds::within("value of a token", value.value.expose().len(), MAX_VAULT_VALUE_BYTES)
    })
}

/// The keys of a vault: that for tokens, and the data key.
pub(crate) struct VaultKeys {
    pub(crate) tokens: Zeroizing<[u8; 32]>,
    pub(crate) data: Zeroizing<[u8; 32]>,
}

impl VaultKeys {
    pub(crate) fn new() -> Result<Self, StoreError> {
        Ok(Self { tokens: random()?, data: random()? })
    }

    /// The same, with a new data key.
    pub(crate) fn rotated(&self) -> Result<Self, StoreError> {
        Ok(Self { tokens: self.tokens.clone(), data: random()? })
    }

    pub(crate) fn parse(secret: &Secret) -> Result<Self, StoreError> {
        let mut keys = Self { tokens: Zeroizing::default(), data: Zeroizing::default() };
        let halves = secret.expose().split_once(':');
        let parsed = halves.is_some_and(|(tokens, data)| {
            hex::decode_to_slice(tokens, keys.tokens.as_mut_slice()).is_ok()
                && hex::decode_to_slice(data, keys.data.as_mut_slice()).is_ok()
        });
        let damaged =
            || StoreError::Damaged { what: "vault keys".to_owned(), reason: "they have another form".to_owned() };
        parsed.then_some(keys).ok_or_else(damaged)
    }

    pub(crate) fn to_secret(&self) -> Secret {
        Secret::new(format!("{}:{}", hex::encode(self.tokens.as_slice()), hex::encode(self.data.as_slice())))
    }
}

fn random() -> Result<Zeroizing<[u8; 32]>, StoreError> {
    let mut bytes = Zeroizing::new([0; 32]);
    let failed = |error: getrandom::Error| StoreError::Damaged {
        what: "random number generator".to_owned(),
        reason: error.to_string(),
    };
    getrandom::fill(bytes.as_mut_slice()).map_err(failed)?;
    Ok(bytes)
}
