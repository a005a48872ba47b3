use super::privacy::{LabelText, PrivacyText};
use crate::expand::references;
use coracle_types::{PrivacyMode, Scope, Secret, ServerLabel};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// MCP server: a program (`command`) or an HTTP endpoint (`url`). `${VAR}`, `${VAR:-default}` and `${env:VAR}` are
/// expanded from the environment and `.env` in `command`, `args`, `env`, `envFile`, `cwd`, `sandbox_read`,
/// `sandbox_write`, `url`, `headers`, `client_id` and `client_secret`; `$${` is a literal `${`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct McpServer {
    /// Transport. Defaults to `stdio` with `command` and to `http` with `url`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub connection: Option<ConnectionType>,
    /// Program to start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Arguments of the program.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<Text>")]
    pub args: Vec<Secret>,
    /// Environment variables of the program, in addition to a small set that is always passed on, such as `PATH`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, Text>")]
    pub env: BTreeMap<String, Secret>,
    /// File with more environment variables, in `.env` format.
    #[serde(rename = "envFile", skip_serializing_if = "Option::is_none")]
    pub env_file: Option<String>,
    /// Working directory of the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Sandbox for the program: `native` shows it system folders and those of `sandbox_read` and `sandbox_write` instead of
    /// all files of the user, and gives it no network. Without it, the program has all rights of the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<ServerSandbox>,
    /// Folders that the program may read in its sandbox, at the same paths.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sandbox_read: Vec<String>,
    /// Folders that the program may read and write in its sandbox, at the same paths.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sandbox_write: Vec<String>,
    /// URL of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub url: Option<Secret>,
    /// HTTP headers to send with each request.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, Text>")]
    pub headers: BTreeMap<String, Secret>,
    /// OAuth client ID, for an authorization server without dynamic client registration; or the URL of a client ID
    /// metadata document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// OAuth client secret, if the client has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub client_secret: Option<Secret>,
    /// Scope: `user` (the default) uses one process or connection per user; `shared` uses one for all users, for a
    /// server that keeps no per-user state.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<ScopeText>")]
    pub scope: Option<Scope>,
    /// Short description of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Category of the server's tools, for tool search.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    /// Labels of the server: `private` (it has personal or confidential data), `untrusted` (strangers can write what it
    /// returns) and `exfil` (data that it gets can leave the organization). They replace the labels that are guessed; an
    /// empty list means that the server has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<LabelText>>")]
    pub labels: Option<Vec<ServerLabel>>,
    /// Where personal data from this server is replaced by tokens. Defaults to `privacy.mode`, and to at least `model` for
    /// a server with the label `private`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<PrivacyText>")]
    pub privacy: Option<PrivacyMode>,
    /// Maximum time to wait until the server is ready, in seconds. Defaults to 60.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.001, max = 86400))]
    pub start_timeout: Option<f64>,
    /// Maximum time to wait for the result of one call, in seconds. Defaults to 120.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.001, max = 86400))]
    pub call_timeout: Option<f64>,
    /// Do not use this server.
    #[serde(skip_serializing_if = "is_false")]
    pub disabled: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands it out so")]
fn is_false(value: &bool) -> bool {
    !value
}

impl McpServer {
    /// Where personal data from this server is replaced by tokens, if this is the mode in general.
    pub fn privacy_mode(&self, general: PrivacyMode) -> PrivacyMode {
        // Only a label of the configuration: a guess does not change what code and models see.
        let is_private = self.labels.iter().flatten().any(|label| *label == ServerLabel::Private);
        self.privacy.unwrap_or(if is_private { general.max(PrivacyMode::Model) } else { general })
    }

    /// The variables that the entry refers to, such as `TOKEN` in `${TOKEN}`.
    pub fn variables(&self) -> BTreeSet<String> {
        let secrets = self.args.iter().chain(self.env.values()).chain(self.headers.values());
        let secrets = secrets.chain(&self.url).chain(&self.client_secret).map(Secret::expose);
        let texts = [&self.command, &self.cwd, &self.env_file, &self.client_id];
        let texts = texts.into_iter().flatten().map(String::as_str);
        let texts = texts.chain(self.sandbox_read.iter().chain(&self.sandbox_write).map(String::as_str));
        secrets.chain(texts).flat_map(references).map(str::to_owned).collect()
    }
}

/// Sandbox for the program of an MCP server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ServerSandbox {
    /// The same as for code, with Linux namespaces.
    Native,
}

/// Transport of an MCP server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ConnectionType {
    /// Child process that communicates over standard input and output.
    Stdio,
    /// Streamable HTTP.
    #[serde(alias = "streamable-http", alias = "streamable_http", alias = "streamableHttp")]
    Http,
    /// HTTP+SSE, the older transport that streamable HTTP replaced in 2025.
    Sse,
}

/// Scope of an MCP server.
#[derive(JsonSchema)]
#[schemars(rename = "Scope", rename_all = "lowercase")]
#[expect(dead_code, reason = "only its schema is used")]
enum ScopeText {
    /// One process or connection per user.
    User,
    /// One process or connection for all users.
    Shared,
}

/// String; numbers and booleans are used as written.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum Text {
    /// String value.
    Plain(String),
    /// Number, used as written.
    Number(f64),
    /// Boolean, used as written.
    Truth(bool),
}
