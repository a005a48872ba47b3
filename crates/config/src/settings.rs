//! The settings as plain data. The doc comments are the descriptions in the schema.

mod agent;
mod audit;
mod data;
mod execution;
mod limits;
mod privacy;
mod server;
mod sign_in;

pub use agent::{Agent, Api, AzureOpenAi, CodeFences, Provider};
pub use audit::{Audit, AuditSync};
pub use data::{Artifacts, CleanupMode, History, Workspaces, WorkspacesCleanup};
pub use execution::{Docker, Execution, Microsandbox, SandboxType};
pub use limits::ExecutionLimits;
pub(crate) use limits::setting;
pub use privacy::{Privacy, PrivacyKinds};
pub use server::{ConnectionType, McpServer};
pub use sign_in::Oidc;

use coracle_types::{Decision, Limits, MAX_CALL_BYTES, Secret};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Coracle settings (`coracle.yaml`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Code execution: sandbox, interpreter, folders and limits.
    pub execution: Execution,
    /// Upper bounds that no request can exceed, and checks of code before it runs.
    pub guardrails: Guardrails,
    /// Rules that allow or deny tool calls, or require confirmation.
    pub policy: Policy,
    /// Plans: what code would change, until a person approves it.
    pub plan: PlanMode,
    /// Protection of personal data.
    pub privacy: Privacy,
    /// Limits on the tool calls that code makes.
    pub calls: Calls,
    /// Tool search and tool selection.
    pub search: Search,
    /// Artifacts: files that code leaves for its user.
    pub artifacts: Artifacts,
    /// Retention of executions, sessions and tasks.
    pub history: History,
    /// Audit log.
    pub audit: Audit,
    /// User workspaces.
    pub workspaces: Workspaces,
    /// Servers for clients: `coracle mcp` and `coracle up`.
    pub server: Server,
    /// Log level and destination.
    pub log: Log,
    /// Models for the chat agent, and its limits.
    pub agent: Agent,
    /// MCP servers by name, in the format of Claude, Cursor and VS Code. A list of `name`, `url` and `connection_type`
    /// under `mcp_servers` is accepted, too.
    #[serde(rename = "mcpServers")]
    pub mcp_servers: BTreeMap<String, McpServer>,
}

/// Upper bounds that no request can exceed, and checks of code before it runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Guardrails {
    /// Enforce the settings of this section. With `false`, none of them has an effect.
    pub enabled: bool,
    /// Refuse dangerous code, with the error code `denied`. Otherwise it runs, and the result has a warning.
    pub strict_mode: bool,
    /// Check code before it runs.
    pub security_checks: bool,
    /// Rules and names that the checks do not report: the ID of a rule, such as `call`, or the name of a module, a
    /// function or a command, such as `subprocess` or `os.system`.
    pub allow: Vec<String>,
    /// Modules that code must not import, in addition to those of the rule `import`.
    pub deny_imports: Vec<String>,
    /// Maximum wall-clock time of an execution, in seconds. Requests for more are lowered to this value.
    pub max_execution_time: Option<f64>,
    /// Maximum memory of an execution, in MB (10^6 bytes). Requests for more are lowered to this value.
    pub max_memory_mb: Option<u64>,
}

impl Default for Guardrails {
    fn default() -> Self {
        Self {
            enabled: true,
            strict_mode: false,
            security_checks: true,
            allow: Vec::new(),
            deny_imports: Vec::new(),
            max_execution_time: None,
            max_memory_mb: None,
        }
    }
}

/// Rules that allow or deny tool calls, or require confirmation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// Decisions by tool pattern: `server.tool`, `server.*`, `server.delete_*` or `*`. The narrowest matching pattern
    /// applies. Without a match, tools that declare themselves destructive require confirmation, and all others are
    /// allowed.
    #[schemars(with = "BTreeMap<String, DecisionText>")]
    pub tools: BTreeMap<String, Decision>,
    /// Rules about where data may go, such as `crm -> mail: allow [EMAIL, PERSON]`: a source and a sink, each a server, a
    /// pattern, `label:NAME` or `*`, then `allow`, `ask` or `deny`, and optionally kinds of personal data. The most specific
    /// matching rule applies, and of several such rules the strictest.
    pub flows: Vec<String>,
    /// Decision about calls to a server labelled `exfil`, by code that has read from a server labelled `private` and from
    /// one labelled `untrusted`.
    pub trifecta: Trifecta,
    /// Maximum time to wait for a person who answers over HTTP, in seconds. After that, the call is refused.
    #[schemars(range(min = 1, max = 86_400))]
    pub approval_seconds: u64,
    /// Guess the labels of servers whose entries have no `labels`, from commands, URLs and names.
    pub guess_labels: bool,
    /// Users by group. Policies and approvals refer to these groups.
    pub groups: BTreeMap<String, Vec<String>>,
    /// Groups that approve calls in place of the user whose code makes them, by tool pattern as in `policy.tools`: a
    /// group, a list of groups, or `{group: GROUP, count: 2}` if several members have to approve. `none` leaves the decision
    /// to `policy.tools`.
    #[schemars(with = "BTreeMap<String, ApproversText>")]
    pub approvers: BTreeMap<String, Approvers>,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            tools: BTreeMap::new(),
            flows: Vec::new(),
            trifecta: Trifecta::Ask,
            approval_seconds: 600,
            guess_labels: true,
            groups: BTreeMap::new(),
            approvers: BTreeMap::new(),
        }
    }
}

/// Decision about a call where private and untrusted data come together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Trifecta {
    /// A person has to approve the call.
    #[default]
    Ask,
    /// The call is refused.
    Deny,
    /// No rule applies.
    Off,
}

/// Plans: what code would change, until a person approves it.
///
/// Tools are given as patterns: `server.tool`, `server.*` or `server.get_*`. The narrowest matching pattern applies.
/// Without a match, tools that declare themselves read-only are called while a plan is made, and all others are planned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PlanMode {
    /// Tools that only read, whatever they declare. They are called while a plan is made.
    pub read_only: Vec<String>,
    /// Tools that only read and give another answer each time, such as the current time. Their answers are not compared
    /// before a plan is run.
    pub varying: Vec<String>,
    /// Tools that change something, whatever they declare. They are planned.
    pub writing: Vec<String>,
    /// Tools that may be called while a plan is made to say what they would do. They need a boolean argument `dry_run`,
    /// `dryRun`, `preview`, `validate_only` or `validateOnly`, which is set to true.
    pub previews: Vec<String>,
    /// Time in which a plan can be approved, in hours.
    #[schemars(range(min = 1, max = 720))]
    pub keep_hours: u64,
}

impl Default for PlanMode {
    fn default() -> Self {
        Self { read_only: Vec::new(), varying: Vec::new(), writing: Vec::new(), previews: Vec::new(), keep_hours: 24 }
    }
}

/// People who have to approve calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Approvers {
    /// Groups whose members may approve. Empty if it is the user who is asked.
    #[serde(rename = "group")]
    pub groups: Vec<String>,
    /// Number of members who have to approve.
    pub count: u32,
}

/// People who have to approve calls.
#[derive(JsonSchema)]
#[schemars(rename = "Approvers")]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum ApproversText {
    /// Groups whose members may approve. One of them has to.
    Groups(GroupNames),
    /// Groups, and the number of members who have to approve.
    Counted(CountedApprovers),
}

/// Number of members of groups who have to approve.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct CountedApprovers {
    /// Groups whose members may approve.
    group: GroupNames,
    /// Number of members who have to approve. The user whose code makes the call is none of them if it is more than 1.
    #[schemars(range(min = 1, max = 5))]
    count: Option<u32>,
}

/// Names of groups.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum GroupNames {
    /// Single group.
    One(String),
    /// List of groups.
    Several(Vec<String>),
}

/// Decision about a tool call.
#[derive(JsonSchema)]
#[schemars(rename = "Decision", rename_all = "lowercase")]
#[expect(dead_code, reason = "only its schema is used")]
enum DecisionText {
    /// Make the call.
    Allow,
    /// Ask a person before making the call.
    Ask,
    /// Refuse the call.
    Deny,
}

/// Limits on the tool calls that code makes. The number of calls is limited by `execution.limits.calls`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Calls {
    /// Maximum size of the arguments of one call, in bytes of JSON.
    #[schemars(range(min = 1024, max = MAX_CALL_BYTES))]
    pub max_argument_bytes: u64,
    /// Maximum size of the result of one call, in bytes of JSON. A larger result is an error that code can catch.
    #[schemars(range(min = 1024, max = MAX_CALL_BYTES))]
    pub max_result_bytes: u64,
    /// Maximum number of concurrent calls of one execution.
    #[schemars(range(min = 1, max = 1024))]
    pub concurrency: u64,
}

impl Default for Calls {
    fn default() -> Self {
        Self { max_argument_bytes: 4 << 20, max_result_bytes: MAX_CALL_BYTES, concurrency: 32 }
    }
}

/// Tool search, and tool selection by `coracle tools select`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Search {
    /// Maximum number of tools to select.
    #[schemars(range(min = 1, max = 100))]
    pub select_top: u64,
    /// Minimum score of a selected tool, in percent of the best score.
    #[schemars(range(min = 0, max = 100))]
    pub select_threshold: u64,
    /// Folder that describes tools, with one subfolder per category. Search finds these tools even if their servers are
    /// not connected. Defaults to `tools_registry` in the current folder, if that exists.
    pub registry_dir: Option<PathBuf>,
    /// Embeddings model to use instead of the built-in table. Tool descriptions and search queries are sent to it,
    /// except queries from sandboxed code.
    pub embedder: Embedder,
}

impl Default for Search {
    fn default() -> Self {
        Self { select_top: 5, select_threshold: 60, registry_dir: None, embedder: Embedder::default() }
    }
}

/// Embeddings model for tool search. Used if `model` is set, and either `url` or `agent.azure_openai.endpoint`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Embedder {
    /// URL of an OpenAI-compatible embeddings API, with or without `/embeddings` at the end, or the endpoint of an
    /// Azure OpenAI resource. Defaults to the endpoint of `agent.azure_openai`, with its key and version.
    pub url: Option<String>,
    /// Model name; for Azure, the deployment name.
    pub model: Option<String>,
    /// API key. Prefer an environment variable to the settings file.
    #[schemars(with = "Option<String>")]
    pub api_key: Option<Secret>,
    /// Azure API version. If set, `url` is treated as an Azure endpoint, whatever its host name.
    pub api_version: Option<String>,
    /// Number of dimensions of a vector, for models that support several.
    #[schemars(range(min = 1, max = 16384))]
    pub dimensions: Option<u64>,
}

/// Servers for clients: `coracle mcp` and `coracle up`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Server {
    /// IP address that `coracle up` listens on, or `localhost`.
    pub host: String,
    /// Port that `coracle up` listens on; 0 picks a free port.
    #[schemars(range(min = 0, max = 65535))]
    pub port: u64,
    /// Addresses that `coracle up` listens on instead of `host` and `port`: one, such as `127.0.0.1:8989`, or a list. An
    /// address without a port has that of `port`; a port alone has the address of `host`.
    #[schemars(with = "Addresses")]
    pub listen: Vec<String>,
    /// Tools to offer to clients: `code` (three small tools), `direct` (all tools of all servers) or `full` (all of
    /// Coracle's own tools).
    #[schemars(with = "ProfileText")]
    pub profile: String,
    /// Coracle tools to offer instead of those of the profile.
    pub tools: Option<Vec<String>>,
    /// Host names to accept in requests, in addition to those of the loopback interface.
    pub allowed_hosts: Vec<String>,
    /// Origins whose web pages may call this server, in addition to its own, such as `https://chat.example`.
    pub allowed_origins: Vec<String>,
    /// Origins whose web pages may use this server from a browser (CORS), such as `https://app.example`, or `*` for all.
    /// Their requests are authenticated by an API key or a token only, never by a cookie. On a server without users,
    /// the key is the file `api_key` in the data folder.
    pub cors_origins: Vec<String>,
    /// Authentication: `auto` requires sign-in once a user exists, `required` always does. Sign-in is also always
    /// required on an address that other machines can reach, and with `oidc.issuer`, `trusted_proxies` or
    /// `user_id_proxies`.
    #[schemars(with = "sign_in::AuthText")]
    pub auth: String,
    /// Public URL of this server, if it differs from the address it listens on, such as `https://coracle.example`.
    pub public_url: Option<String>,
    /// Proxies whose `x-forwarded-for` header is trusted: addresses (`10.0.0.7`) or networks (`10.0.0.0/8`). Sign-in
    /// attempts and connections are counted for the client address in that header.
    pub trusted_proxies: Vec<String>,
    /// Proxies whose `x-user-id` header is trusted: requests run as the user that it names. The proxies must remove
    /// this header from incoming requests. Their `x-forwarded-for` header is trusted, too.
    pub user_id_proxies: Vec<String>,
    /// Lifetime of a browser sign-in, in hours.
    #[schemars(range(min = 1, max = 8760))]
    pub session_hours: u64,
    /// Maximum number of concurrent connections; lower if the limit on open files requires it. One client address can
    /// use a quarter of them, unless it is in `trusted_proxies`.
    #[schemars(range(min = 16, max = 1_000_000))]
    pub max_connections: u64,
    /// Maximum number of requests per minute to `/v1`, and of writes to `/api`, for each API key, and for each user who
    /// signs in otherwise. Unlimited if it is not set.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub requests_per_minute: Option<u64>,
    /// Whether admins may add MCP servers that start a command, over the API and on the page. Such a command runs outside
    /// the sandbox, as the user who runs Coracle. Always possible on a server without users.
    pub allow_command_servers: bool,
    /// Sign-in with an OpenID provider.
    pub oidc: Oidc,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            host: "127.0.0.1".to_owned(),
            port: 8989,
            listen: Vec::new(),
            profile: "code".to_owned(),
            tools: None,
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            cors_origins: Vec::new(),
            auth: "auto".to_owned(),
            public_url: None,
            trusted_proxies: Vec::new(),
            user_id_proxies: Vec::new(),
            session_hours: 168,
            max_connections: 4_096,
            requests_per_minute: None,
            allow_command_servers: false,
            oidc: Oidc::default(),
        }
    }
}

/// Addresses to listen on.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum Addresses {
    /// List of addresses.
    Several(Vec<String>),
    /// Single address.
    One(String),
}

/// Set of tools offered to clients.
#[derive(JsonSchema)]
#[schemars(rename = "Profile", rename_all = "lowercase")]
#[expect(dead_code, reason = "only its schema is used")]
enum ProfileText {
    /// Three small tools: run code, find a tool, read its definition.
    Code,
    /// All tools, resources and prompts of all servers, unchanged.
    Direct,
    /// All of Coracle's own tools.
    Full,
}

/// Log level and destination.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Log {
    /// Log level (`error`, `warn`, `info`, `debug`, `trace`) or filter, such as `warn,coracle_upstream=debug`.
    pub level: String,
    /// File to write the log to instead of standard error.
    pub file: Option<PathBuf>,
}

impl Default for Log {
    fn default() -> Self {
        Self { level: "warn".to_owned(), file: None }
    }
}

impl Settings {
    /// The default limits of an execution, within the guardrails.
    pub fn limits(&self) -> Limits {
        self.within_guardrails(self.execution.limits.to_limits())
    }

    /// Lowers limits that are above a guardrail.
    pub fn within_guardrails(&self, mut limits: Limits) -> Limits {
        if self.guardrails.enabled {
            if let Some(most) = self.guardrails.max_execution_time.and_then(Limits::wall_ms_of) {
                limits.wall_ms = limits.wall_ms.min(most);
            }
            if let Some(most) = self.guardrails.max_memory_mb {
                limits.memory_mb = limits.memory_mb.min(most);
            }
        }
        limits
    }
}
