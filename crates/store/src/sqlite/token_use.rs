//! Token counts as rows.

use super::SqliteStore;
use super::rows::damaged;
use crate::{Day, MAX_DAY_TOKENS, StoreError, TokenUse};
use async_trait::async_trait;
use coracle_types::UserId;
use sqlx::Connection as _;

#[async_trait]
impl TokenUse for SqliteStore {
    async fn add_tokens(&self, user: &UserId, day: Day, tokens: u64) -> Result<(), StoreError> {
        let failed = self.failed("count tokens");
        let most = MAX_DAY_TOKENS.cast_signed();
        let mut writer = self.writer().await?;
        let mut transaction = writer.begin_with("BEGIN IMMEDIATE").await.map_err(&failed)?;
        // Both numbers are at most 2^60, so their sum fits.
        let counted = sqlx::query(
            "INSERT INTO token_use (user_id, day, tokens) VALUES (?1, ?2, ?3)
             ON CONFLICT (user_id, day) DO UPDATE SET tokens = MIN(tokens + excluded.tokens, ?4)",
        )
        .bind(user.as_str())
        .bind(i64::from(day.number()))
        .bind(tokens.min(MAX_DAY_TOKENS).cast_signed())
        .bind(most);
        counted.execute(&mut *transaction).await.map_err(&failed)?;
        if let Some(last) = day.forgotten() {
            let old = sqlx::query("DELETE FROM token_use WHERE user_id = ?1 AND day <= ?2");
            old.bind(user.as_str()).bind(i64::from(last)).execute(&mut *transaction).await.map_err(&failed)?;
        }
        transaction.commit().await.map_err(&failed)
    }

    async fn tokens_used(&self, user: &UserId, day: Day) -> Result<u64, StoreError> {
        let count: Option<i64> = sqlx::query_scalar("SELECT tokens FROM token_use WHERE user_id = ?1 AND day = ?2")
            .bind(user.as_str())
            .bind(i64::from(day.number()))
            .fetch_optional(&self.pool)
            .await
            .map_err(self.failed("read token counts"))?;
        u64::try_from(count.unwrap_or_default()).map_err(|error| damaged("token count", error))
    }

    async fn token_days(&self, user: &UserId) -> Result<Vec<(Day, u64)>, StoreError> {
        let rows: Vec<(i64, i64)> = sqlx::query_as("SELECT day, tokens FROM token_use WHERE user_id = ?1 ORDER BY day")
            .bind(user.as_str())
            .fetch_all(&self.pool)
            .await
            .map_err(self.failed("read token counts"))?;
        let count = |(day, tokens): (i64, i64)| {
            let day = u32::try_from(day).map_err(|error| damaged("token count", error))?;
            Ok((Day::with_number(day), u64::try_from(tokens).map_err(|error| damaged("token count", error))?))
        };
        rows.into_iter().map(count).collect()
    }
}
