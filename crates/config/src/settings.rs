//! What can be set, as plain data. The comments here are the descriptions in the schema.

mod data;
mod execution;
mod server;
mod sign_in;

pub use data::{Artifacts, CleanupMode, History, Workspaces, WorkspacesCleanup};
pub use execution::{Execution, ExecutionLimits, Microsandbox, SandboxType};
pub use server::{ConnectionType, McpServer};
pub use sign_in::Oidc;

use coracle_types::{Decision, Limits, MAX_CALL_BYTES, Secret};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The settings of Coracle: `coracle.yaml`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// How and where code runs.
    pub execution: Execution,
    /// What no request may exceed, and how code is looked at before it runs.
    pub guardrails: Guardrails,
    /// Which tools may be called.
    pub policy: Policy,
    /// Caps on the tool calls that code makes.
    pub calls: Calls,
    /// How tools are chosen for a task.
    pub search: Search,
    /// Files that code leaves for its user.
    pub artifacts: Artifacts,
    /// How much of what has run is kept.
    pub history: History,
    /// The folders of users.
    pub workspaces: Workspaces,
    /// What `coracle mcp` and `coracle up` show to clients, and where.
    pub server: Server,
    /// What is logged, and where to.
    pub log: Log,
    /// The chat agent.
    pub agent: Agent,
    /// MCP servers by name, as Claude, Cursor and VS Code write them. A list of `name`, `url` and `connection_type` under
    /// `mcp_servers` is understood too.
    #[serde(rename = "mcpServers")]
    pub mcp_servers: BTreeMap<String, McpServer>,
}

/// What no request may exceed, and how code is looked at before it runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Guardrails {
    /// Whether the guardrails are on.
    pub enabled: bool,
    /// Refuse what would otherwise only be warned about.
    pub strict_mode: bool,
    /// Look at code before it runs.
    pub security_checks: bool,
    /// The longest time in seconds that an execution may be given, whatever it asks for.
    pub max_execution_time: Option<f64>,
    /// The most memory in MB that an execution may be given, whatever it asks for.
    pub max_memory_mb: Option<u64>,
}

impl Default for Guardrails {
    fn default() -> Self {
        Self { enabled: true, strict_mode: false, security_checks: true, max_execution_time: None, max_memory_mb: None }
    }
}

/// Which tools may be called.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// What happens to a call, by pattern: `server.tool`, `server.*`, `server.delete_*` or `*`. The narrowest pattern
    /// counts. Without any, tools that say they are destructive ask, and others are allowed.
    #[schemars(with = "BTreeMap<String, DecisionText>")]
    pub tools: BTreeMap<String, Decision>,
}

/// The schema of a [`Decision`], which knows nothing of schemas.
#[derive(JsonSchema)]
#[schemars(rename = "Decision", rename_all = "lowercase")]
#[expect(dead_code, reason = "only its schema is used")]
enum DecisionText {
    /// The call is made.
    Allow,
    /// A person is asked.
    Ask,
    /// The call is refused.
    Deny,
}

/// Caps on the tool calls that code makes. How many there may be is `execution.limits.calls`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Calls {
    /// The largest arguments of one call, in bytes of JSON.
    #[schemars(range(min = 1024, max = MAX_CALL_BYTES))]
    pub max_argument_bytes: u64,
    /// The largest result of one call, in bytes of JSON; what is longer is an error that code can catch.
    #[schemars(range(min = 1024, max = MAX_CALL_BYTES))]
    pub max_result_bytes: u64,
    /// How many calls of one execution may wait for their answers at once.
    #[schemars(range(min = 1, max = 1024))]
    pub concurrency: u64,
}

impl Default for Calls {
    fn default() -> Self {
        Self { max_argument_bytes: 4 << 20, max_result_bytes: MAX_CALL_BYTES, concurrency: 32 }
    }
}

/// How tools are found, and chosen for a task by `coracle tools select`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Search {
    /// How many tools are chosen at most.
    #[schemars(range(min = 1, max = 100))]
    pub select_top: u64,
    /// A tool is chosen if it fits at least this well, in percent of the one that fits best.
    #[schemars(range(min = 0, max = 100))]
    pub select_threshold: u64,
    /// A folder that describes tools, in a folder for each category: what is in it is found even if its server is not
    /// connected. Without it `tools_registry` in the current folder, if there is one.
    pub registry_dir: Option<PathBuf>,
    /// Another model that says what texts mean, instead of the table inside the program. Descriptions of tools and what
    /// is searched for are sent to it.
    pub embedder: Embedder,
}

impl Default for Search {
    fn default() -> Self {
        Self { select_top: 5, select_threshold: 60, registry_dir: None, embedder: Embedder::default() }
    }
}

/// Another model that says what texts mean. Used if it has a `model`, and a `url` or an endpoint of `agent.azure_openai`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Embedder {
    /// An address that answers as OpenAI's embeddings do, with or without `/embeddings` at its end; or the endpoint of an
    /// Azure resource. Without it, the endpoint, key and version of `agent.azure_openai`.
    pub url: Option<String>,
    /// The model; with Azure, the deployment.
    pub model: Option<String>,
    /// The key; better in the environment than in the file.
    #[schemars(with = "Option<String>")]
    pub api_key: Option<Secret>,
    /// The version of Azure's API. An address with one is Azure's, whatever its name.
    pub api_version: Option<String>,
    /// How many numbers a vector has, for models that let one choose.
    #[schemars(range(min = 1, max = 16384))]
    pub dimensions: Option<u64>,
}

/// What `coracle mcp` and `coracle up` show to clients, and where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Server {
    /// The address that `coracle up` listens on.
    pub host: String,
    /// The port; with 0 the system chooses one.
    #[schemars(range(min = 0, max = 65535))]
    pub port: u64,
    /// Which tools clients see: `code`, three small ones; `direct`, all of all servers as they are; `full`, all of
    /// Coracle's own.
    #[schemars(with = "ProfileText")]
    pub profile: String,
    /// Exactly these tools instead.
    pub tools: Option<Vec<String>>,
    /// Host names under which this server may be addressed, besides those of the loopback interface.
    pub allowed_hosts: Vec<String>,
    /// Web pages of these origins may call it, besides its own: `https://chat.example`.
    pub allowed_origins: Vec<String>,
    /// Who must sign in: `auto`, everyone as soon as there is a user; `required`, everyone from the start. Addresses
    /// that others can reach are served to nobody who has not signed in.
    #[schemars(with = "sign_in::AuthText")]
    pub auth: String,
    /// The address under which people know this server, if that is not where it listens: `https://coracle.example`.
    pub public_url: Option<String>,
    /// Proxies whose `x-forwarded-for` is believed: addresses (`10.0.0.7`) or networks (`10.0.0.0/8`). The address that
    /// they name is the one whose sign-in attempts and connections are counted.
    pub trusted_proxies: Vec<String>,
    /// Proxies whose `x-user-id` is believed: whoever it names is signed in. They must remove that header from what comes
    /// to them. Their `x-forwarded-for` is believed too.
    pub user_id_proxies: Vec<String>,
    /// How long a browser stays signed in.
    #[schemars(range(min = 1, max = 8760))]
    pub session_hours: u64,
    /// The most connections at once; fewer if the limit on open files does not allow for as many. One address, but for
    /// those of `trusted_proxies`, may have a quarter of them.
    #[schemars(range(min = 16, max = 1_000_000))]
    pub max_connections: u64,
    /// Sign-in by an OpenID provider.
    pub oidc: Oidc,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            host: "127.0.0.1".to_owned(),
            port: 8989,
            profile: "code".to_owned(),
            tools: None,
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            auth: "auto".to_owned(),
            public_url: None,
            trusted_proxies: Vec::new(),
            user_id_proxies: Vec::new(),
            session_hours: 168,
            max_connections: 4_096,
            oidc: Oidc::default(),
        }
    }
}

/// The schema of a profile, which the server crate knows.
#[derive(JsonSchema)]
#[schemars(rename = "Profile", rename_all = "lowercase")]
#[expect(dead_code, reason = "only its schema is used")]
enum ProfileText {
    /// Three small tools: run code, find a tool, read its definition.
    Code,
    /// Every tool, resource and prompt of every server, as it is.
    Direct,
    /// All tools of Coracle's own.
    Full,
}

/// What is logged, and where to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Log {
    /// A level (`error`, `warn`, `info`, `debug`, `trace`) or a filter such as `warn,coracle_upstream=debug`.
    pub level: String,
    /// A file to write the log to instead of standard error.
    pub file: Option<PathBuf>,
}

impl Default for Log {
    fn default() -> Self {
        Self { level: "warn".to_owned(), file: None }
    }
}

/// The chat agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Agent {
    /// The model that is used when nobody names one.
    pub default_model: Option<String>,
    /// Azure OpenAI, if models come from there.
    pub azure_openai: AzureOpenAi,
}

/// Azure OpenAI.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AzureOpenAi {
    /// The address of the resource.
    pub endpoint: Option<String>,
    /// The key; better in the environment than in the file.
    #[schemars(with = "Option<String>")]
    pub api_key: Option<Secret>,
    /// The version of the API.
    pub api_version: Option<String>,
    /// The deployment to use.
    pub deployment: Option<String>,
}

impl Settings {
    /// What an execution gets if it asks for nothing, within the guardrails.
    pub fn limits(&self) -> Limits {
        self.within_guardrails(self.execution.limits.to_limits())
    }

    /// Lowers what is above a guardrail.
    pub fn within_guardrails(&self, mut limits: Limits) -> Limits {
        if self.guardrails.enabled {
            if let Some(seconds) = self.guardrails.max_execution_time {
                limits.wall_ms = limits.wall_ms.min(execution::milliseconds(seconds));
            }
            if let Some(most) = self.guardrails.max_memory_mb {
                limits.memory_mb = limits.memory_mb.min(most);
            }
        }
        limits
    }
}
