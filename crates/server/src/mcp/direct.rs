//! The gateway: every tool, resource and prompt of every server, passed through as it is, past the same policy.

mod lists;
mod requests;
mod watching;

use crate::mcp::Face;
use coracle_types::ServerName;
use coracle_upstream::{Upstream, UpstreamError};
use rmcp::ErrorData;
use rmcp::model::{ErrorCode, ServerCapabilities};
use serde_json::Value;

/// What the gateway offers; what of it a server has not is empty.
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

impl Face {
    /// The connections to the servers.
    fn upstream(&self) -> Result<&Upstream, ErrorData> {
        let upstream = self.toolbox().and_then(|toolbox| toolbox.upstream().passes_on());
        upstream.ok_or_else(|| ErrorData::internal_error("no servers are configured", None))
    }

    fn servers(&self) -> Vec<ServerName> {
        let specs = self.toolbox().map(|toolbox| toolbox.upstream().servers()).unwrap_or_default();
        specs.into_iter().map(|spec| spec.name.clone()).collect()
    }
}

/// What a server did not do, as the client is told.
fn failed(error: &UpstreamError) -> ErrorData {
    match error {
        UpstreamError::Refused { number, message, data, .. } => refused(*number, message.clone(), data.clone()),
        other => ErrorData::internal_error(other.to_string(), None),
    }
}

/// A server's own refusal, in its words.
fn refused(number: i64, message: String, data: Option<Box<Value>>) -> ErrorData {
    let number = i32::try_from(number).unwrap_or(ErrorCode::INTERNAL_ERROR.0);
    ErrorData::new(ErrorCode(number), message, data.map(|data| *data))
}

/// What came from a server, as the protocol library knows it.
fn read<T: serde::de::DeserializeOwned>(mut value: Value, server: &ServerName) -> Result<T, ErrorData> {
    // Servers of before 2026 do not say of what kind their answer is, and clients of today want to know.
    if let Some(members) = value.as_object_mut() {
        members.entry("resultType").or_insert_with(|| "complete".into());
    }
    serde_json::from_value(value).map_err(|error| {
        tracing::warn!(%server, %error, "an answer is malformed");
        ErrorData::internal_error(format!("the answer of server {server} is malformed"), None)
    })
}
