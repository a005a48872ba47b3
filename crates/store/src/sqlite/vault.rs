//! Secrets in the database: sealed by the master key, which is found when it is first needed.

use super::failed;
use crate::key::MasterKey;
use crate::{Home, KeyError, KeySource, Owner, StoreError, seal};
use coracle_types::Secret;
use sqlx::sqlite::SqlitePool;
use tokio::sync::OnceCell;

#[derive(Debug)]
pub(super) struct Vault {
    home: Home,
    source: KeySource,
    key: OnceCell<MasterKey>,
}

impl Vault {
    pub(super) fn new(home: Home, source: KeySource) -> Self {
        Self { home, source, key: OnceCell::new() }
    }

    fn missing(&self) -> StoreError {
        KeyError::Missing { path: self.home.master_key() }.into()
    }

    /// The key that is there.
    async fn existing(&self) -> Result<&MasterKey, StoreError> {
        let find = async || MasterKey::find(&self.source, &self.home)?.ok_or_else(|| self.missing());
        self.key.get_or_try_init(find).await
    }

    /// The key that is there, or a new one if there is nothing yet that an earlier one has sealed.
    async fn existing_or_new(&self, pool: &SqlitePool) -> Result<&MasterKey, StoreError> {
        let find_or_make = async || {
            if let Some(key) = MasterKey::find(&self.source, &self.home)? {
                return Ok(key);
            }
            let any = sqlx::query_scalar::<_, i64>("SELECT EXISTS (SELECT 1 FROM secrets)").fetch_one(pool).await;
            if any.map_err(failed("look for secrets"))? != 0 {
                // Another process may just have made the key: it was there before the first secret.
                return MasterKey::find(&self.source, &self.home)?.ok_or_else(|| self.missing());
            }
            MasterKey::make(&self.home)
        };
        self.key.get_or_try_init(find_or_make).await
    }

    pub(super) async fn put(
        &self,
        pool: &SqlitePool,
        owner: &Owner,
        name: &str,
        secret: &Secret,
    ) -> Result<(), StoreError> {
        let key = self.existing_or_new(pool).await?;
        let sealed = seal::seal(key, owner, name, secret)?;
        // In one statement, so that no two keys can ever be in use, not even when two processes begin at once.
        let written = sqlx::query(
            "INSERT INTO secrets (owner, name, key_id, sealed)
             SELECT ?1, ?2, ?3, ?4 WHERE NOT EXISTS (SELECT 1 FROM secrets WHERE key_id <> ?3)
             ON CONFLICT (owner, name) DO UPDATE SET key_id = excluded.key_id, sealed = excluded.sealed",
        )
        .bind(owner.to_string())
        .bind(name)
        .bind(&key.id)
        .bind(sealed)
        .execute(pool)
        .await
        .map_err(failed("keep a secret"))?;
        if written.rows_affected() == 0 { Err(wrong(key)) } else { Ok(()) }
    }

    pub(super) async fn get(&self, pool: &SqlitePool, owner: &Owner, name: &str) -> Result<Option<Secret>, StoreError> {
        let row: Option<(String, Vec<u8>)> =
            sqlx::query_as("SELECT key_id, sealed FROM secrets WHERE owner = ?1 AND name = ?2")
                .bind(owner.to_string())
                .bind(name)
                .fetch_optional(pool)
                .await
                .map_err(failed("read a secret"))?;
        let Some((key_id, sealed)) = row else { return Ok(None) };
        let key = self.existing().await?;
        if key.id != key_id {
            return Err(wrong(key));
        }
        seal::open(key, owner, name, &sealed).map(Some)
    }
}

fn wrong(key: &MasterKey) -> StoreError {
    KeyError::Wrong { origin: key.origin.clone() }.into()
}
