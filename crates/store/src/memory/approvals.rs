//! The log of approvals, in memory.

use super::MemoryStore;
use crate::approvals::check;
use crate::moment::kept;
use crate::{ApprovalLog, ApprovalRecord, KEPT_APPROVALS, MAX_PAGE, StoreError};
use async_trait::async_trait;
use coracle_types::UserId;

#[async_trait]
impl ApprovalLog for MemoryStore {
    async fn add_approval(&self, record: &ApprovalRecord) -> Result<(), StoreError> {
        check(record)?;
        let (asked_at, ended_at) = (kept(record.asked_at), kept(record.ended_at));
        let record = ApprovalRecord { asked_at, ended_at, ..record.clone() };
        let mut state = self.state();
        let approvals = state.approvals.entry(record.user.clone()).or_default();
        approvals.retain(|other| other.id != record.id);
        approvals.push(record);
        approvals.sort_by(|one, other| (other.ended_at, &other.id).cmp(&(one.ended_at, &one.id)));
        approvals.truncate(KEPT_APPROVALS);
        Ok(())
    }

    async fn approval(&self, user: &UserId, id: &str) -> Result<Option<ApprovalRecord>, StoreError> {
        Ok(self.state().approvals.get(user).and_then(|all| all.iter().find(|record| record.id == id)).cloned())
    }

    async fn approvals(&self, user: &UserId, limit: usize) -> Result<Vec<ApprovalRecord>, StoreError> {
        let state = self.state();
        let all = state.approvals.get(user).map(Vec::as_slice).unwrap_or_default();
        Ok(all.iter().take(limit.min(MAX_PAGE)).cloned().collect())
    }

    async fn all_approvals(&self, user: &UserId) -> Result<Vec<ApprovalRecord>, StoreError> {
        Ok(self.state().approvals.get(user).cloned().unwrap_or_default())
    }
}
