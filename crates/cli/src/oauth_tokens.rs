//! Stores OAuth sign-ins to servers in the store, encrypted.

use async_trait::async_trait;
use coracle_store::{Owner, Store, StoreError, sign_in_secret};
use coracle_types::{Secret, ServerName};
use coracle_upstream::{Owner as Whose, TokenStore, TokenStoreError};
use std::sync::Arc;

/// Token store backed by the store.
pub(crate) struct StoredTokens(pub(crate) Arc<dyn Store>);

fn owner(whose: &Whose) -> Owner {
    match whose {
        Whose::Everyone => Owner::Shared,
        Whose::User(user) => Owner::User(user.clone()),
    }
}

fn failed(error: &StoreError) -> TokenStoreError {
    let hint = error.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
    TokenStoreError(format!("{error}{hint}"))
}

#[async_trait]
impl TokenStore for StoredTokens {
    async fn load(&self, whose: &Whose, server: &ServerName) -> Result<Option<Secret>, TokenStoreError> {
        self.0.secret(&owner(whose), &sign_in_secret(server)).await.map_err(|error| failed(&error))
    }

    async fn save(&self, whose: &Whose, server: &ServerName, tokens: Secret) -> Result<(), TokenStoreError> {
        self.0.put_secret(&owner(whose), &sign_in_secret(server), &tokens).await.map_err(|error| failed(&error))
    }

    async fn delete(&self, whose: &Whose, server: &ServerName) -> Result<(), TokenStoreError> {
        self.0.delete_secret(&owner(whose), &sign_in_secret(server)).await.map(drop).map_err(|error| failed(&error))
    }
}
