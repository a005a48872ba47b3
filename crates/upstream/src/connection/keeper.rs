//! The task that maintains a connection: it refreshes its tools, and ends it when it is idle or has failed.

use super::Connection;
use crate::status::Changed;
use rmcp::RoleClient;
use rmcp::service::{RunningService, Service};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The minimum interval between two refreshes, however often a server announces changes.
const REFRESH_PAUSE: Duration = Duration::from_millis(200);
/// Maximum time to end a connection. A child process is killed sooner.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Whether to end an idle connection.
pub(crate) enum Idle {
    GiveUp,
    KeepOn,
}

/// Runs until the connection has ended. `on_idle` decides whether to end it, while no new call can begin.
pub(crate) async fn keep<H: Service<RoleClient>>(
    mut service: RunningService<RoleClient, H>,
    connection: Arc<Connection>,
    idle_timeout: Duration,
    on_idle: impl Fn(&Connection) -> Idle,
) {
    let listening = tokio::spawn(listen(Arc::clone(&connection)));
    let state = Arc::clone(&connection.origin.state);
    loop {
        let idle_at = connection.activity().last + idle_timeout;
        tokio::select! {
            () = state.ended.cancelled() => break,
            () = connection.close.cancelled() => break,
            () = connection.retired.cancelled() => {
                tokio::select! {
                    () = connection.is_done_with_its_calls() => {}
                    () = state.ended.cancelled() => {}
                    () = connection.close.cancelled() => {}
                }
                break;
            }
            () = tokio::time::sleep_until(idle_at.into()) => {
                if connection.is_idle(idle_timeout) {
                    if let Idle::GiveUp = on_idle(&connection) {
                        break;
                    }
                } else {
                    // In use: check again later.
                    tokio::time::sleep(REFRESH_PAUSE.min(idle_timeout)).await;
                }
            }
            () = state.changed.notified() => {
                connection.tell_of_changes();
                tokio::select! {
                    refreshed = connection.refresh() => if let Err(error) = refreshed {
                        tracing::warn!(%error, "cannot list the changed tools of a server");
                    },
                    () = state.ended.cancelled() => break,
                    () = connection.close.cancelled() => break,
                }
                tokio::select! {
                    () = tokio::time::sleep(REFRESH_PAUSE) => {}
                    () = state.ended.cancelled() => break,
                    () = connection.close.cancelled() => break,
                }
            }
        }
    }
    listening.abort();
    connection.close.cancel();
    connection.stop_listening().await;
    if !matches!(service.close_with_timeout(CLOSE_TIMEOUT).await, Ok(Some(_))) {
        tracing::warn!(server = %connection.server(), "the connection did not end in time");
    }
}

async fn listen(connection: Arc<Connection>) {
    if let Err(error) = connection.listen().await {
        tracing::debug!(%error, "cannot subscribe to changes that a server offers to announce");
    }
}

impl Connection {
    async fn is_done_with_its_calls(&self) {
        while self.activity().calls > 0 {
            tokio::time::sleep(REFRESH_PAUSE).await;
        }
    }

    /// Announces changes that need no further request.
    fn tell_of_changes(&self) {
        let state = &self.origin.state;
        if state.resources_changed.swap(false, Ordering::AcqRel) {
            self.tell(Changed::Resources);
        }
        if state.prompts_changed.swap(false, Ordering::AcqRel) {
            self.tell(Changed::Prompts);
        }
        for uri in state.take_updated() {
            self.tell(Changed::Resource { uri });
        }
    }

    /// Whether the connection is idle. Watching a resource counts as use.
    pub(crate) fn is_idle(&self, idle_timeout: Duration) -> bool {
        if !self.origin.state.watched().is_empty() {
            return false;
        }
        let activity = self.activity();
        activity.calls == 0 && Instant::now().duration_since(activity.last) >= idle_timeout
    }
}
