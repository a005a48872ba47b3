//! What calls have used of limits, as rows.

use super::SqliteStore;
use super::rows::damaged;
use crate::limit_use::Slices;
use crate::{Charged, LimitCharge, LimitUse, StoreError};
use async_trait::async_trait;
use sqlx::Connection as _;
use sqlx::sqlite::SqliteConnection;
use std::time::SystemTime;

impl SqliteStore {
    async fn allowed(
        &self,
        connection: &mut SqliteConnection,
        charges: &[LimitCharge],
        now: SystemTime,
    ) -> Result<Charged, StoreError> {
        for (number, charge) in charges.iter().enumerate() {
            let used = sqlx::query_as(
                "SELECT COALESCE(SUM(calls), 0), COALESCE(SUM(MIN(amount, ?5)), 0) FROM limit_use
                 WHERE limit_name = ?1 AND user_id = ?2 AND subject = ?3 AND slice_ms > ?4",
            );
            // Each slice has at most what the limit allows, or counts as more than that; so the sum fits.
            let most = charge.max.map_or(0, |max| max.get().saturating_add(1).min(1 << 56));
            let (calls, amount): (i64, i64) = used
                .bind(&charge.limit)
                .bind(charge.user_id())
                .bind(&charge.subject)
                .bind(charge.slices(now).over)
                .bind(most.cast_signed())
                .fetch_one(&mut *connection)
                .await
                .map_err(self.failed("read limits"))?;
            let whole = |number| u64::try_from(number).map_err(|error| damaged("limit", error));
            if !charge.fits(whole(calls)?, whole(amount)?) {
                return Ok(Charged::Exceeded(number));
            }
        }
        Ok(Charged::All)
    }
}

#[async_trait]
impl LimitUse for SqliteStore {
    async fn charge(&self, charges: &[LimitCharge], now: SystemTime) -> Result<Charged, StoreError> {
        let failed = self.failed("count calls");
        let mut writer = self.writer().await?;
        let mut transaction = writer.begin_with("BEGIN IMMEDIATE").await.map_err(&failed)?;
        let allowed = self.allowed(&mut transaction, charges, now).await?;
        if allowed != Charged::All {
            return Ok(allowed);
        }
        for charge in charges {
            let Slices { current, over } = charge.slices(now);
            let old = sqlx::query(
                "DELETE FROM limit_use WHERE limit_name = ?1 AND user_id = ?2 AND subject = ?3 AND slice_ms <= ?4",
            );
            let old = old.bind(&charge.limit).bind(charge.user_id()).bind(&charge.subject).bind(over);
            old.execute(&mut *transaction).await.map_err(&failed)?;
            let counted = sqlx::query(
                "INSERT INTO limit_use (limit_name, user_id, subject, slice_ms, calls, amount)
                 VALUES (?1, ?2, ?3, ?4, 1, ?5)
                 ON CONFLICT (limit_name, user_id, subject, slice_ms)
                 DO UPDATE SET calls = calls + 1, amount = MIN(amount + excluded.amount, ?6)",
            );
            let counted = counted.bind(&charge.limit).bind(charge.user_id()).bind(&charge.subject).bind(current);
            let counted = counted.bind(charge.amount.get().cast_signed()).bind(1_i64 << 61);
            counted.execute(&mut *transaction).await.map_err(&failed)?;
        }
        transaction.commit().await.map_err(&failed)?;
        Ok(Charged::All)
    }

    async fn allows(&self, charges: &[LimitCharge], now: SystemTime) -> Result<Charged, StoreError> {
        let mut connection = self.pool.acquire().await.map_err(self.failed("read limits"))?;
        self.allowed(&mut connection, charges, now).await
    }

    async fn give_back(&self, charges: &[LimitCharge], at: SystemTime) -> Result<(), StoreError> {
        let failed = self.failed("count calls");
        let mut writer = self.writer().await?;
        let mut transaction = writer.begin_with("BEGIN IMMEDIATE").await.map_err(&failed)?;
        for charge in charges {
            let back = sqlx::query(
                "UPDATE limit_use SET calls = MAX(calls - 1, 0), amount = MAX(amount - ?5, 0)
                 WHERE limit_name = ?1 AND user_id = ?2 AND subject = ?3 AND slice_ms = ?4",
            );
            let back = back.bind(&charge.limit).bind(charge.user_id()).bind(&charge.subject);
            let back = back.bind(charge.slices(at).current).bind(charge.amount.get().cast_signed());
            back.execute(&mut *transaction).await.map_err(&failed)?;
        }
        transaction.commit().await.map_err(&failed)
    }
}
