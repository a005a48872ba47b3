//! Wall clock of an execution, which can be paused, for example while a person is asked for approval.

use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

#[derive(Clone, Copy, Debug)]
struct Time {
    deadline: Instant,
    /// Number of open pauses; `since` is the start of the current paused period.
    asking: usize,
    since: Instant,
}

/// Deadline of an execution. Clones share the same deadline and pauses.
#[derive(Clone, Debug)]
pub(crate) struct Clock(Arc<watch::Sender<Time>>);

impl Clock {
    pub(crate) fn new(wall: Duration) -> Self {
        let now = Instant::now();
        Self(Arc::new(watch::Sender::new(Time { deadline: now + wall, asking: 0, since: now })))
    }

    /// Restarts the clock with the full wall time.
    pub(crate) fn start(&self, wall: Duration) {
        self.0.send_modify(|time| time.deadline = Instant::now() + wall);
    }

    /// Pauses the clock until the returned guard is dropped. Pauses may overlap.
    pub(crate) fn pause(&self) -> Pause {
        self.0.send_modify(|time| {
            if time.asking == 0 {
                time.since = Instant::now();
            }
            time.asking += 1;
        });
        Pause(self.clone())
    }

    /// Completes when the deadline has passed and the clock is not paused.
    pub(crate) async fn expired(&self) {
        let mut changes = self.0.subscribe();
        loop {
            let time = *changes.borrow_and_update();
            let over = async {
                if time.asking > 0 {
                    std::future::pending::<()>().await;
                }
                tokio::time::sleep_until(time.deadline).await;
            };
            tokio::select! {
                () = over => return,
                // The clock owns the sender, so the channel cannot close here.
                _ = changes.changed() => {}
            }
        }
    }
}

/// Guard that keeps the clock paused while it exists.
#[derive(Debug)]
pub(crate) struct Pause(Clock);

impl Drop for Pause {
    fn drop(&mut self) {
        self.0.0.send_modify(|time| {
            time.asking -= 1;
            if time.asking == 0 {
                time.deadline += time.since.elapsed();
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::Clock;
    use std::time::Duration;
    use tokio::time::{Instant, sleep};

    #[tokio::test(start_paused = true)]
    async fn it_stands_still_while_any_question_is_open() {
        let (begun, clock) = (Instant::now(), Clock::new(Duration::from_secs(10)));
        let asking = async {
            sleep(Duration::from_secs(4)).await;
            let first = clock.pause();
            sleep(Duration::from_secs(50)).await;
            let second = clock.pause();
            drop(first);
            sleep(Duration::from_secs(50)).await;
            drop(second);
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = clock.expired() => {}
            () = asking => {}
        }
        assert_eq!(begun.elapsed().as_secs(), 110);
    }
}
