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
/// is started before `tools` or `call`. While a server's tools have not changed, `tools` returns the same `Arc`. An unknown
/// server or tool is an error and not a panic: names come from hostile code.
#[async_trait]
pub trait Servers: Send + Sync + fmt::Debug {
    /// All servers.
    fn servers(&self) -> Vec<Arc<ServerSpec>>;

    /// The server with this name.
    fn server(&self, name: &ServerName) -> Option<Arc<ServerSpec>> {
        self.servers().into_iter().find(|spec| spec.name == *name)
    }

    /// Receives an event when the tools of a server have changed.
    fn changes(&self) -> broadcast::Receiver<Change>;

    /// State of the servers for this user, as far as it is known. Starts nothing.
    fn status(&self, _user: &UserId) -> Vec<ServerStatus> {
        Vec::new()
    }

    /// The tools of a server as it lists them now.
    async fn tools(&self, user: &UserId, server: &ServerName) -> Result<Arc<ToolList>, UpstreamError>;

    /// Calls a tool by its name on the wire. The arguments have been checked, and the call has been approved.
    async fn call(
        &self,
        user: &UserId,
        server: &ServerName,
        tool: &str,
        arguments: Map<String, Value>,
        context: CallContext,
    ) -> Result<ToolResult, UpstreamError>;

    /// The connections themselves, if these are MCP servers, for callers that forward their messages unchanged.
    fn passes_on(&self) -> Option<&Upstream> {
        None
    }

    /// Ends all servers and waits until they have ended. They cannot be started again.
    async fn shutdown(&self);
}

#[async_trait]
impl Servers for Upstream {
    fn servers(&self) -> Vec<Arc<ServerSpec>> {
        self.servers()
    }

    fn server(&self, name: &ServerName) -> Option<Arc<ServerSpec>> {
        self.server(name)
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
