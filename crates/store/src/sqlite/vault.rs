//! Secrets in the database, encrypted with the master key, which is read on first use.

use super::SqliteStore;
use crate::key::MasterKey;
use crate::{DerivedKey, Home, KeyError, KeySource, Owner, StoreError, seal};
use coracle_types::{Secret, UserId};
use sqlx::sqlite::SqliteConnection;
use std::sync::Arc;
use tokio::sync::Mutex;

#[derive(Debug)]
pub(super) struct Vault {
    home: Home,
    source: KeySource,
    /// The last key that was read. The operator may have replaced it with the right one since.
    key: Mutex<Option<Arc<MasterKey>>>,
}

impl Vault {
    pub(super) fn new(home: Home, source: KeySource) -> Self {
        Self { home, source, key: Mutex::new(None) }
    }

    fn missing(&self) -> StoreError {
        KeyError::Missing { path: self.home.master_key() }.into()
    }

    async fn find(&self) -> Result<Option<MasterKey>, KeyError> {
        MasterKey::find_async(&self.source, &self.home).await
    }

    /// The key with this ID.
    async fn existing(&self, id: &str) -> Result<Arc<MasterKey>, StoreError> {
        let mut known = self.key.lock().await;
        if let Some(key) = known.as_ref().filter(|key| key.id == id) {
            return Ok(Arc::clone(key));
        }
        let key = Arc::new(self.find().await?.ok_or_else(|| self.missing())?);
        *known = Some(Arc::clone(&key));
        if key.id == id { Ok(key) } else { Err(wrong(&key)) }
    }

    /// The key that existing secrets are encrypted with. Without secrets, the current key, which is created if necessary.
    async fn existing_or_new(&self, store: &SqliteStore) -> Result<Arc<MasterKey>, StoreError> {
        if let Some(id) = in_use(store).await? {
            // Another process may just have created the key, which exists before the first secret.
            return self.existing(&id).await;
        }
        let mut known = self.key.lock().await;
        let key = match self.find().await? {
            Some(key) => key,
            None => MasterKey::make(&self.home)?,
        };
        let key = Arc::new(key);
        *known = Some(Arc::clone(&key));
        Ok(key)
    }

    /// Checks that existing secrets could be decrypted.
    pub(super) async fn check(&self, store: &SqliteStore) -> Result<(), StoreError> {
        let Some(id) = in_use(store).await? else { return Ok(()) };
        // From the file and not from memory, because after a restart only the file counts.
        let key = self.find().await?.ok_or_else(|| self.missing())?;
        if key.id == id { Ok(()) } else { Err(wrong(&key)) }
    }

    pub(super) async fn put(
        &self,
        store: &SqliteStore,
        owner: &Owner,
        name: &str,
        secret: &Secret,
    ) -> Result<(), StoreError> {
        let key = self.existing_or_new(store).await?;
        let sealed = seal::seal(&key, owner, name, secret)?;
        // One statement, so that no two keys can ever be in use, even if two processes start at once.
        let written = sqlx::query(
            "INSERT INTO secrets (owner, name, key_id, sealed)
             SELECT ?1, ?2, ?3, ?4 WHERE NOT EXISTS (SELECT 1 FROM secrets WHERE key_id <> ?3)
             ON CONFLICT (owner, name) DO UPDATE SET key_id = excluded.key_id, sealed = excluded.sealed",
        )
        .bind(owner.to_string())
        .bind(name)
        .bind(&key.id)
        .bind(sealed)
        .execute(&mut *store.writer().await?)
        .await
        .map_err(store.failed("keep a secret"))?;
        if written.rows_affected() == 0 { Err(wrong(&key)) } else { Ok(()) }
    }

    /// Adds a secret, unless there is one with its name.
    pub(super) async fn add(
        &self,
        store: &SqliteStore,
        owner: &Owner,
        name: &str,
        secret: &Secret,
    ) -> Result<(), StoreError> {
        let key = self.existing_or_new(store).await?;
        let sealed = seal::seal(&key, owner, name, secret)?;
        sqlx::query(
            "INSERT INTO secrets (owner, name, key_id, sealed)
             SELECT ?1, ?2, ?3, ?4 WHERE NOT EXISTS (SELECT 1 FROM secrets WHERE key_id <> ?3)
             ON CONFLICT (owner, name) DO NOTHING",
        )
        .bind(owner.to_string())
        .bind(name)
        .bind(&key.id)
        .bind(sealed)
        .execute(&mut *store.writer().await?)
        .await
        .map_err(store.failed("keep a secret"))?;
        Ok(())
    }

    /// Replaces an existing secret within a transaction. It stays encrypted with the same master key.
    pub(super) async fn replace(
        &self,
        store: &SqliteStore,
        connection: &mut SqliteConnection,
        owner: &Owner,
        name: &str,
        secret: &Secret,
    ) -> Result<(), StoreError> {
        let failed = store.failed("replace a secret");
        let id: String = sqlx::query_scalar("SELECT key_id FROM secrets WHERE owner = ?1 AND name = ?2")
            .bind(owner.to_string())
            .bind(name)
            .fetch_one(&mut *connection)
            .await
            .map_err(&failed)?;
        let sealed = seal::seal(&*self.existing(&id).await?, owner, name, secret)?;
        let replaced = sqlx::query("UPDATE secrets SET sealed = ?3 WHERE owner = ?1 AND name = ?2");
        let replaced = replaced.bind(owner.to_string()).bind(name).bind(sealed);
        replaced.execute(&mut *connection).await.map_err(&failed)?;
        Ok(())
    }

    /// Decrypts a secret that was read with the ID of its master key.
    pub(super) async fn open(
        &self,
        key_id: &str,
        owner: &Owner,
        name: &str,
        sealed: &[u8],
    ) -> Result<Secret, StoreError> {
        seal::open(&*self.existing(key_id).await?, owner, name, sealed)
    }

    pub(super) async fn get(
        &self,
        store: &SqliteStore,
        owner: &Owner,
        name: &str,
    ) -> Result<Option<Secret>, StoreError> {
        let row: Option<(String, Vec<u8>)> =
            sqlx::query_as("SELECT key_id, sealed FROM secrets WHERE owner = ?1 AND name = ?2")
                .bind(owner.to_string())
                .bind(name)
                .fetch_optional(&store.pool)
                .await
                .map_err(store.failed("read a secret"))?;
        let Some((key_id, sealed)) = row else { return Ok(None) };
        let key = self.existing(&key_id).await?;
        seal::open(&key, owner, name, &sealed).map(Some)
    }

    /// The key that secrets are encrypted with, which is created if necessary.
    pub(super) async fn master(&self, store: &SqliteStore) -> Result<Arc<MasterKey>, StoreError> {
        self.existing_or_new(store).await
    }

    /// A key that is derived from the one that secrets are encrypted with.
    pub(super) async fn derived(&self, store: &SqliteStore, purpose: &str) -> Result<DerivedKey, StoreError> {
        Ok(DerivedKey::of_master(&*self.existing_or_new(store).await?, purpose))
    }

    /// All secrets of a user, encrypted for another name.
    pub(super) async fn resealed(
        &self,
        store: &SqliteStore,
        from: &UserId,
        to: &UserId,
    ) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        let (from, to) = (Owner::User(from.clone()), Owner::User(to.clone()));
        let names: Vec<String> = sqlx::query_scalar("SELECT name FROM secrets WHERE owner = ?1")
            .bind(from.to_string())
            .fetch_all(&store.pool)
            .await
            .map_err(store.failed("read secrets"))?;
        let mut resealed = Vec::new();
        for name in names {
            let Some(secret) = self.get(store, &from, &name).await? else { continue };
            let sealed = seal::seal(&*self.existing_or_new(store).await?, &to, &name, &secret)?;
            resealed.push((name, sealed));
        }
        Ok(resealed)
    }
}

/// The ID of the key that secrets are encrypted with, if there are any.
async fn in_use(store: &SqliteStore) -> Result<Option<String>, StoreError> {
    let id = sqlx::query_scalar("SELECT key_id FROM secrets LIMIT 1").fetch_optional(&store.pool).await;
    id.map_err(store.failed("look for secrets"))
}

fn wrong(key: &MasterKey) -> StoreError {
    KeyError::Wrong { origin: key.origin.clone() }.into()
}
