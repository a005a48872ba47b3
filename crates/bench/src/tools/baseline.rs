//! The MCP library alone, with one tool that does nothing. Benchmarks compare Coracle with it.

use axum::Router;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ListToolsResult, PaginatedRequestParams,
    ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, ServerHandler, ServiceExt};
use std::sync::Arc;
use tokio::net::TcpListener;

/// Hidden command that serves it, which only this program calls.
pub(crate) const BASELINE: &str = "baseline";

/// Name of the only tool.
pub(super) const TOOL: &str = "nothing";

/// MCP server whose only tool does nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Baseline;

impl ServerHandler for Baseline {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = serde_json::json!({ "type": "object" }).as_object().cloned().unwrap_or_default();
        Ok(ListToolsResult::with_all_items(vec![Tool::new(TOOL, "Does nothing.", Arc::new(schema))]))
    }

    async fn call_tool(
        &self,
        _request: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        Ok(CallToolResult::success(vec![ContentBlock::text("done")]).into())
    }
}

impl Baseline {
    /// Serves one client over standard input and output.
    pub(crate) async fn over_stdio(self) -> std::io::Result<()> {
        let service = self.serve(rmcp::transport::io::stdio_pipes()).await.map_err(std::io::Error::other)?;
        service.waiting().await.map(drop).map_err(std::io::Error::other)
    }

    /// Serves `/mcp` on this listener until the future is dropped.
    pub(super) async fn over_http(self, listener: TcpListener) -> std::io::Result<()> {
        let config = StreamableHttpServerConfig::default().with_json_response(true);
        let service = StreamableHttpService::new(move || Ok(self), Arc::new(LocalSessionManager::default()), config);
        axum::serve(listener, Router::new().nest_service("/mcp", service)).await
    }
}
