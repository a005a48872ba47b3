//! The table of all keys, with their types and the names that earlier tools used.

use coracle_types::MAX_CALL_BYTES;

/// The sections whose entries have names that the user chooses.
pub(crate) const TOOLS: &str = "policy.tools";
/// The list of rules about the flow of data.
pub(crate) const FLOWS: &str = "policy.flows";
/// See [`TOOLS`].
pub(crate) const APPROVERS: &str = "policy.approvers";
/// See [`TOOLS`].
pub(crate) const SERVERS: &str = "mcpServers";
/// See [`TOOLS`].
pub(crate) const PROVIDERS: &str = "agent.providers";
/// The list of servers in the format of earlier tools.
pub(crate) const OLD_SERVERS: &str = "mcp_servers";

/// The Python interpreter for sandboxes, another name of the variable for `execution.python`.
pub const PYTHON_VARIABLE: &str = "CORACLE_PYTHON";
/// The log filter, another name of the variable for `log.level`.
pub const LOG_VARIABLE: &str = "CORACLE_LOG";

/// The type of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `true` or `false`.
    Truth,
    /// An integer in this range.
    Whole(u64, u64),
    /// An integer in the range of the corresponding limit of an execution.
    Limit,
    /// More than zero and at most a day.
    Seconds,
    /// A string.
    Text,
    /// A string that is never printed.
    Secret,
    /// A log filter. Level names of other languages are accepted, too.
    Level,
    /// A path, relative to the source that contains it.
    Path,
    /// A path, or the name of a program.
    Program,
    /// One of these names, each with its meaning.
    Choice(&'static [(&'static str, &'static str)]),
    /// A list of these names.
    Choices(&'static [(&'static str, &'static str)]),
    /// A list of strings.
    Texts,
    /// A list of strings, or a single one.
    TextOrTexts,
    /// Strings by name.
    TextMap,
    /// Lists of strings by name.
    TextLists,
    /// Decisions by pattern.
    Decisions,
    /// A list of strings, each with a place of its own. Weaker sources add to it.
    Rules,
    /// Groups of approvers by pattern.
    Approvers,
    /// Model providers by name.
    Providers,
}

/// One setting.
#[derive(Debug)]
pub(crate) struct Key {
    /// The path in the file.
    pub(crate) path: &'static str,
    /// The type.
    pub(crate) kind: Kind,
    /// Other environment variables for the key, strongest first.
    pub(crate) other_variables: &'static [&'static str],
}

const fn key(path: &'static str, kind: Kind) -> Key {
    Key { path, kind, other_variables: &[] }
}

const fn also(path: &'static str, kind: Kind, other_variables: &'static [&'static str]) -> Key {
    Key { path, kind, other_variables }
}

/// Sandbox types, with names of earlier tools.
const SANDBOX_TYPES: &[(&str, &str)] = &[
    ("native", "native"),
    ("docker", "docker"),
    ("microvm", "microvm"),
    ("kubernetes", "kubernetes"),
    ("microsandbox", "microvm"),
];

/// Sets of tools that clients see.
const PROFILES: &[(&str, &str)] = &[("code", "code"), ("direct", "direct"), ("full", "full")];

/// Authentication modes.
const AUTH: &[(&str, &str)] = &[("auto", "auto"), ("required", "required"), ("on", "required")];
/// Cleanup modes for unused workspaces.
const CLEANUP_MODES: &[(&str, &str)] = &[("off", "off"), ("dry_run", "dry_run"), ("delete", "delete")];

/// When records of the audit log are synced.
const AUDIT_SYNC: &[(&str, &str)] = &[("interval", "interval"), ("always", "always")];
/// Where personal data is replaced by tokens.
const PRIVACY_MODES: &[(&str, &str)] = &[("off", "off"), ("model", "model"), ("strict", "strict")];
/// Decisions about private and untrusted data together.
const TRIFECTA: &[(&str, &str)] = &[("ask", "ask"), ("deny", "deny"), ("off", "off")];
/// Labels of servers.
const LABELS: &[(&str, &str)] = &[("private", "private"), ("untrusted", "untrusted"), ("exfil", "exfil")];

/// A limit in bytes on one call.
const BYTES: Kind = Kind::Whole(1024, MAX_CALL_BYTES);

/// A limit on the tokens of several requests.
const RUN_TOKENS: Kind = Kind::Whole(1_000, 1_000_000_000_000);

/// All keys except the servers.
pub(crate) const KEYS: &[Key] = &[
    key("execution.sandbox_type", Kind::Choice(SANDBOX_TYPES)),
    also("execution.sandbox_image", Kind::Text, &["MCP_EXECUTOR_IMAGE"]),
    also("execution.workspace_dir", Kind::Path, &["WORKSPACE_DIR"]),
    also("execution.servers_dir", Kind::Path, &["SERVERS_DIR"]),
    also("execution.skills_dir", Kind::Path, &["SKILLS_DIR", "MCP_SKILLS_PATH"]),
    also("execution.tools_dir", Kind::Path, &["MCP_TOOLS_PATH"]),
    key("execution.allow_network_access", Kind::Truth),
    key("execution.require_full_isolation", Kind::Truth),
    also("execution.python", Kind::Program, &[PYTHON_VARIABLE]),
    key("execution.requirements", Kind::Path),
    key("execution.preload", Kind::Texts),
    also("execution.docker.host", Kind::Text, &["DOCKER_HOST"]),
    key("execution.docker.runtime", Kind::Text),
    key("execution.docker.idle_seconds", Kind::Whole(1, 86_400)),
    key("execution.limits.time", Kind::Seconds),
    key("execution.limits.memory_mb", Kind::Limit),
    key("execution.limits.processes", Kind::Limit),
    key("execution.limits.open_files", Kind::Limit),
    key("execution.limits.file_mb", Kind::Limit),
    key("execution.limits.workspace_mb", Kind::Limit),
    key("execution.limits.workspace_files", Kind::Limit),
    key("execution.limits.tmp_mb", Kind::Limit),
    also("execution.limits.artifacts_mb", Kind::Limit, &["MCP_ARTIFACT_SIZE_LIMIT_MB"]),
    key("execution.limits.output_bytes", Kind::Limit),
    key("execution.limits.output_tokens", Kind::Limit),
    key("execution.limits.calls", Kind::Limit),
    also("execution.microsandbox.server_url", Kind::Text, &["MSB_SERVER_URL"]),
    also("execution.microsandbox.api_key", Kind::Secret, &["MSB_API_KEY"]),
    also("guardrails.enabled", Kind::Truth, &["GUARDRAILS_ENABLED"]),
    also("guardrails.strict_mode", Kind::Truth, &["GUARDRAILS_STRICT_MODE"]),
    also("guardrails.security_checks", Kind::Truth, &["GUARDRAILS_SECURITY_CHECKS"]),
    key("guardrails.allow", Kind::Texts),
    key("guardrails.deny_imports", Kind::Texts),
    also("guardrails.max_execution_time", Kind::Seconds, &["GUARDRAILS_MAX_EXECUTION_TIME"]),
    also("guardrails.max_memory_mb", Kind::Whole(32, 1 << 20), &["GUARDRAILS_MAX_MEMORY_MB"]),
    key(TOOLS, Kind::Decisions),
    key(FLOWS, Kind::Rules),
    key("policy.trifecta", Kind::Choice(TRIFECTA)),
    key("policy.approval_seconds", Kind::Whole(1, 86_400)),
    key("policy.guess_labels", Kind::Truth),
    key("policy.groups", Kind::TextLists),
    key(APPROVERS, Kind::Approvers),
    key("plan.read_only", Kind::Texts),
    key("plan.varying", Kind::Texts),
    key("plan.writing", Kind::Texts),
    key("plan.previews", Kind::Texts),
    key("plan.keep_hours", Kind::Whole(1, 720)),
    key("privacy.mode", Kind::Choice(PRIVACY_MODES)),
    key("privacy.restore_to_model", Kind::Truth),
    key("privacy.keep_days", Kind::Whole(1, 36_500)),
    key("privacy.kinds.enable", Kind::Texts),
    key("privacy.kinds.disable", Kind::Texts),
    key("privacy.patterns", Kind::TextMap),
    key("privacy.words", Kind::Texts),
    key("calls.max_argument_bytes", BYTES),
    key("calls.max_result_bytes", BYTES),
    key("calls.concurrency", Kind::Whole(1, 1024)),
    key("search.registry_dir", Kind::Path),
    key("search.select_top", Kind::Whole(1, 100)),
    key("search.select_threshold", Kind::Whole(0, 100)),
    also("search.embedder.url", Kind::Text, &["AZURE_OPENAI_EMBEDDER_ENDPOINT"]),
    also(
        "search.embedder.model",
        Kind::Text,
        &["AZURE_OPENAI_EMBEDDER_DEPLOYMENT", "AZURE_OPENAI_EMBEDDER_MODEL", "AZURE_OPENAI_EMBEDDER_NAME"],
    ),
    also("search.embedder.api_key", Kind::Secret, &["AZURE_OPENAI_EMBEDDER_API_KEY"]),
    also(
        "search.embedder.api_version",
        Kind::Text,
        &["AZURE_OPENAI_EMBEDDER_API_VERSION", "AZURE_OPENAI_EMBEDDER_VERSION"],
    ),
    key("search.embedder.dimensions", Kind::Whole(1, 16_384)),
    key("artifacts.max_mb", Kind::Whole(1, 1 << 24)),
    key("history.executions", Kind::Whole(1, 1_000_000)),
    key("history.sessions", Kind::Whole(1, 1_000_000)),
    key("history.tasks", Kind::Whole(1, 1_000_000)),
    key("history.live_sessions", Kind::Whole(1, 100_000)),
    key("audit.enabled", Kind::Truth),
    key("audit.sync", Kind::Choice(AUDIT_SYNC)),
    key("audit.keep_days", Kind::Whole(1, 36_500)),
    key("workspaces.cleanup.mode", Kind::Choice(CLEANUP_MODES)),
    key("workspaces.cleanup.after_days", Kind::Whole(1, 36_500)),
    key("workspaces.cleanup.notice_hours", Kind::Whole(1, 8_760)),
    key("server.host", Kind::Text),
    key("server.port", Kind::Whole(0, 65_535)),
    key("server.listen", Kind::TextOrTexts),
    key("server.profile", Kind::Choice(PROFILES)),
    key("server.tools", Kind::Texts),
    key("server.allowed_hosts", Kind::Texts),
    key("server.allowed_origins", Kind::Texts),
    key("server.cors_origins", Kind::Texts),
    key("server.auth", Kind::Choice(AUTH)),
    key("server.public_url", Kind::Text),
    key("server.trusted_proxies", Kind::Texts),
    key("server.user_id_proxies", Kind::Texts),
    key("server.session_hours", Kind::Whole(1, 8_760)),
    key("server.max_connections", Kind::Whole(16, 1_000_000)),
    key("server.requests_per_minute", Kind::Whole(1, 1_000_000)),
    key("server.allow_command_servers", Kind::Truth),
    key("server.oidc.issuer", Kind::Text),
    key("server.oidc.client_id", Kind::Text),
    key("server.oidc.client_secret", Kind::Secret),
    key("server.oidc.scopes", Kind::Texts),
    key("server.oidc.auto_create", Kind::Truth),
    key("server.oidc.allowed_domains", Kind::Texts),
    key("server.oidc.audience", Kind::Text),
    also("log.level", Kind::Level, &[LOG_VARIABLE, "LOG_LEVEL"]),
    also("log.file", Kind::Path, &["LOG_FILE"]),
    also("agent.default_model", Kind::Text, &["DEFAULT_MODEL"]),
    key(PROVIDERS, Kind::Providers),
    also("agent.azure_openai.endpoint", Kind::Text, &["AZURE_OPENAI_ENDPOINT"]),
    also("agent.azure_openai.api_key", Kind::Secret, &["AZURE_OPENAI_API_KEY"]),
    also("agent.azure_openai.api_version", Kind::Text, &["AZURE_OPENAI_API_VERSION"]),
    also(
        "agent.azure_openai.deployment",
        Kind::Text,
        &["AZURE_OPENAI_DEPLOYMENT", "AZURE_OPENAI_DEPLOYMENT_NAME", "AZURE_OPENAI_CHAT_DEPLOYMENT_NAME"],
    ),
    key("agent.find_local_servers", Kind::Truth),
    key("agent.max_steps", Kind::Whole(1, 1_000)),
    key("agent.max_calls", Kind::Whole(1, 10_000)),
    key("agent.max_run_tokens", RUN_TOKENS),
    key("agent.daily_tokens", RUN_TOKENS),
    key("agent.instructions", Kind::Text),
    key("agent.allow_image_urls", Kind::Truth),
    key("agent.personal_keys", Kind::Truth),
    key("agent.keep_conversations_days", Kind::Whole(1, 36_500)),
];

/// The key with this path.
pub(crate) fn find(path: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.path == path)
}

/// Whether there are keys that begin with this path and a dot.
pub(crate) fn is_section(path: &str) -> bool {
    KEYS.iter().any(|key| below(key.path, path).is_some())
}

/// The part of `path` after `section`.
fn below<'a>(path: &'a str, section: &str) -> Option<&'a str> {
    if section.is_empty() { Some(path) } else { path.strip_prefix(section)?.strip_prefix('.') }
}

/// The names that a section may contain.
pub(crate) fn names_in(section: &str) -> Vec<&'static str> {
    let mut names: Vec<&str> =
        KEYS.iter().filter_map(|key| below(key.path, section)).filter_map(|rest| rest.split('.').next()).collect();
    if section.is_empty() {
        names.push(SERVERS);
        names.push(OLD_SERVERS);
    }
    names.dedup();
    names
}

/// The keys of a server's entry.
pub(crate) const SERVER_KEYS: &[(&str, Kind)] = &[
    ("type", Kind::Choice(CONNECTION_TYPES)),
    ("command", Kind::Text),
    ("args", Kind::Texts),
    ("env", Kind::TextMap),
    ("envFile", Kind::Text),
    ("cwd", Kind::Text),
    ("url", Kind::Text),
    ("headers", Kind::TextMap),
    ("client_id", Kind::Text),
    ("client_secret", Kind::Text),
    ("scope", Kind::Choice(SCOPES)),
    ("description", Kind::Text),
    ("category", Kind::Text),
    ("labels", Kind::Choices(LABELS)),
    ("privacy", Kind::Choice(PRIVACY_MODES)),
    ("start_timeout", Kind::Seconds),
    ("call_timeout", Kind::Seconds),
    ("disabled", Kind::Truth),
];

const SCOPES: &[(&str, &str)] = &[("user", "user"), ("shared", "shared")];

const CONNECTION_TYPES: &[(&str, &str)] = &[
    ("stdio", "stdio"),
    ("http", "http"),
    ("sse", "sse"),
    ("streamable-http", "http"),
    ("streamable_http", "http"),
    ("streamableHttp", "http"),
];

/// The keys of a model provider's entry.
pub(crate) const PROVIDER_KEYS: &[(&str, Kind)] = &[
    ("url", Kind::Text),
    ("api_key", Kind::Secret),
    ("api", Kind::Choice(APIS)),
    ("api_version", Kind::Text),
    ("code_fences", Kind::Choice(CODE_FENCES)),
    ("context_tokens", Kind::Whole(1_000, 100_000_000)),
    ("models", Kind::Texts),
];

const APIS: &[(&str, &str)] = &[("chat", "chat"), ("responses", "responses"), ("messages", "messages")];

const CODE_FENCES: &[(&str, &str)] = &[("auto", "auto"), ("always", "always"), ("never", "never")];

/// Names that other programs use for our keys. They are only suggested.
pub(crate) const PROVIDER_SYNONYMS: &[(&str, &str)] =
    &[("base_url", "url"), ("baseUrl", "url"), ("endpoint", "url"), ("key", "api_key"), ("token", "api_key")];

/// Names that other clients use for our keys.
pub(crate) const SERVER_SYNONYMS: &[(&str, &str)] = &[
    ("serverUrl", "url"),
    ("httpUrl", "url"),
    ("transport", "type"),
    ("transportType", "type"),
    ("connection_type", "type"),
    ("env_file", "envFile"),
];

/// Lists of tools that other clients hide: calls to them are denied.
pub(crate) const SERVER_DENIED_TOOLS: &[&str] = &["disabledTools", "excludeTools"];

/// The list of the only tools that other clients show. The policy does that here, so it is not ignored silently.
pub(crate) const SERVER_ONLY_TOOLS: &str = "includeTools";

/// Sections whose settings protect something: errors in them are never ignored.
const PROTECTING: [&str; 4] = ["guardrails", "plan", "policy", "privacy"];

/// Whether a setting, or something that looks like one, protects something.
pub(crate) fn protects(path: &str) -> bool {
    PROTECTING.iter().any(|section| path == *section || below(path, section).is_some())
}

/// Keys of other clients that Coracle does not need.
pub(crate) const SERVER_IGNORED: &[&str] = &[
    "alwaysAllow",
    "autoApprove",
    "timeout",
    "trust",
    "gallery",
    "version",
    "dev",
    "icon",
    "metadata",
    "oauth",
    "auth",
    "headersHelper",
    "name",
    "id",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::providers::PROVIDER_VARIABLES;
    use crate::{McpServer, Provider, Settings};
    use serde_json::Value;
    use std::collections::BTreeSet;

    /// The leaves of a schema by path. A map with arbitrary names is a leaf.
    fn leaves(root: &Value, schema: &Value, path: &str, found: &mut BTreeSet<String>) {
        let schema = match schema["$ref"].as_str() {
            Some(reference) => root.pointer(reference.trim_start_matches('#')).unwrap(),
            None => schema,
        };
        match schema["properties"].as_object() {
            Some(properties) => {
                for (name, property) in properties {
                    let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                    leaves(root, property, &path, found);
                }
            }
            None => {
                found.insert(path.to_owned());
            }
        }
    }

    #[test]
    fn the_table_matches_the_settings() {
        let schema = schemars::schema_for!(Settings).to_value();
        let mut found = BTreeSet::new();
        leaves(&schema, &schema, "", &mut found);
        let table: BTreeSet<String> = KEYS.iter().map(|key| key.path.to_owned()).chain([SERVERS.to_owned()]).collect();
        assert_eq!(found, table);
    }

    #[test]
    fn guardrails_have_the_range_of_the_limit() {
        let memory = coracle_types::LIMITS.iter().find(|limit| limit.name == "memory_mb").unwrap();
        assert_eq!(find("guardrails.max_memory_mb").unwrap().kind, Kind::Whole(memory.least, memory.most));
    }

    #[test]
    fn the_table_of_a_server_matches_its_fields() {
        let schema = schemars::schema_for!(McpServer).to_value();
        let mut found = BTreeSet::new();
        leaves(&schema, &schema, "", &mut found);
        assert_eq!(found, SERVER_KEYS.iter().map(|(name, _)| (*name).to_owned()).collect());
    }

    #[test]
    fn the_table_of_a_provider_matches_its_fields() {
        let schema = schemars::schema_for!(Provider).to_value();
        let mut found = BTreeSet::new();
        leaves(&schema, &schema, "", &mut found);
        assert_eq!(found, PROVIDER_KEYS.iter().map(|(name, _)| (*name).to_owned()).collect());
    }

    fn page(name: &str) -> String {
        let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
        std::fs::read_to_string(page).unwrap()
    }

    #[test]
    fn the_documentation_lists_the_variables_of_providers() {
        let page = page("configuration.md");
        for variable in PROVIDER_VARIABLES {
            let names: Vec<String> = variable.names.iter().map(|name| format!("`{name}`")).collect();
            let key = format!("{PROVIDERS}.{}.{}", variable.provider, variable.field);
            let row = format!("| {} | `{key}` |", names.join(", "));
            assert!(page.lines().any(|line| line == row), "{row}");
        }
    }

    #[test]
    fn the_documentation_lists_the_variables_of_earlier_tools() {
        let page = page("compatibility.md");
        for key in KEYS {
            for variable in key.other_variables.iter().filter(|variable| !variable.starts_with("CORACLE_")) {
                let is_row = |line: &str| {
                    line.contains(&format!("`{variable}`")) && line.ends_with(&format!("| `{}` |", key.path))
                };
                assert!(page.lines().any(is_row), "{variable} → {}", key.path);
            }
        }
    }

    #[test]
    fn sections_know_their_names() {
        assert_eq!(names_in("log"), ["level", "file"]);
        assert!(names_in("").contains(&SERVERS) && names_in("").contains(&"execution"));
        assert!(is_section("execution.limits") && !is_section("execution.limit") && !is_section("log.level"));
    }
}
