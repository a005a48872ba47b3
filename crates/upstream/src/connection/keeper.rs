//! The task that keeps a connection: looks after its tools, and ends it when it is not needed or has failed.

use super::Connection;
use rmcp::RoleClient;
use rmcp::model::SubscriptionFilter;
use rmcp::service::{RunningService, Service};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// However often a server says that its tools changed, it is asked no more often than this.
const REFRESH_PAUSE: Duration = Duration::from_millis(200);
/// Longest time for ending a connection; a child process is killed sooner.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Whether the connection was given up.
pub(crate) enum Idle {
    GiveUp,
    KeepOn,
}

/// Runs until the connection has ended. `on_idle` decides, with no new call able to slip in, whether to end it.
pub(crate) async fn keep<H: Service<RoleClient>>(
    mut service: RunningService<RoleClient, H>,
    connection: Arc<Connection>,
    idle_timeout: Duration,
    on_idle: impl Fn(&Connection) -> Idle,
) {
    let subscription = tokio::spawn(listen(Arc::clone(&connection)));
    let desk = Arc::clone(&connection.origin.desk);
    loop {
        let idle_at = connection.activity().last + idle_timeout;
        tokio::select! {
            () = desk.ended.cancelled() => break,
            () = connection.close.cancelled() => break,
            () = connection.retired.cancelled() => {
                tokio::select! {
                    () = connection.is_done_with_its_calls() => {}
                    () = desk.ended.cancelled() => {}
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
                    // In use: look again later.
                    tokio::time::sleep(REFRESH_PAUSE.min(idle_timeout)).await;
                }
            }
            () = desk.tools_changed.notified() => {
                tokio::select! {
                    refreshed = connection.refresh() => if let Err(error) = refreshed {
                        tracing::warn!(%error, "the tools of a server have changed and cannot be had");
                    },
                    () = desk.ended.cancelled() => break,
                    () = connection.close.cancelled() => break,
                }
                tokio::select! {
                    () = tokio::time::sleep(REFRESH_PAUSE) => {}
                    () = desk.ended.cancelled() => break,
                    () = connection.close.cancelled() => break,
                }
            }
        }
    }
    subscription.abort();
    connection.close.cancel();
    if !matches!(service.close_with_timeout(CLOSE_TIMEOUT).await, Ok(Some(_))) {
        tracing::warn!(server = %connection.server(), "the connection did not end in time");
    }
}

/// Since 2026 a server tells of changes only to those who ask for it.
async fn listen(connection: Arc<Connection>) {
    let Some(peer) = connection.peer.peer_info() else {
        return;
    };
    let tells = peer.capabilities.tools.as_ref().and_then(|tools| tools.list_changed) == Some(true);
    if peer.protocol_version.has_initialize() || !tells {
        return;
    }
    let filter = SubscriptionFilter::builder().tools_list_changed().build();
    if let Ok(mut subscription) = connection.peer.listen(filter).await {
        // The notifications themselves are seen on their way in; this only holds the subscription.
        while let Ok(Some(_)) = subscription.next().await {}
    }
}

impl Connection {
    async fn is_done_with_its_calls(&self) {
        while self.activity().calls > 0 {
            tokio::time::sleep(REFRESH_PAUSE).await;
        }
    }

    pub(crate) fn is_idle(&self, idle_timeout: Duration) -> bool {
        let activity = self.activity();
        activity.calls == 0 && Instant::now().duration_since(activity.last) >= idle_timeout
    }
}
