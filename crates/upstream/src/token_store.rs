use crate::status::Owner;
use async_trait::async_trait;
use coracle_types::{Secret, ServerName};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Why a sign-in could not be kept or found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("sign-ins cannot be kept: {0}")]
pub struct TokenStoreError(pub String);

/// Keeps sign-ins between runs. What is kept is one opaque text per owner and server; it is a credential, so an
/// implementation encrypts it at rest and prints it nowhere. What was saved is what is loaded next, by anyone.
#[async_trait]
pub trait TokenStore: Send + Sync {
    /// What was saved last, if anything.
    async fn load(&self, owner: &Owner, server: &ServerName) -> Result<Option<Secret>, TokenStoreError>;

    /// Replaces what was saved.
    async fn save(&self, owner: &Owner, server: &ServerName, tokens: Secret) -> Result<(), TokenStoreError>;

    /// Forgets; it is no error if there is nothing.
    async fn delete(&self, owner: &Owner, server: &ServerName) -> Result<(), TokenStoreError>;
}

/// Keeps sign-ins for as long as it lives.
#[derive(Debug, Default)]
pub struct MemoryTokens(Mutex<HashMap<(Owner, ServerName), Secret>>);

#[async_trait]
impl TokenStore for MemoryTokens {
    async fn load(&self, owner: &Owner, server: &ServerName) -> Result<Option<Secret>, TokenStoreError> {
        let tokens = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(tokens.get(&(owner.clone(), server.clone())).cloned())
    }

    async fn save(&self, owner: &Owner, server: &ServerName, tokens: Secret) -> Result<(), TokenStoreError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert((owner.clone(), server.clone()), tokens);
        Ok(())
    }

    async fn delete(&self, owner: &Owner, server: &ServerName) -> Result<(), TokenStoreError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&(owner.clone(), server.clone()));
        Ok(())
    }
}
