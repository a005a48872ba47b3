//! The gateway: forwards every tool, resource and prompt of every server, subject to the same policy.

mod lists;
mod questions;
mod requests;
mod watching;

use crate::mcp::Frontend;
use coracle_types::ServerName;
use coracle_upstream::Upstream;
use rmcp::ErrorData;
use rmcp::model::{ErrorCode, ServerCapabilities};
use serde_json::Value;

/// Capabilities of the gateway. Lists are empty if no server offers a capability.
pub(crate) fn capabilities() -> ServerCapabilities {
    let all = serde_json::json!({
        "tools": { "listChanged": true },
        "resources": { "subscribe": true, "listChanged": true },
        "prompts": { "listChanged": true },
        "completions": {},
        "logging": {},
    });
    serde_json::from_value(all).unwrap_or_default()
}

impl Frontend {
    /// Returns the connections to the servers.
    fn upstream(&self) -> Result<&Upstream, ErrorData> {
        let upstream = self.toolbox().and_then(|toolbox| toolbox.upstream().passes_on());
        upstream.ok_or_else(|| ErrorData::internal_error("no servers are configured", None))
    }

    fn servers(&self) -> Vec<ServerName> {
        let specs = self.toolbox().map(|toolbox| toolbox.upstream().servers()).unwrap_or_default();
        specs.into_iter().map(|spec| spec.name.clone()).collect()
    }
}

/// Returns a server's own error unchanged.
fn refused(number: i64, message: String, data: Option<Box<Value>>) -> ErrorData {
    let number = i32::try_from(number).unwrap_or(ErrorCode::INTERNAL_ERROR.0);
    ErrorData::new(ErrorCode(number), message, data.map(|data| *data))
}

/// Parses a server's response.
fn read<T: serde::de::DeserializeOwned>(mut value: Value, server: &ServerName) -> Result<T, ErrorData> {
    // Servers before 2026 do not send `resultType`, which current clients require.
    if let Some(members) = value.as_object_mut() {
        members.entry("resultType").or_insert_with(|| "complete".into());
    }
    serde_json::from_value(value).map_err(|error| {
        tracing::warn!(%server, %error, "malformed response");
        ErrorData::internal_error(format!("malformed response from server {server}"), None)
    })
}
