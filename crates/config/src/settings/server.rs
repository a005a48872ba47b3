use crate::expand::references;
use coracle_types::{Scope, Secret};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// One MCP server: a program with `command`, or an address with `url`. `${VAR}`, `${VAR:-default}` and `${env:VAR}` are
/// filled in from the environment and `.env` in `command`, `args`, `env`, `envFile`, `cwd`, `url`, `headers`, `client_id` and
/// `client_secret`; `$${` is a literal `${`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct McpServer {
    /// How to talk to it; without it `stdio` for a program and `http` for an address.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub connection: Option<ConnectionType>,
    /// The program to start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Its arguments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<Text>")]
    pub args: Vec<Secret>,
    /// Its environment variables, besides a small set of harmless ones.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, Text>")]
    pub env: BTreeMap<String, Secret>,
    /// A file with more environment variables, in the form of `.env`.
    #[serde(rename = "envFile", skip_serializing_if = "Option::is_none")]
    pub env_file: Option<String>,
    /// Its working directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The address.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub url: Option<Secret>,
    /// Sent with each request.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, Text>")]
    pub headers: BTreeMap<String, Secret>,
    /// What Coracle is registered as with whoever signs people in to it, where that cannot be done on the way; or the
    /// address of a document that describes the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// The secret that belongs to it, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub client_secret: Option<Secret>,
    /// `user`, the default: each user has their own process or connection. `shared`: one for all, for a server that
    /// keeps nothing about anybody.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<ScopeText>")]
    pub scope: Option<Scope>,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Where it belongs among the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    /// Longest wait in seconds for it to be ready; 60 without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.001, max = 86400))]
    pub start_timeout: Option<f64>,
    /// Longest wait in seconds for the answer to one call; 120 without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.001, max = 86400))]
    pub call_timeout: Option<f64>,
    /// Leave it alone.
    #[serde(skip_serializing_if = "is_false")]
    pub disabled: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands it out so")]
fn is_false(value: &bool) -> bool {
    !value
}

impl McpServer {
    /// The variables that it refers to, such as `TOKEN` in `${TOKEN}`.
    pub fn variables(&self) -> BTreeSet<String> {
        let secrets = self.args.iter().chain(self.env.values()).chain(self.headers.values());
        let secrets = secrets.chain(&self.url).chain(&self.client_secret).map(Secret::expose);
        let texts = [&self.command, &self.cwd, &self.env_file, &self.client_id];
        let texts = texts.into_iter().flatten().map(String::as_str);
        secrets.chain(texts).flat_map(references).map(str::to_owned).collect()
    }
}

/// How to talk to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ConnectionType {
    /// A child process.
    Stdio,
    /// Streamable HTTP.
    #[serde(alias = "streamable-http", alias = "streamable_http", alias = "streamableHttp")]
    Http,
    /// HTTP with server-sent events, as servers did before 2025.
    Sse,
}

/// The schema of a [`Scope`], which knows nothing of schemas.
#[derive(JsonSchema)]
#[schemars(rename = "Scope", rename_all = "lowercase")]
#[expect(dead_code, reason = "only its schema is used")]
enum ScopeText {
    /// Each user has their own process or connection.
    User,
    /// One for all.
    Shared,
}

/// A text; numbers and truth values are taken as they are written.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum Text {
    /// A text.
    Plain(String),
    /// A number.
    Number(f64),
    /// A truth value.
    Truth(bool),
}
