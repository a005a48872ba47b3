//! Resolves entries to servers that can be started.

use crate::dotenv::DotEnv;
use crate::expand::{ExpandError, expand};
use crate::gather::GatheredServer;
use crate::problem::Warning;
use crate::reader::{MAX_FILE_BYTES, read_text};
use crate::server_sandbox::{Sandboxed, Starter};
use crate::settings::{ConnectionType, McpServer, ServerSandbox};
use crate::value::Base;
use crate::{Origin, import::server_name};
use coracle_types::{OauthClient, Scope, Secret, ServerName, ServerSpec, Transport};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// The default time for a server to be ready. The first start may download it.
const START_TIMEOUT: Duration = Duration::from_mins(1);
/// The default time for an answer.
const CALL_TIMEOUT: Duration = Duration::from_mins(2);

/// A server that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerProblem {
    /// The name in the configuration.
    pub name: String,
    /// Where it is configured.
    pub origin: Origin,
    /// The reason.
    pub fault: ServerFault,
}

impl fmt::Display for ServerProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "server {:?} cannot be used: {}", self.name, self.fault)
    }
}

/// Why a server cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServerFault {
    /// The name is not valid.
    #[error("its name is not valid")]
    Name {
        /// A similar name that is valid.
        suggestion: String,
    },
    /// A variable in the entry is not set.
    #[error("`{field}` needs the variable {variable}, which is not set")]
    MissingVariable {
        /// The key in the entry.
        field: String,
        /// The variable.
        variable: String,
    },
    /// A reference like `${VAR}` is malformed.
    #[error("`{field}` has an invalid `${{…}}`")]
    BadReference {
        /// The key in the entry.
        field: String,
    },
    /// A value is too long after expanding variables.
    #[error("`{field}` is too long")]
    TooLong {
        /// The key in the entry.
        field: String,
    },
    /// The entry has neither a program nor a URL.
    #[error("it has neither `command` nor `url`")]
    Nothing,
    /// The entry has both a program and a URL.
    #[error("it has both `command` and `url`")]
    Both,
    /// The entry lacks a key that its type requires.
    #[error("its type is {kind}, but it has no `{field}`")]
    TypeMismatch {
        /// The type.
        kind: &'static str,
        /// The missing key.
        field: &'static str,
    },
    /// The URL is not valid.
    #[error("its `url` does not begin with http:// or https://")]
    Address,
    /// A name or a value of a header or variable has characters that cannot be sent.
    #[error("`{field}` has characters that cannot be sent")]
    Characters {
        /// The key in the entry.
        field: String,
    },
    /// Only a program can be in a sandbox.
    #[error("it has `sandbox` and `url`, but only a program can be in a sandbox")]
    SandboxOfUrl,
    /// Folders are named for a sandbox that does not exist.
    #[error("it has `{field}`, but no `sandbox`")]
    NoSandbox {
        /// The key in the entry.
        field: &'static str,
    },
    /// The file of variables cannot be read.
    #[error("its `envFile` cannot be read: {reason}")]
    EnvFile {
        /// The reason.
        reason: String,
    },
}

impl ServerFault {
    /// The stable error code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Name { .. } => "server_name",
            Self::MissingVariable { .. } => "missing_variable",
            Self::BadReference { .. } => "bad_reference",
            Self::TooLong { .. } => "too_long",
            Self::Nothing => "no_command_or_url",
            Self::Both => "command_and_url",
            Self::TypeMismatch { .. } => "type_mismatch",
            Self::Address => "bad_url",
            Self::Characters { .. } => "bad_characters",
            Self::SandboxOfUrl => "sandbox_of_url",
            Self::NoSandbox { .. } => "no_sandbox",
            Self::EnvFile { .. } => "env_file",
        }
    }

    /// How to fix the problem.
    pub fn hint(&self) -> String {
        match self {
            Self::Name { suggestion } => format!("rename it to {suggestion}"),
            Self::MissingVariable { variable, .. } => {
                format!("set {variable} in the environment or in .env, or write ${{{variable}:-default}}")
            }
            Self::BadReference { .. } => "write ${VAR}, ${VAR:-default} or ${env:VAR}; $${ is a literal ${".to_owned(),
            Self::TooLong { .. } => "move long values to a file".to_owned(),
            Self::Nothing | Self::Both => {
                "use `command` and `args` for a program, or `url` and `headers` for a remote server".to_owned()
            }
            Self::TypeMismatch { .. } => "remove `type`, or add the key that it requires".to_owned(),
            Self::Address => "use the complete URL, such as https://example.com/mcp".to_owned(),
            Self::Characters { .. } => "remove line breaks and control characters, and `=` from names".to_owned(),
            Self::SandboxOfUrl => "remove `sandbox`: a remote server runs elsewhere".to_owned(),
            Self::NoSandbox { .. } => "add `sandbox: native`".to_owned(),
            Self::EnvFile { .. } => "paths are relative to the settings file".to_owned(),
        }
    }
}

/// Resolves all servers, or says why one cannot be used. Disabled servers are left out.
pub(crate) fn resolve_all<'a>(
    servers: &BTreeMap<String, GatheredServer>,
    variable: &dyn Fn(&str) -> Option<&'a str>,
    starter: &Starter<'_>,
    warnings: &mut Vec<Warning>,
) -> (Vec<ServerSpec>, Vec<ServerProblem>) {
    let (mut specs, mut problems) = (Vec::new(), Vec::new());
    for (name, server) in servers.iter().filter(|(_, server)| !server.entry.disabled) {
        match resolve(name, server, variable, starter, warnings) {
            Ok(spec) => specs.push(spec),
            Err(fault) => problems.push(ServerProblem { name: name.clone(), origin: server.origin.clone(), fault }),
        }
    }
    (specs, problems)
}

fn resolve<'a>(
    name: &str,
    GatheredServer { entry, base, .. }: &GatheredServer,
    variable: &dyn Fn(&str) -> Option<&'a str>,
    starter: &Starter<'_>,
    warnings: &mut Vec<Warning>,
) -> Result<ServerSpec, ServerFault> {
    check_sandbox(entry)?;
    let valid = ServerName::new(name).map_err(|_| ServerFault::Name { suggestion: server_name(name) })?;
    let filled = |field: &str, text: &str| {
        expand(text, variable).map_err(|error| match error {
            ExpandError::Missing(variable) => ServerFault::MissingVariable { field: field.to_owned(), variable },
            ExpandError::Malformed => ServerFault::BadReference { field: field.to_owned() },
            ExpandError::TooLong => ServerFault::TooLong { field: field.to_owned() },
        })
    };
    let filled_map = |field: &str, map: &BTreeMap<String, Secret>| -> Result<BTreeMap<String, Secret>, ServerFault> {
        let fill = |(key, value): (&String, &Secret)| {
            Ok((key.clone(), Secret::new(filled(&format!("{field}.{key}"), value.expose())?)))
        };
        map.iter().map(fill).collect()
    };
    let transport = match (&entry.command, &entry.url) {
        (None, None) => return Err(missing(entry.connection)),
        (Some(_), Some(_)) => return Err(ServerFault::Both),
        (Some(command), None) => {
            if let Some(ConnectionType::Http | ConnectionType::Sse) = entry.connection {
                return Err(missing(entry.connection));
            }
            let mut env = env_file(entry, base, &filled, warnings)?;
            env.extend(filled_map("env", &entry.env)?);
            let args = entry.args.iter().enumerate();
            let args = args.map(|(index, arg)| filled(&format!("args[{index}]"), arg.expose()).map(Secret::new));
            let args = args.collect::<Result<Vec<_>, _>>()?;
            check_program(command, &args, &env)?;
            let cwd = entry.cwd.as_deref().map(|cwd| filled("cwd", cwd)).transpose()?;
            let cwd = cwd.map(|cwd| base.resolve(&cwd));
            let command = filled("command", command)?;
            if entry.sandbox == Some(ServerSandbox::Native) {
                let folders = |field: &str, folders: &[String]| -> Result<Vec<_>, ServerFault> {
                    folders.iter().map(|folder| Ok(base.resolve(&filled(field, folder)?))).collect()
                };
                let read = folders("sandbox_read", &entry.sandbox_read)?;
                let write = folders("sandbox_write", &entry.sandbox_write)?;
                let (name, env_of, cwd_of) = (&valid, &env, cwd.as_deref());
                let server = Sandboxed { name, command, args, env: env_of, cwd: cwd_of, read, write };
                let (command, args) = starter.command(server);
                Transport::Stdio { command, args, env, cwd: None }
            } else {
                Transport::Stdio { command, args, env, cwd }
            }
        }
        (None, Some(url)) => {
            if entry.connection == Some(ConnectionType::Stdio) {
                return Err(missing(entry.connection));
            }
            let url = filled("url", url.expose())?;
            let scheme = url.split_once("://").map(|(scheme, rest)| (scheme.to_ascii_lowercase(), rest));
            let usable = scheme.is_some_and(|(scheme, rest)| {
                matches!(scheme.as_str(), "http" | "https") && !rest.is_empty() && !rest.starts_with('/')
            });
            if !usable || url.chars().any(|c| c.is_control() || c.is_whitespace()) {
                return Err(ServerFault::Address);
            }
            let (url, headers) = (Secret::new(url), filled_map("headers", &entry.headers)?);
            check_headers(&headers)?;
            match entry.connection {
                Some(ConnectionType::Sse) => Transport::Sse { url, headers },
                _ => Transport::Http { url, headers },
            }
        }
    };
    let client = match &entry.client_id {
        None => None,
        Some(id) => {
            let secret =
                entry.client_secret.as_ref().map(|secret| filled("client_secret", secret.expose())).transpose()?;
            Some(OauthClient { id: filled("client_id", id)?, secret: secret.map(Secret::new) })
        }
    };
    Ok(ServerSpec {
        name: valid,
        transport,
        // A server may require a sign-in, so it is not shared by default.
        scope: entry.scope.unwrap_or(Scope::User),
        description: entry.description.clone(),
        category: entry.category.clone(),
        client,
        start_timeout: entry.start_timeout.map_or(START_TIMEOUT, Duration::from_secs_f64),
        call_timeout: entry.call_timeout.map_or(CALL_TIMEOUT, Duration::from_secs_f64),
    })
}

fn check_sandbox(entry: &McpServer) -> Result<(), ServerFault> {
    if entry.sandbox.is_some() {
        return if entry.url.is_some() { Err(ServerFault::SandboxOfUrl) } else { Ok(()) };
    }
    let lists = [("sandbox_read", &entry.sandbox_read), ("sandbox_write", &entry.sandbox_write)];
    let named = lists.into_iter().find(|(_, folders)| !folders.is_empty());
    named.map_or(Ok(()), |(field, _)| Err(ServerFault::NoSandbox { field }))
}

fn missing(connection: Option<ConnectionType>) -> ServerFault {
    match connection {
        None => ServerFault::Nothing,
        Some(ConnectionType::Stdio) => ServerFault::TypeMismatch { kind: "stdio", field: "command" },
        Some(ConnectionType::Http) => ServerFault::TypeMismatch { kind: "http", field: "url" },
        Some(ConnectionType::Sse) => ServerFault::TypeMismatch { kind: "sse", field: "url" },
    }
}

fn env_file(
    entry: &McpServer,
    base: &Base,
    filled: &dyn Fn(&str, &str) -> Result<String, ServerFault>,
    warnings: &mut Vec<Warning>,
) -> Result<BTreeMap<String, Secret>, ServerFault> {
    let Some(path) = &entry.env_file else { return Ok(BTreeMap::new()) };
    let path = base.resolve(&filled("envFile", path)?);
    let text = read_text(&path, MAX_FILE_BYTES).and_then(|text| text.ok_or_else(|| "there is no such file".to_owned()));
    let text = text.map_err(|reason| ServerFault::EnvFile { reason: format!("{}: {reason}", path.display()) })?;
    let read = DotEnv::parse(&path, &text, warnings);
    Ok(read.variables.into_iter().map(|(name, (value, _))| (name, Secret::new(value))).collect())
}

/// Rejects strings that no operating system passes to a program.
fn check_program(command: &str, args: &[Secret], env: &BTreeMap<String, Secret>) -> Result<(), ServerFault> {
    let refuse = |field: &str| Err(ServerFault::Characters { field: field.to_owned() });
    if command.is_empty() {
        return Err(ServerFault::Nothing);
    }
    if command.contains('\0') {
        return refuse("command");
    }
    if args.iter().any(|arg| arg.expose().contains('\0')) {
        return refuse("args");
    }
    let bad = |(name, value): (&String, &Secret)| {
        name.is_empty() || name.contains(['=', '\0']) || value.expose().contains('\0')
    };
    if env.iter().any(bad) { refuse("env") } else { Ok(()) }
}

/// Rejects strings that would become a second header, or none.
fn check_headers(headers: &BTreeMap<String, Secret>) -> Result<(), ServerFault> {
    let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    let bad = |(name, value): (&String, &Secret)| {
        name.is_empty() || !name.chars().all(token) || value.expose().chars().any(|c| c.is_control() && c != '\t')
    };
    let bad = headers.iter().find(|(name, value)| bad((name, value)));
    bad.map_or(Ok(()), |_| Err(ServerFault::Characters { field: "headers".to_owned() }))
}
