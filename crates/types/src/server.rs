use crate::{Secret, ServerName};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// How to reach an MCP server, with all variables expanded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerSpec {
    /// The name of the server in the configuration.
    pub name: ServerName,
    /// The transport.
    pub transport: Transport,
    /// Whether users share one connection.
    pub scope: Scope,
    /// What the server is for, if the configuration says so.
    pub description: Option<String>,
    /// The category, if the configuration sets one.
    pub category: Option<String>,
    /// The OAuth client to sign in with, if one is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<OauthClient>,
    /// Maximum time until the server is ready.
    pub start_timeout: Duration,
    /// Maximum time until a call is answered.
    pub call_timeout: Duration,
}

/// An OAuth client that an authorization server knows or can look up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OauthClient {
    /// The registered client ID, or the URL of a client ID metadata document.
    pub id: String,
    /// The client secret, if any.
    pub secret: Option<Secret>,
}

/// How to talk to a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Transport {
    /// A child process.
    Stdio {
        /// The program.
        command: String,
        /// Arguments. They may hold credentials.
        args: Vec<Secret>,
        /// Variables that are added to a minimal environment.
        env: BTreeMap<String, Secret>,
        /// The working directory.
        cwd: Option<PathBuf>,
    },
    /// Streamable HTTP.
    Http {
        /// The URL.
        url: Secret,
        /// Headers to send with each request.
        headers: BTreeMap<String, Secret>,
    },
    /// HTTP with server-sent events, the transport of 2024.
    Sse {
        /// The URL of the event stream.
        url: Secret,
        /// Headers to send with each request.
        headers: BTreeMap<String, Secret>,
    },
}

impl Transport {
    /// Whether the server is reached by URL.
    pub fn has_url(&self) -> bool {
        match self {
            Self::Http { .. } | Self::Sse { .. } => true,
            Self::Stdio { .. } => false,
        }
    }
}

/// Whether users share one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Each user has a separate process or separate credentials.
    User,
    /// All users share one connection: the server keeps no data about users.
    Shared,
}
