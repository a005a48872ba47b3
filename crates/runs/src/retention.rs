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

#[cfg(test)]
mod tests {
    use crate::{Prepared, RunError, RunService, RunSpec, RunTools, Surroundings};
    use async_trait::async_trait;
    use coracle_store::{MemoryStore, Runs as _};
    use coracle_types::UserId;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::{Duration, SystemTime};
    use tokio_util::sync::CancellationToken;

    #[derive(Debug)]
    struct NoModels;

    #[async_trait]
    impl Surroundings for NoModels {
        async fn prepare(&self, _: &UserId, _: &RunTools, _: &RunSpec) -> Result<Prepared, RunError> {
            Err(RunError::invalid("model", "there is none"))
        }
    }

    #[tokio::test]
    async fn a_conversation_is_deleted_when_its_time_has_come() {
        const DAY: Duration = Duration::from_hours(24);
        let store = Arc::new(MemoryStore::new());
        let service = RunService::new(store.clone(), Arc::new(NoModels), CancellationToken::new());
        let ann = UserId::new("ann").unwrap();
        service.add_conversation(&ann, None).await.unwrap();
        assert_eq!(service.delete_older(90 * DAY, SystemTime::now() + 89 * DAY).await.unwrap(), 0);
        // More time than there was since 1970.
        assert_eq!(service.delete_older(100_000 * DAY, SystemTime::now()).await.unwrap(), 0);
        // Days pass from tick to tick.
        let days = AtomicU64::new(85);
        let now = || SystemTime::now() + DAY * u32::try_from(days.fetch_add(1, Ordering::Relaxed)).unwrap_or_default();
        let gone = async {
            while !store.conversations(&ann, 1, None).await.unwrap().is_empty() {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            () = service.keep_tidy(90 * DAY, tokio::time::interval(Duration::from_millis(1)), now) => {}
            () = gone => {}
        }
        assert!(days.load(Ordering::Relaxed) >= 91, "it was kept for 90 days");
    }
}
