//! What a gateway needs beyond calls: everything that a server offers, in the protocol's own shape.

use crate::call::CallContext;
use crate::connection::{PROMPTS, RESOURCES, TEMPLATES};
use crate::error::UpstreamError;
use crate::status::ServerInfo;
use crate::upstream::Upstream;
use coracle_types::{ServerName, UserId};
use serde_json::{Map, Value};

/// Answers are handed on as they came: JSON of the protocol, within the cap on messages, hostile in all its parts. All
/// of these connect to the server if need be.
impl Upstream {
    /// What a server says of itself.
    pub async fn info(&self, user: &UserId, server: &ServerName) -> Result<ServerInfo, UpstreamError> {
        Ok(self.lease_for(user, server, &CallContext::default()).await?.info().clone())
    }

    /// Calls a tool by its name on the wire. If the server wants input first and the context has nobody to give it, the
    /// result is one with `"resultType": "input_required"`.
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

    /// The resources of a server; empty if it has none.
    pub async fn resources(&self, user: &UserId, server: &ServerName) -> Result<Vec<Value>, UpstreamError> {
        let lease = self.lease_for(user, server, &CallContext::default()).await?;
        if lease.info().offers.resources { lease.list(RESOURCES).await } else { Ok(Vec::new()) }
    }

    /// The templates for addresses of resources; empty if it has none.
    pub async fn resource_templates(&self, user: &UserId, server: &ServerName) -> Result<Vec<Value>, UpstreamError> {
        let lease = self.lease_for(user, server, &CallContext::default()).await?;
        if lease.info().offers.resources { lease.list(TEMPLATES).await } else { Ok(Vec::new()) }
    }

    /// The prompts of a server; empty if it has none.
    pub async fn prompts(&self, user: &UserId, server: &ServerName) -> Result<Vec<Value>, UpstreamError> {
        let lease = self.lease_for(user, server, &CallContext::default()).await?;
        if lease.info().offers.prompts { lease.list(PROMPTS).await } else { Ok(Vec::new()) }
    }

    /// What is in a resource.
    pub async fn read_resource(
        &self,
        user: &UserId,
        server: &ServerName,
        uri: &str,
        context: CallContext,
    ) -> Result<Value, UpstreamError> {
        self.lease_for(user, server, &context).await?.read_resource(uri, &context).await
    }

    /// A prompt with its arguments filled in.
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

    /// Wants to hear of changes of a resource by [`Self::changes`], until as many have unsubscribed as have subscribed,
    /// or the connection has ended. While there is one, the connection is not idle.
    pub async fn subscribe(&self, user: &UserId, server: &ServerName, uri: &str) -> Result<(), UpstreamError> {
        self.lease_for(user, server, &CallContext::default()).await?.watch(uri).await
    }

    /// The end of a [`Self::subscribe`].
    pub async fn unsubscribe(&self, user: &UserId, server: &ServerName, uri: &str) -> Result<(), UpstreamError> {
        self.lease_for(user, server, &CallContext::default()).await?.unwatch(uri).await
    }

    /// From which level on log messages are wanted: `debug`, `info`, … It holds for the connection, not for one call.
    pub async fn set_level(&self, user: &UserId, server: &ServerName, level: &str) -> Result<(), UpstreamError> {
        self.lease_for(user, server, &CallContext::default()).await?.set_level(level).await
    }
}
