//! Deletes conversations that have not changed for a long time.

use crate::error::RunError;
use crate::service::RunService;
use std::time::{Duration, SystemTime};
use tokio::time::Interval;

impl RunService {
    /// Deletes conversations that have not changed, and runs without a conversation that ended, longer ago than this.
    /// Runs that are under way stay. Returns the number of both.
    pub async fn delete_older(&self, kept_for: Duration, now: SystemTime) -> Result<u64, RunError> {
        let Some(before) = now.checked_sub(kept_for) else { return Ok(0) };
        Ok(self.inner.store.delete_old_runs(before).await?)
    }

    /// Deletes old conversations at each tick, for as long as the future is polled.
    pub async fn keep_tidy(&self, kept_for: Duration, mut ticks: Interval, now: impl Fn() -> SystemTime) {
        loop {
            ticks.tick().await;
            match self.delete_older(kept_for, now()).await {
                Ok(0) => {}
                Ok(deleted) => tracing::info!(deleted, "old conversations were deleted"),
                Err(error) => tracing::warn!(%error, "cannot delete old conversations"),
            }
        }
    }
}
