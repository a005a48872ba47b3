//! The requests of a gateway beyond tool calls: everything that a server offers, in the protocol's shape.

use crate::call::CallContext;
use crate::connection::{PROMPTS, RESOURCES, TEMPLATES};
use crate::error::UpstreamError;
use crate::status::ServerInfo;
use crate::upstream::Upstream;
use coracle_types::{ServerName, UserId};
use serde_json::{Map, Value};

/// Answers are returned unchanged: JSON of the protocol, limited by the maximum message size, and untrusted. All of
/// these methods connect to the server if necessary.
impl Upstream {
    /// The server's description of itself.
    pub async fn info(&self, user: &UserId, server: &ServerName) -> Result<ServerInfo, UpstreamError> {
        Ok(self.lease_for(user, server, &CallContext::default()).await?.info().clone())
    }

    /// Calls a tool by its name on the wire. If the server requires input and the context cannot answer questions, the
    /// result has `"resultType": "input_required"`.
    pub async fn call_raw(
        &self,
        user: &UserId,
        server: &ServerName,
        tool: &str,
        arguments: Map<String, Value>,
        context: CallContext,
    ) -> Result<Value, UpstreamError> {
        self.lease_for(user, server, &context).await?.call_raw(tool, arguments, &context).await
    }

    /// The resources of a server. Empty if it does not offer any.
    pub async fn resources(&self, user: &UserId, server: &ServerName) -> Result<Vec<Value>, UpstreamError> {
        let lease = self.lease_for(user, server, &CallContext::default()).await?;
        if lease.info().offers.resources { lease.list(RESOURCES).await } else { Ok(Vec::new()) }
    }

    /// The resource templates of a server. Empty if it does not offer any.
    pub async fn resource_templates(&self, user: &UserId, server: &ServerName) -> Result<Vec<Value>, UpstreamError> {
        let lease = self.lease_for(user, server, &CallContext::default()).await?;
        if lease.info().offers.resources { lease.list(TEMPLATES).await } else { Ok(Vec::new()) }
    }

    /// The prompts of a server. Empty if it does not offer any.
    pub async fn prompts(&self, user: &UserId, server: &ServerName) -> Result<Vec<Value>, UpstreamError> {
        let lease = self.lease_for(user, server, &CallContext::default()).await?;
        if lease.info().offers.prompts { lease.list(PROMPTS).await } else { Ok(Vec::new()) }
    }

    /// Reads a resource.
    pub async fn read_resource(
        &self,
        user: &UserId,
        server: &ServerName,
        uri: &str,
        context: CallContext,
    ) -> Result<Value, UpstreamError> {
        self.lease_for(user, server, &context).await?.read_resource(uri, &context).await
    }

    /// Gets a prompt with its arguments filled in.
    pub async fn get_prompt(
        &self,
        user: &UserId,
        server: &ServerName,
        name: &str,
        arguments: Map<String, Value>,
        context: CallContext,
    ) -> Result<Value, UpstreamError> {
        self.lease_for(user, server, &context).await?.get_prompt(name, arguments, &context).await
    }

    /// Completes an argument of a prompt or a template: the parameters and result of `completion/complete`.
    pub async fn complete(
        &self,
        user: &UserId,
        server: &ServerName,
        params: Map<String, Value>,
        context: CallContext,
    ) -> Result<Value, UpstreamError> {
        self.lease_for(user, server, &context).await?.complete(params, &context).await
    }

    /// Subscribes to changes of a resource, which are sent to [`Self::changes`], until it was unsubscribed as often or
    /// the connection has ended. While there is a subscription, the connection is not idle.
    pub async fn subscribe(&self, user: &UserId, server: &ServerName, uri: &str) -> Result<(), UpstreamError> {
        self.lease_for(user, server, &CallContext::default()).await?.watch(uri).await
    }

    /// Ends a subscription of [`Self::subscribe`].
    pub async fn unsubscribe(&self, user: &UserId, server: &ServerName, uri: &str) -> Result<(), UpstreamError> {
        self.lease_for(user, server, &CallContext::default()).await?.unwatch(uri).await
    }

    /// Sets the minimum level of log messages (`debug`, `info`, …) for the connection, not for one call.
    pub async fn set_level(&self, user: &UserId, server: &ServerName, level: &str) -> Result<(), UpstreamError> {
        self.lease_for(user, server, &CallContext::default()).await?.set_level(level).await
    }
}
