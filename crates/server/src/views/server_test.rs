use super::LabelView;
use coracle_engine::Toolbox;
use coracle_types::{ServerName, UserId};
use coracle_upstream::{ServerInfo, ServerState, ToolWarning, UpstreamError};
use serde::Serialize;
use std::time::{Duration, Instant};
use utoipa::ToSchema;

/// Result of connecting to a server
#[derive(Debug, Default, Serialize, ToSchema)]
#[schema(as = ServerTest)]
pub struct ServerTestView {
    /// Server name
    pub name: String,
    /// Whether the server listed its tools
    pub ok: bool,
    /// Time that it took, in milliseconds
    pub ms: u64,
    /// Number of tools
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<usize>,
    /// Protocol revision in use
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// Name and version that the server reports
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// Labels of the server
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<LabelView>,
    /// Warnings about tools and policy rules
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Names of the environment variables that the server gets; only in the output of commands
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub environment: Vec<String>,
    /// Names of the environment variables that are withheld; only in the output of commands
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub withheld: Vec<String>,
    /// Stable error code
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<&'static str>,
    /// Reason of the failure
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Fix for the failure
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl ServerTestView {
    /// Connects to a server if necessary, and lists its tools.
    pub async fn of(toolbox: &Toolbox, user: &UserId, name: &ServerName) -> Self {
        let begun = Instant::now();
        let listed = toolbox.refresh(user, name).await;
        let took = begun.elapsed();
        let list = match listed {
            Ok(list) => list,
            Err(error) => {
                // The hint of these errors would suggest the same test.
                let hint = error.hint().filter(|_| !matches!(error, UpstreamError::Unavailable { .. }));
                return Self::failed(name.to_string(), took, error.code(), error.to_string(), hint);
            }
        };
        let info = toolbox.upstream().status(user).into_iter().find_map(|status| match status.state {
            ServerState::Ready(info) if status.name == *name => Some(info),
            _ => None,
        });
        let info = info.unwrap_or_default();
        Self {
            name: name.to_string(),
            ok: true,
            ms: milliseconds(took),
            tools: Some(list.tools.len()),
            server: described(&info),
            protocol: Some(info.protocol),
            warnings: list.warnings.iter().map(warning).collect(),
            ..Self::default()
        }
    }

    /// The result for a server that cannot be used.
    pub fn failed(name: String, took: Duration, code: &'static str, reason: String, hint: Option<String>) -> Self {
        let (code, reason) = (Some(code), Some(reason));
        Self { name, ms: milliseconds(took), code, reason, hint, ..Self::default() }
    }
}

fn warning(warning: &ToolWarning) -> String {
    let left_out = if warning.kept { "" } else { "; it is ignored" };
    format!("tool {:?}: {}{left_out}", warning.tool, warning.problem)
}

fn described(info: &ServerInfo) -> Option<String> {
    let name = info.name.as_ref()?;
    Some(match &info.version {
        Some(version) => format!("{name} {version}"),
        None => name.clone(),
    })
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
