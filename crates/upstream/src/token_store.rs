use crate::status::Owner;
use async_trait::async_trait;
use coracle_types::{Secret, ServerName};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Why a sign-in cannot be stored or loaded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot access stored sign-ins: {0}")]
pub struct TokenStoreError(pub String);

/// Stores sign-ins between runs, as one opaque text per owner and server. The text is a credential: implementations
/// encrypt it at rest and never print it. A load returns the text that was saved last, by any process.
#[async_trait]
pub trait TokenStore: Send + Sync {
    /// Returns the text that was saved last, if any.
    async fn load(&self, owner: &Owner, server: &ServerName) -> Result<Option<Secret>, TokenStoreError>;

    /// Replaces the saved text.
    async fn save(&self, owner: &Owner, server: &ServerName, tokens: Secret) -> Result<(), TokenStoreError>;

    /// Deletes the saved text, if any.
    async fn delete(&self, owner: &Owner, server: &ServerName) -> Result<(), TokenStoreError>;
}

/// Keeps sign-ins in memory.
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
