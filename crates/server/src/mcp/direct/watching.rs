//! Notifications about changes at the servers, and log levels.

use crate::mcp::Frontend;
use coracle_upstream::{Change, Changed, Owner};
use rmcp::ErrorData;
use rmcp::model::{ResourceUpdatedNotificationParam, SetLevelRequestParams, SubscriptionFilter};
use rmcp::service::{Peer, RoleServer, SubscriptionContext};
use serde_json::Value;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

impl Frontend {
    fn concerns(&self, change: &Change) -> bool {
        match &change.owner {
            Owner::Everyone => true,
            Owner::User(user) => *user == self.user(),
        }
    }

    /// Next change at this user's servers; `None` if there will be no more.
    async fn next_change(&self, changes: &mut Receiver<Change>) -> Option<Changed> {
        loop {
            match changes.recv().await {
                Ok(change) if self.concerns(&change) => return Some(change.what),
                Ok(_) => {}
                // After missed changes it is unknown which ones; the tools matter most.
                Err(RecvError::Lagged(_)) => return Some(Changed::Tools),
                Err(RecvError::Closed) => return None,
            }
        }
    }

    /// Notifies a client with its own connection until it disconnects.
    pub(crate) fn tell_of_changes(&self, peer: Peer<RoleServer>) {
        let Ok(upstream) = self.upstream() else { return };
        let (frontend, mut changes) = (self.clone(), upstream.changes());
        tokio::spawn(async move {
            while let Some(what) = frontend.next_change(&mut changes).await {
                let told = match what {
                    Changed::Tools => peer.notify_tool_list_changed().await,
                    Changed::Resources => peer.notify_resource_list_changed().await,
                    Changed::Prompts => peer.notify_prompt_list_changed().await,
                    Changed::Resource { uri } => {
                        peer.notify_resource_updated(ResourceUpdatedNotificationParam::new(uri)).await
                    }
                };
                if told.is_err() {
                    return;
                }
            }
        });
    }

    /// Notifies a client with a subscription.
    pub(crate) async fn listened(&self, subscription: SubscriptionContext) -> Result<(), ErrorData> {
        let (upstream, user) = (self.upstream()?, self.user());
        let mut changes = upstream.changes();
        let accepted: SubscriptionFilter = subscription.accepted().clone();
        let mut watched = Vec::new();
        for uri in accepted.resource_subscriptions.iter().flatten() {
            for server in self.holders(uri).await {
                if self.subscribe_at(&server, uri).await.is_ok() {
                    watched.push((server, uri.clone()));
                }
            }
        }
        let sink = subscription.sink();
        loop {
            let what = tokio::select! {
                () = subscription.cancelled() => break,
                what = self.next_change(&mut changes) => what,
            };
            let told = match what {
                None => break,
                Some(Changed::Tools) if accepted.tools_list_changed == Some(true) => {
                    sink.notify_tool_list_changed().await
                }
                Some(Changed::Prompts) if accepted.prompts_list_changed == Some(true) => {
                    sink.notify_prompt_list_changed().await
                }
                Some(Changed::Resources) if accepted.resources_list_changed == Some(true) => {
                    sink.notify_resource_list_changed().await
                }
                Some(Changed::Resource { uri }) if watched.iter().any(|(_, known)| uri.starts_with(known.as_str())) => {
                    sink.notify_resource_updated(uri).await
                }
                Some(_) => Ok(()),
            };
            if told.is_err() {
                break;
            }
        }
        for (server, uri) in watched {
            // The server may be gone by now.
            let _ = upstream.unsubscribe(&user, &server, &uri).await;
        }
        Ok(())
    }

    pub(crate) async fn watch(&self, uri: &str) -> Result<(), ErrorData> {
        let mut last = ErrorData::resource_not_found("no server has this resource", None);
        for server in self.holders(uri).await {
            match self.subscribe_at(&server, uri).await {
                Ok(()) => return Ok(()),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    pub(crate) async fn unwatch(&self, uri: &str) -> Result<(), ErrorData> {
        for server in self.holders(uri).await {
            // Servers without a subscription have nothing to end.
            let _ = self.upstream()?.unsubscribe(&self.user(), &server, uri).await;
        }
        Ok(())
    }

    /// Sets the log level on the connections to the servers, which the clients of one user share.
    pub(crate) async fn set_levels(&self, request: &SetLevelRequestParams) -> Result<(), ErrorData> {
        let level = serde_json::to_value(request.level).ok();
        let Some(level) = level.as_ref().and_then(Value::as_str) else { return Ok(()) };
        let (upstream, user) = (self.upstream()?, self.user());
        for server in self.servers() {
            let offers = upstream.info(&user, &server).await.is_ok_and(|info| info.offers.logging);
            if offers && let Err(error) = upstream.set_level(&user, &server, level).await {
                tracing::warn!(%server, %error, "cannot set the log level");
            }
        }
        Ok(())
    }
}
