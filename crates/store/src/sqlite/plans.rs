//! Plans as rows.

use super::SqliteStore;
use super::rows::{count, damaged};
use crate::moment::{from_millis, to_millis};
use crate::plans::text;
use crate::{DerivedKey, KEPT_PLANS, PlanRecord, Plans, Store, StoreError, seal};
use async_trait::async_trait;
use coracle_types::{PlanId, PlanState, UserId};
use serde_json::Value;
use sqlx::Connection as _;

/// The purpose of the key that plans are sealed with.
const PURPOSE: &str = "plans";

type Row = (String, String, i64, i64, Vec<u8>, Vec<u8>);

/// The beginning of statements that select plans.
macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT plan_id, state, created_at, expires_at, content, progress FROM plans WHERE user_id = ?1 ",
            $rest
        )
    };
}

/// The part of a plan that is sealed.
#[derive(Clone, Copy)]
enum Part {
    Content,
    Progress,
}

impl Part {
    /// What the ciphertext is bound to, so that no row or column can take the place of another.
    fn binding(self, id: &str) -> String {
        match self {
            Self::Content => format!("plan content {id}"),
            Self::Progress => format!("plan progress {id}"),
        }
    }

    fn seal(self, key: &DerivedKey, id: &PlanId, value: &Value) -> Result<Vec<u8>, StoreError> {
        let text = match self {
            Self::Content => text("plan", value)?,
            Self::Progress => text("progress of a plan", value)?,
        };
        seal::seal_value(key.bytes(), &self.binding(id.as_str()), text.as_bytes())
    }

    fn open(self, key: &DerivedKey, id: &str, sealed: &[u8]) -> Result<Value, StoreError> {
        let opened = seal::open_value(key.bytes(), &self.binding(id), sealed);
        let parsed = opened.and_then(|text| serde_json::from_slice(&text).ok());
        parsed.ok_or_else(|| damaged(&format!("plan {id:?}"), "it cannot be decrypted"))
    }
}

#[async_trait]
impl Plans for SqliteStore {
    async fn add_plan(&self, plan: &PlanRecord) -> Result<(), StoreError> {
        let key = self.derived_key(PURPOSE).await?;
        let content = Part::Content.seal(&key, &plan.id, &plan.content)?;
        let progress = Part::Progress.seal(&key, &plan.id, &plan.progress)?;
        let failed = self.failed("keep a plan");
        let mut writer = self.writer().await?;
        let mut transaction = writer.begin_with("BEGIN IMMEDIATE").await.map_err(&failed)?;
        let added = sqlx::query(
            "INSERT INTO plans (plan_id, user_id, state, created_at, expires_at, content, progress)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )
        .bind(plan.id.as_str())
        .bind(plan.user.as_str())
        .bind(plan.state.as_str())
        .bind(to_millis(plan.created_at))
        .bind(to_millis(plan.expires_at))
        .bind(content)
        .bind(progress);
        added.execute(&mut *transaction).await.map_err(&failed)?;
        let pruned = sqlx::query(
            "DELETE FROM plans WHERE user_id = ?1 AND state <> 'running' AND (created_at, plan_id) < (
                 SELECT created_at, plan_id FROM plans WHERE user_id = ?1
                 ORDER BY created_at DESC, plan_id DESC LIMIT 1 OFFSET ?2)",
        )
        .bind(plan.user.as_str())
        .bind(count(KEPT_PLANS - 1));
        pruned.execute(&mut *transaction).await.map_err(&failed)?;
        transaction.commit().await.map_err(&failed)?;
        drop(writer);
        self.durable.wait().await
    }

    async fn plan(&self, user: &UserId, id: &PlanId) -> Result<Option<PlanRecord>, StoreError> {
        self.interrupt_plans().await?;
        let row: Option<Row> = sqlx::query_as(select!("AND plan_id = ?2"))
            .bind(user.as_str())
            .bind(id.as_str())
            .fetch_optional(&self.pool)
            .await
            .map_err(self.failed("read a plan"))?;
        let Some(row) = row else { return Ok(None) };
        record(user, &self.derived_key(PURPOSE).await?, row).map(Some)
    }

    async fn plans(&self, user: &UserId) -> Result<Vec<PlanRecord>, StoreError> {
        self.interrupt_plans().await?;
        let rows: Vec<Row> = sqlx::query_as(select!("ORDER BY created_at DESC, plan_id DESC"))
            .bind(user.as_str())
            .fetch_all(&self.pool)
            .await
            .map_err(self.failed("read plans"))?;
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let key = self.derived_key(PURPOSE).await?;
        let readable = |row| match record(user, &key, row) {
            Ok(plan) => Some(plan),
            Err(error) => {
                tracing::warn!(%user, %error, "a plan is not listed");
                None
            }
        };
        Ok(rows.into_iter().filter_map(readable).collect())
    }

    async fn begin_plan(&self, user: &UserId, id: &PlanId, progress: &Value) -> Result<bool, StoreError> {
        let instance = self.life.name().await?;
        self.change_plan(user, id, PlanState::Open, PlanState::Running, progress, instance).await
    }

    async fn advance_plan(
        &self,
        user: &UserId,
        id: &PlanId,
        state: PlanState,
        progress: &Value,
    ) -> Result<bool, StoreError> {
        let instance = self.life.name().await?;
        self.change_plan(user, id, PlanState::Running, state, progress, instance).await
    }

    async fn delete_plan(&self, user: &UserId, id: &PlanId) -> Result<bool, StoreError> {
        self.interrupt_plans().await?;
        let deleted = sqlx::query("DELETE FROM plans WHERE user_id = ?1 AND plan_id = ?2 AND state <> 'running'")
            .bind(user.as_str())
            .bind(id.as_str())
            .execute(&mut *self.writer().await?)
            .await
            .map_err(self.failed("delete a plan"))?;
        self.durable.wait().await?;
        Ok(deleted.rows_affected() > 0)
    }
}

impl SqliteStore {
    async fn change_plan(
        &self,
        user: &UserId,
        id: &PlanId,
        from: PlanState,
        to: PlanState,
        progress: &Value,
        instance: &str,
    ) -> Result<bool, StoreError> {
        let progress = Part::Progress.seal(&self.derived_key(PURPOSE).await?, id, progress)?;
        let changed = sqlx::query(
            "UPDATE plans SET state = ?4, progress = ?5, instance = ?6
             WHERE user_id = ?1 AND plan_id = ?2 AND state = ?3 AND (instance IS NULL OR instance = ?6)",
        )
        .bind(user.as_str())
        .bind(id.as_str())
        .bind(from.as_str())
        .bind(to.as_str())
        .bind(progress)
        .bind(instance)
        .execute(&mut *self.writer().await?)
        .await
        .map_err(self.failed("write the progress of a plan"))?;
        self.durable.wait().await?;
        Ok(changed.rows_affected() > 0)
    }

    /// Marks plans whose process is gone.
    async fn interrupt_plans(&self) -> Result<(), StoreError> {
        let failed = self.failed("mark what was interrupted");
        let running: Vec<String> = sqlx::query_scalar("SELECT DISTINCT instance FROM plans WHERE state = 'running'")
            .fetch_all(&self.pool)
            .await
            .map_err(&failed)?;
        if running.is_empty() {
            return Ok(());
        }
        for instance in self.life.gone(running).await? {
            sqlx::query("UPDATE plans SET state = 'interrupted' WHERE state = 'running' AND instance = ?1")
                .bind(instance)
                .execute(&mut *self.writer().await?)
                .await
                .map_err(&failed)?;
        }
        Ok(())
    }
}

fn record(user: &UserId, key: &DerivedKey, row: Row) -> Result<PlanRecord, StoreError> {
    let (id, state, created_at, expires_at, content, progress) = row;
    let what = format!("plan {id:?}");
    let known = PlanState::ALL.into_iter().find(|known| known.as_str() == state);
    Ok(PlanRecord {
        user: user.clone(),
        state: known.ok_or_else(|| damaged(&what, "its state is not known"))?,
        created_at: from_millis(created_at),
        expires_at: from_millis(expires_at),
        content: Part::Content.open(key, &id, &content)?,
        progress: Part::Progress.open(key, &id, &progress)?,
        id: PlanId::new(id).map_err(|error| damaged(&what, error))?,
    })
}
