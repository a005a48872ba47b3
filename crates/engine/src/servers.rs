use async_trait::async_trait;
use coracle_types::{ServerName, ServerSpec, ToolResult, UserId};
use coracle_upstream::{CallContext, Change, ServerStatus, ToolList, Upstream, UpstreamError};
use serde_json::{Map, Value};
use std::fmt;
use std::sync::Arc;
use tokio::sync::broadcast;

/// The servers below the broker: [`Upstream`], or tools that the embedding program offers itself.
///
/// Contract: all methods are called concurrently and for many users, and the futures may be dropped at any await. Nothing
/// is started before `tools` or `call`. While a server's tools have not changed, `tools` gives the same `Arc`. A server or
/// tool that is not there is an error and no panic: names come from hostile code.
#[async_trait]
pub trait Servers: Send + Sync + fmt::Debug {
    /// The servers there are; always the same.
    fn servers(&self) -> Vec<&ServerSpec>;

    /// Tells when the tools of a server have changed.
    fn changes(&self) -> broadcast::Receiver<Change>;

    /// How they are doing for this user, as far as there is anything to tell. Starts nothing.
    fn status(&self, _user: &UserId) -> Vec<ServerStatus> {
        Vec::new()
    }

    /// The tools of a server as it lists them now.
    async fn tools(&self, user: &UserId, server: &ServerName) -> Result<Arc<ToolList>, UpstreamError>;

    /// Calls a tool by its name on the wire. The arguments have been checked, and somebody has allowed it.
    async fn call(
        &self,
        user: &UserId,
        server: &ServerName,
        tool: &str,
        arguments: Map<String, Value>,
        context: CallContext,
    ) -> Result<ToolResult, UpstreamError>;

    /// The connections themselves, if these are MCP servers: for whoever passes on what they say as it is.
    fn passes_on(&self) -> Option<&Upstream> {
        None
    }

    /// Ends everything and waits until it has ended. There is no way back.
    async fn shutdown(&self);
}

#[async_trait]
impl Servers for Upstream {
    fn servers(&self) -> Vec<&ServerSpec> {
        self.servers()
    }

    fn changes(&self) -> broadcast::Receiver<Change> {
        self.changes()
    }

    fn status(&self, user: &UserId) -> Vec<ServerStatus> {
        self.status(user)
    }

    async fn tools(&self, user: &UserId, server: &ServerName) -> Result<Arc<ToolList>, UpstreamError> {
        self.tools(user, server).await
    }

    async fn call(
        &self,
        user: &UserId,
        server: &ServerName,
        tool: &str,
        arguments: Map<String, Value>,
        context: CallContext,
    ) -> Result<ToolResult, UpstreamError> {
        self.call(user, server, tool, arguments, context).await
    }

    fn passes_on(&self) -> Option<&Upstream> {
        Some(self)
    }

    async fn shutdown(&self) {
        self.shutdown().await;
    }
}
