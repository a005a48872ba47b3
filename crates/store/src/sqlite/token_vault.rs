//! Vaults as rows. The keys of a vault are a secret of its user.

use super::SqliteStore;
use super::rows::{count, damaged};
use crate::moment::{from_millis, to_millis};
use crate::token_vault::{VAULT_SECRET, VaultKeys, check};
use crate::{KEPT_VAULT_VALUES, Owner, StoreError, TokenVault, VaultValue, seal};
use async_trait::async_trait;
use coracle_types::{Secret, UserId};
use sqlx::Connection as _;
use sqlx::sqlite::SqliteConnection;
use std::time::SystemTime;
use zeroize::Zeroizing;

/// The first byte of a sealed value.
const STRING: u8 = 0;
const NUMBER: u8 = 1;

/// The number of tokens in one query.
const AT_ONCE: usize = 500;

impl SqliteStore {
    /// The keys of a user's vault, read within a transaction, so that they fit to the values that are read with them.
    async fn vault_keys(
        &self,
        connection: &mut SqliteConnection,
        user: &UserId,
    ) -> Result<Option<VaultKeys>, StoreError> {
        let owner = Owner::User(user.clone());
        let row: Option<(String, Vec<u8>)> =
            sqlx::query_as("SELECT key_id, sealed FROM secrets WHERE owner = ?1 AND name = ?2")
                .bind(owner.to_string())
                .bind(VAULT_SECRET)
                .fetch_optional(connection)
                .await
                .map_err(self.failed("read the keys of a vault"))?;
        let Some((key_id, sealed)) = row else { return Ok(None) };
        let secret = self.vault.open(&key_id, &owner, VAULT_SECRET, &sealed).await?;
        VaultKeys::parse(&secret).map(Some)
    }
}

fn sealed(keys: &VaultKeys, value: &VaultValue) -> Result<Vec<u8>, StoreError> {
    let text = value.value.expose().as_bytes();
    let mut bytes = Zeroizing::new(Vec::with_capacity(text.len() + 1));
    bytes.push(if value.is_number { NUMBER } else { STRING });
    bytes.extend_from_slice(text);
    seal::seal_value(&keys.data, &value.token, &bytes)
}

fn opened(keys: &VaultKeys, (token, sealed, last_used): (String, Vec<u8>, i64)) -> Result<VaultValue, StoreError> {
    let bytes = seal::open_value(&keys.data, &token, &sealed);
    let text = bytes.as_ref().and_then(|bytes| {
        let (form, text) = bytes.split_first()?;
        Some((*form == NUMBER, Secret::new(std::str::from_utf8(text).ok()?)))
    });
    let (is_number, value) = text.ok_or_else(|| damaged("value of a token", "it cannot be decrypted"))?;
    Ok(VaultValue { token, value, is_number, last_used: from_millis(last_used) })
}

#[async_trait]
impl TokenVault for SqliteStore {
    async fn token_key(&self, user: &UserId) -> Result<Zeroizing<[u8; 32]>, StoreError> {
        let owner = Owner::User(user.clone());
        let mut secret = self.vault.get(self, &owner, VAULT_SECRET).await?;
        if secret.is_none() {
            // Another process may create it at the same time: the first one counts.
            self.vault.add(self, &owner, VAULT_SECRET, &VaultKeys::new()?.to_secret()).await?;
            self.durable.wait().await?;
            secret = self.vault.get(self, &owner, VAULT_SECRET).await?;
        }
        let secret = secret.ok_or_else(|| damaged("vault keys", "they were deleted while they were created"))?;
        Ok(VaultKeys::parse(&secret)?.tokens)
    }

    async fn put_values(&self, user: &UserId, values: &[VaultValue]) -> Result<bool, StoreError> {
        check(values)?;
        let failed = self.failed("keep values of tokens");
        let mut writer = self.writer().await?;
        let mut transaction = writer.begin_with("BEGIN IMMEDIATE").await.map_err(&failed)?;
        let Some(keys) = self.vault_keys(&mut transaction, user).await? else { return Ok(false) };
        for value in values {
            let added = sqlx::query(
                "INSERT INTO vault_values (user_id, token, sealed, last_used) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT (user_id, token) DO UPDATE SET last_used = MAX(last_used, excluded.last_used)",
            )
            .bind(user.as_str())
            .bind(&value.token)
            .bind(sealed(&keys, value)?)
            .bind(to_millis(value.last_used));
            added.execute(&mut *transaction).await.map_err(&failed)?;
        }
        let pruned = sqlx::query(
            "DELETE FROM vault_values WHERE user_id = ?1 AND last_used < (
                 SELECT last_used FROM vault_values WHERE user_id = ?1 ORDER BY last_used DESC LIMIT 1 OFFSET ?2)",
        )
        .bind(user.as_str())
        .bind(count(KEPT_VAULT_VALUES - 1));
        pruned.execute(&mut *transaction).await.map_err(&failed)?;
        transaction.commit().await.map_err(&failed)?;
        drop(writer);
        self.durable.wait().await?;
        Ok(true)
    }

    async fn values(&self, user: &UserId, tokens: &[String]) -> Result<Vec<VaultValue>, StoreError> {
        let failed = self.failed("read values of tokens");
        let mut connection = self.pool.acquire().await.map_err(&failed)?;
        let mut transaction = connection.begin().await.map_err(&failed)?;
        let Some(keys) = self.vault_keys(&mut transaction, user).await? else { return Ok(Vec::new()) };
        let mut values = Vec::new();
        for tokens in tokens.chunks(AT_ONCE) {
            let mut query =
                sqlx::QueryBuilder::new("SELECT token, sealed, last_used FROM vault_values WHERE user_id = ");
            query.push_bind(user.as_str().to_owned()).push(" AND token IN (");
            let mut listed = query.separated(", ");
            for token in tokens {
                listed.push_bind(token.as_str());
            }
            query.push(")");
            let rows: Vec<(String, Vec<u8>, i64)> =
                query.build_query_as().fetch_all(&mut *transaction).await.map_err(&failed)?;
            for row in rows {
                values.push(opened(&keys, row)?);
            }
        }
        transaction.commit().await.map_err(&failed)?;
        Ok(values)
    }

    async fn recent_values(&self, user: &UserId, limit: usize) -> Result<Vec<VaultValue>, StoreError> {
        let failed = self.failed("read values of tokens");
        let mut connection = self.pool.acquire().await.map_err(&failed)?;
        let mut transaction = connection.begin().await.map_err(&failed)?;
        let Some(keys) = self.vault_keys(&mut transaction, user).await? else { return Ok(Vec::new()) };
        let rows: Vec<(String, Vec<u8>, i64)> = sqlx::query_as(
            "SELECT token, sealed, last_used FROM vault_values WHERE user_id = ?1 ORDER BY last_used DESC, token LIMIT ?2",
        )
        .bind(user.as_str())
        .bind(count(limit))
        .fetch_all(&mut *transaction)
        .await
        .map_err(&failed)?;
        transaction.commit().await.map_err(&failed)?;
        rows.into_iter().map(|row| opened(&keys, row)).collect()
    }

    async fn rotate_vault(&self, user: &UserId) -> Result<usize, StoreError> {
        let failed = self.failed("rotate the key of a vault");
        let mut writer = self.writer().await?;
        let mut transaction = writer.begin_with("BEGIN IMMEDIATE").await.map_err(&failed)?;
        let Some(old) = self.vault_keys(&mut transaction, user).await? else { return Ok(0) };
        let new = old.rotated()?;
        let tokens: Vec<String> = sqlx::query_scalar("SELECT token FROM vault_values WHERE user_id = ?1")
            .bind(user.as_str())
            .fetch_all(&mut *transaction)
            .await
            .map_err(&failed)?;
        for token in &tokens {
            let row: (String, Vec<u8>, i64) =
                sqlx::query_as("SELECT token, sealed, last_used FROM vault_values WHERE user_id = ?1 AND token = ?2")
                    .bind(user.as_str())
                    .bind(token)
                    .fetch_one(&mut *transaction)
                    .await
                    .map_err(&failed)?;
            let resealed = sealed(&new, &opened(&old, row)?)?;
            let written = sqlx::query("UPDATE vault_values SET sealed = ?3 WHERE user_id = ?1 AND token = ?2");
            let written = written.bind(user.as_str()).bind(token).bind(resealed);
            written.execute(&mut *transaction).await.map_err(&failed)?;
        }
        let owner = Owner::User(user.clone());
        self.vault.replace(self, &mut transaction, &owner, VAULT_SECRET, &new.to_secret()).await?;
        transaction.commit().await.map_err(&failed)?;
        drop(writer);
        self.durable.wait().await?;
        Ok(tokens.len())
    }

    async fn forget_values(&self, before: SystemTime) -> Result<u64, StoreError> {
        let deleted = sqlx::query("DELETE FROM vault_values WHERE last_used < ?1")
            .bind(to_millis(before))
            .execute(&mut *self.writer().await?)
            .await
            .map_err(self.failed("delete old values of tokens"))?;
        Ok(deleted.rows_affected())
    }

    async fn delete_vault(&self, user: &UserId) -> Result<bool, StoreError> {
        let failed = self.failed("delete a vault");
        let mut writer = self.writer().await?;
        let mut transaction = writer.begin_with("BEGIN IMMEDIATE").await.map_err(&failed)?;
        let keys = sqlx::query("DELETE FROM secrets WHERE owner = ?1 AND name = ?2")
            .bind(Owner::User(user.clone()).to_string())
            .bind(VAULT_SECRET)
            .execute(&mut *transaction)
            .await
            .map_err(&failed)?;
        let values = sqlx::query("DELETE FROM vault_values WHERE user_id = ?1").bind(user.as_str());
        values.execute(&mut *transaction).await.map_err(&failed)?;
        transaction.commit().await.map_err(&failed)?;
        drop(writer);
        self.durable.wait().await?;
        Ok(keys.rows_affected() > 0)
    }
}
