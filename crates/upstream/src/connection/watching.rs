//! Subscriptions to changes of resources. Since the revision of 2026, a server announces changes only to listeners.

use super::Connection;
use super::requests::members;
use crate::call::CallContext;
use crate::error::UpstreamError;
use rmcp::model::SubscriptionFilter;
use rmcp::service::Subscription;
use serde_json::Value;
use tokio::task::AbortHandle;

/// One subscription for everything of interest. A change of interests replaces it.
#[derive(Default)]
pub(super) struct Watching(tokio::sync::Mutex<Option<Listener>>);

struct Listener(AbortHandle);

impl Listener {
    fn new(mut subscription: Subscription) -> Self {
        // The notifications are handled on their way in. This task only holds the subscription.
        let task = tokio::spawn(async move { while let Ok(Some(_)) = subscription.next().await {} });
        Self(task.abort_handle())
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Connection {
    /// Subscribes to changes of a resource until [`Self::unwatch`] is called as often, or the connection ends.
    pub(crate) async fn watch(&self, uri: &str) -> Result<(), UpstreamError> {
        let is_first = self
            .origin
            .state
            .watch(uri)
            .map_err(|reason| UpstreamError::TooLarge { server: self.server().clone(), reason })?;
        if !is_first {
            return Ok(());
        }
        let outcome = self.tell_of(uri, "resources/subscribe").await;
        if outcome.is_err() {
            self.origin.state.unwatch(uri);
        }
        outcome
    }

    pub(crate) async fn unwatch(&self, uri: &str) -> Result<(), UpstreamError> {
        if self.origin.state.unwatch(uri) { self.tell_of(uri, "resources/unsubscribe").await } else { Ok(()) }
    }

    async fn tell_of(&self, uri: &str, method: &str) -> Result<(), UpstreamError> {
        if self.origin.is_modern {
            return self.listen().await;
        }
        self.ask(method, members([("uri", Value::from(uri))]), &CallContext::default(), method).await?;
        Ok(())
    }

    /// Subscribes to everything that is currently of interest.
    pub(super) async fn listen(&self) -> Result<(), UpstreamError> {
        let Some(peer) = self.peer.peer_info().filter(|_| self.origin.is_modern) else {
            return Ok(());
        };
        let mut listener = self.watching.0.lock().await;
        let offered = &peer.capabilities;
        let mut filter = SubscriptionFilter::new();
        let wanted = |tells: Option<bool>| tells.filter(|tells| *tells);
        filter.tools_list_changed = wanted(offered.tools.as_ref().and_then(|tools| tools.list_changed));
        filter.prompts_list_changed = wanted(offered.prompts.as_ref().and_then(|prompts| prompts.list_changed));
        filter.resources_list_changed = wanted(offered.resources.as_ref().and_then(|resources| resources.list_changed));
        filter.resource_subscriptions = Some(self.origin.state.watched()).filter(|watched| !watched.is_empty());
        if filter == SubscriptionFilter::new() {
            *listener = None;
            return Ok(());
        }
        let after = self.origin.spec.call_timeout;
        // The new subscription comes first, so that nothing is missed in between.
        let subscription = tokio::select! {
            subscription = self.peer.listen(filter) => subscription,
            () = self.origin.state.ended.cancelled() => return Err(self.ended()),
            () = tokio::time::sleep(after) => return Err(self.timed_out("subscriptions/listen", after)),
        };
        match subscription {
            Ok(subscription) => {
                *listener = Some(Listener::new(subscription));
                Ok(())
            }
            Err(error) => Err(self.explained(error).await),
        }
    }

    pub(super) async fn stop_listening(&self) {
        *self.watching.0.lock().await = None;
    }
}
