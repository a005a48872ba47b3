//! Adding and removing MCP servers.

use super::servers;
use crate::configuration::NewServer;
use crate::http::App;
use crate::http::extract::{At, Body};
use crate::http::operator::{Operator, change, may_add_commands};
use crate::http::problem::{ApiError, Problem, Refusals};
use crate::identity::Identity;
use crate::views::ServerView;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use coracle_audit::Event;
use coracle_config::{ConnectionType, McpServer};
use coracle_types::{Scope, Secret, ServerName};
use serde::Deserialize;
use std::collections::BTreeMap;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Maximum length of each text of a new server, in bytes.
const MAX_TEXT: usize = 8 << 10;
/// Maximum number of arguments, headers and variables of a new server.
const MAX_PARTS: usize = 100;
/// Setting that lets admins add servers that start a command.
const ALLOW_COMMANDS: &str = "server.allow_command_servers";

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(add)).routes(routes!(remove))
}

/// MCP server to add: `url`, or `command`
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewServer)]
struct NewServerBody {
    /// Server name; code imports its tools with `from servers.NAME import …`
    #[schema(min_length = 1)]
    name: String,
    /// URL of the server
    url: Option<String>,
    /// HTTP headers to send with each request. Credentials are stored apart from the settings and never returned.
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// Whether to use the older HTTP+SSE transport; defaults to `false`
    #[serde(default)]
    sse: bool,
    /// Program that starts the server
    command: Option<String>,
    /// Arguments of the program
    #[serde(default)]
    args: Vec<String>,
    /// Environment variables of the program. Credentials are stored apart from the settings and never returned.
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// Working directory of the program
    cwd: Option<String>,
    /// Server scope: `user` (each user has a connection of their own, the default) or `shared` (all users share one)
    #[schema(value_type = Option<String>, pattern = "^(user|shared)$")]
    scope: Option<Scope>,
    /// Description of the server
    description: Option<String>,
}

impl NewServerBody {
    fn read(self, may_add_commands: bool) -> Result<NewServer, ApiError> {
        let name = ServerName::new(self.name.as_str()).map_err(|error| ApiError::invalid(format!("name: {error}")))?;
        let is_program = self.command.is_some();
        if is_program == self.url.is_some() {
            return Err(ApiError::invalid("a server has either a `url` or a `command`"));
        }
        if is_program && !may_add_commands {
            let message = format!(
                "a server that starts a command runs a program outside the sandbox: set {ALLOW_COMMANDS} to true, or \
                 add it with `coracle servers add` on the machine of this server"
            );
            return Err(ApiError::forbidden("commands_not_allowed", message));
        }
        let (of_programs, of_urls) =
            (!self.args.is_empty() || !self.env.is_empty() || self.cwd.is_some(), !self.headers.is_empty() || self.sse);
        if !is_program && of_programs {
            return Err(ApiError::invalid("`args`, `env` and `cwd` belong to a `command`"));
        }
        if is_program && of_urls {
            return Err(ApiError::invalid("`headers` and `sse` belong to a `url`"));
        }
        let texts = [&self.url, &self.command, &self.cwd, &self.description].into_iter().flatten();
        let pairs = self.headers.iter().chain(&self.env).flat_map(|(name, value)| [name, value]);
        let texts: Vec<&String> = texts.chain(pairs).chain(&self.args).collect();
        if self.args.len() + self.headers.len() + self.env.len() > MAX_PARTS {
            return Err(ApiError::invalid(format!(
                "a server has at most {MAX_PARTS} arguments, headers and variables"
            )));
        }
        if texts.iter().any(|text| text.len() > MAX_TEXT || text.contains('\0')) {
            return Err(ApiError::invalid(format!("a text is longer than {MAX_TEXT} bytes, or contains a null byte")));
        }
        // An expanded variable would send the environment of this server anywhere.
        if !may_add_commands && texts.iter().any(|text| text.contains("${")) {
            let message = format!("variables such as ${{NAME}} are expanded only if {ALLOW_COMMANDS} is true");
            return Err(ApiError::forbidden("variables_not_allowed", message));
        }
        let secrets = |pairs: BTreeMap<String, String>| {
            pairs.into_iter().map(|(name, value)| (name, Secret::new(value))).collect()
        };
        let entry = McpServer {
            connection: self.sse.then_some(ConnectionType::Sse),
            command: self.command,
            args: self.args.into_iter().map(Secret::new).collect(),
            env: secrets(self.env),
            cwd: self.cwd,
            url: self.url.map(Secret::new),
            headers: secrets(self.headers),
            scope: self.scope,
            description: self.description.filter(|text| !text.is_empty()),
            ..McpServer::default()
        };
        Ok(NewServer { name, entry })
    }
}

/// Add an MCP server
///
/// Writes the server to the settings file and makes its tools available at once, without starting it. Requires the role
/// `admin`, and an API key also needs the scope `admin`. On a server with users, one that starts a command is accepted
/// only if `server.allow_command_servers` is set.
#[utoipa::path(
    post, path = "/api/servers", operation_id = "add_server", tag = "servers",
    request_body = NewServerBody,
    responses(
        (status = 201, body = ServerView, description = "Server and its state"),
        (status = 409, body = Problem, description = "Name in use, or settings that cannot be written"),
        Refusals
    )
)]
async fn add(
    State(app): State<App>,
    Operator(caller): Operator,
    Body(body): Body<NewServerBody>,
) -> Result<(StatusCode, Json<ServerView>), ApiError> {
    let new = body.read(may_add_commands(&app, &caller))?;
    let name = new.name.clone();
    record(&app, &caller, name.as_str(), "added").await?;
    if !app.configuration()?.servers().contains_key(name.as_str()) {
        // A server that had this name may have been removed by hand. Its sign-ins and decisions do not apply to this one.
        app.auth.people.store().forget_server(&name).await?;
    }
    change(&app, move |configuration| configuration.add_server(new)).await?;
    tracing::info!(user = %caller.user, server = %name, "a server was added to the settings");
    let view = servers::view(&app, &caller, name.as_str()).await?;
    Ok((StatusCode::CREATED, Json(view)))
}

/// Remove an MCP server
///
/// Removes the server from the settings file, ends its connections, and deletes its credentials and the decisions and
/// sign-ins of all users. Requires the role `admin`, and an API key also needs the scope `admin`.
#[utoipa::path(
    delete, path = "/api/servers/{name}", operation_id = "remove_server", tag = "servers",
    params(("name" = String, Path, description = "Server name")),
    responses(
        (status = 204, description = "Server removed"),
        (status = 409, body = Problem, description = "Settings cannot be written, or the server is not in the file"),
        Refusals
    )
)]
async fn remove(
    State(app): State<App>,
    Operator(caller): Operator,
    At(name): At<String>,
) -> Result<StatusCode, ApiError> {
    let removed = name.clone();
    record(&app, &caller, &name, "removed").await?;
    change(&app, move |configuration| configuration.remove_server(&removed)).await?;
    // An invalid name cannot have any data.
    if let Ok(server) = ServerName::new(name.as_str()) {
        app.auth.people.store().forget_server(&server).await?;
    }
    tracing::info!(user = %caller.user, server = name, "a server was removed from the settings");
    Ok(StatusCode::NO_CONTENT)
}

/// Records a change in the audit log before it is made. Only names that a server can have are recorded.
async fn record(app: &App, caller: &Identity, name: &str, change: &'static str) -> Result<(), ApiError> {
    let Ok(server) = ServerName::new(name) else { return Ok(()) };
    let event = Event::ServerChanged { server: server.to_string(), change };
    Ok(app.auth.people.by(&caller.user).record(event).await?)
}
