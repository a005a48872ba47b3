use crate::{Secret, ServerName};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// How to reach somebody's MCP server, with all variables filled in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerSpec {
    /// What Coracle calls it.
    pub name: ServerName,
    /// How to talk to it.
    pub transport: Transport,
    /// Whether users share one connection.
    pub scope: Scope,
    /// What it is for, if the configuration says so.
    pub description: Option<String>,
    /// Where it belongs, if the configuration says so.
    pub category: Option<String>,
    /// As whom to sign in to it, where that is settled beforehand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<OauthClient>,
    /// Longest wait for it to be ready.
    pub start_timeout: Duration,
    /// Longest wait for the answer to one call.
    pub call_timeout: Duration,
}

/// A client that an authorization server knows, or can look up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OauthClient {
    /// What it was registered as, or the address of a document that describes it.
    pub id: String,
    /// Its secret, if it has one.
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
        /// Its arguments; they may hold credentials.
        args: Vec<Secret>,
        /// Added to a small environment.
        env: BTreeMap<String, Secret>,
        /// Its working directory.
        cwd: Option<PathBuf>,
    },
    /// Streamable HTTP.
    Http {
        /// The address.
        url: Secret,
        /// Sent with each request.
        headers: BTreeMap<String, Secret>,
    },
    /// HTTP with server-sent events, as servers did before 2025.
    Sse {
        /// The address of the event stream.
        url: Secret,
        /// Sent with each request.
        headers: BTreeMap<String, Secret>,
    },
}

/// Whether users share a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Each user has their own process or credentials.
    User,
    /// One for all: the server keeps nothing about anybody.
    Shared,
}
