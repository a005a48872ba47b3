//! Plans: what programs would change, until a person approves it.

use crate::{StoreError, bounds};
use async_trait::async_trait;
use coracle_types::{PlanId, PlanState, UserId};
use serde_json::Value;
use std::fmt;
use std::time::SystemTime;

/// The maximum size of the content of a plan, and of its progress, as JSON.
pub const MAX_PLAN_BYTES: usize = 16 << 20;
/// The number of plans that are kept per user. Older ones are deleted, unless they are being run.
pub const KEPT_PLANS: usize = 100;

/// A plan as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanRecord {
    /// The ID, unique among all users.
    pub id: PlanId,
    /// The user whose plan it is.
    pub user: UserId,
    /// The state. A plan that is not approved in time stays open in the store.
    pub state: PlanState,
    /// When it was made.
    pub created_at: SystemTime,
    /// When it can no longer be approved.
    pub expires_at: SystemTime,
    /// What was planned. It never changes.
    pub content: Value,
    /// What became of it.
    pub progress: Value,
}

/// The part of a store that holds plans. Its contract is that of [`crate::Store`]. In addition:
/// - what was written is on the disk when a method returns;
/// - content and progress are stored only encrypted;
/// - a plan whose process is gone while it was running is interrupted.
#[async_trait]
pub trait Plans: Send + Sync + fmt::Debug {
    /// Adds a plan. The newest [`KEPT_PLANS`] of the user are kept.
    async fn add_plan(&self, plan: &PlanRecord) -> Result<(), StoreError>;

    /// One plan of a user.
    async fn plan(&self, user: &UserId, id: &PlanId) -> Result<Option<PlanRecord>, StoreError>;

    /// The plans of a user, the newest first. Those that cannot be decrypted are left out.
    async fn plans(&self, user: &UserId) -> Result<Vec<PlanRecord>, StoreError>;

    /// Marks an open plan as running in this process. Returns whether it was open: of several callers, one succeeds.
    async fn begin_plan(&self, user: &UserId, id: &PlanId, progress: &Value) -> Result<bool, StoreError>;

    /// Writes the progress of a plan that this process runs, and its state. Returns whether it was running.
    async fn advance_plan(
        &self,
        user: &UserId,
        id: &PlanId,
        state: PlanState,
        progress: &Value,
    ) -> Result<bool, StoreError>;

    /// Deletes a plan, unless it is being run. Returns whether it was deleted.
    async fn delete_plan(&self, user: &UserId, id: &PlanId) -> Result<bool, StoreError>;
}

/// The JSON of content or progress. Both stores reject the same values.
pub(crate) fn text(what: &'static str, value: &Value) -> Result<String, StoreError> {
    let text = value.to_string();
    bounds::within(what, text.len(), MAX_PLAN_BYTES)?;
    Ok(text)
}
