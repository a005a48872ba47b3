//! Plans, in memory.

use super::MemoryStore;
use crate::moment::kept;
use crate::plans::text;
use crate::{KEPT_PLANS, PlanRecord, Plans, StoreError};
use async_trait::async_trait;
use coracle_types::{PlanId, PlanState, UserId};
use serde_json::Value;

#[async_trait]
impl Plans for MemoryStore {
    async fn add_plan(&self, plan: &PlanRecord) -> Result<(), StoreError> {
        text("plan", &plan.content)?;
        text("progress of a plan", &plan.progress)?;
        let (created_at, expires_at) = (kept(plan.created_at), kept(plan.expires_at));
        let mut state = self.state();
        let plans = state.plans.entry(plan.user.clone()).or_default();
        plans.push(PlanRecord { created_at, expires_at, ..plan.clone() });
        plans.sort_by(|one, other| (other.created_at, &other.id).cmp(&(one.created_at, &one.id)));
        let mut place = 0;
        plans.retain(|plan| {
            place += 1;
            place <= KEPT_PLANS || plan.state == PlanState::Running
        });
        Ok(())
    }

    async fn plan(&self, user: &UserId, id: &PlanId) -> Result<Option<PlanRecord>, StoreError> {
        Ok(self.state().plans.get(user).and_then(|plans| plans.iter().find(|plan| plan.id == *id)).cloned())
    }

    async fn plans(&self, user: &UserId) -> Result<Vec<PlanRecord>, StoreError> {
        Ok(self.state().plans.get(user).cloned().unwrap_or_default())
    }

    async fn begin_plan(&self, user: &UserId, id: &PlanId, progress: &Value) -> Result<bool, StoreError> {
        self.change_plan(user, id, PlanState::Open, PlanState::Running, progress)
    }

    async fn advance_plan(
        &self,
        user: &UserId,
        id: &PlanId,
        state: PlanState,
        progress: &Value,
    ) -> Result<bool, StoreError> {
        self.change_plan(user, id, PlanState::Running, state, progress)
    }

    async fn delete_plan(&self, user: &UserId, id: &PlanId) -> Result<bool, StoreError> {
        let mut state = self.state();
        let Some(plans) = state.plans.get_mut(user) else { return Ok(false) };
        let count = plans.len();
        plans.retain(|plan| plan.id != *id || plan.state == PlanState::Running);
        Ok(plans.len() < count)
    }
}

impl MemoryStore {
    fn change_plan(
        &self,
        user: &UserId,
        id: &PlanId,
        from: PlanState,
        to: PlanState,
        progress: &Value,
    ) -> Result<bool, StoreError> {
        text("progress of a plan", progress)?;
        let mut state = self.state();
        let plan = state.plans.get_mut(user).and_then(|plans| plans.iter_mut().find(|plan| plan.id == *id));
        let Some(plan) = plan.filter(|plan| plan.state == from) else { return Ok(false) };
        (plan.state, plan.progress) = (to, progress.clone());
        Ok(true)
    }
}
