//! `/api/servers`: the configured MCP servers and their state.

use crate::http::App;
use crate::http::extract::At;
use crate::http::operator::{AddableServers, Operator};
use crate::http::problem::{ApiError, Problem, Refusals};
use crate::identity::Identity;
use crate::mcp::Frontend;
use crate::views::{LabelView, ServerCondition, ServerTestView, ServerView};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use coracle_config::McpServer;
use coracle_engine::Toolbox;
use coracle_policy::Labels;
use coracle_store::{KeyScope, StoreError};
use coracle_types::{Scope, ServerName, ServerSpec};
use coracle_upstream::{ServerState, ServerStatus, Upstream};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Maximum length of a reason in characters.
const MAX_REASON: usize = 1_000;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(show)).routes(routes!(test)).routes(routes!(restart))
}

/// List of servers
#[derive(Debug, Serialize, ToSchema)]
struct Servers {
    /// Servers, sorted by name
    servers: Vec<ServerView>,
    /// Kinds of servers that the current user can add: `nothing`, `urls` or `urls_and_commands`
    #[schema(value_type = String)]
    can_add: AddableServers,
}

/// List the MCP servers
///
/// Returns all configured servers with their state for the current user, without starting them.
#[utoipa::path(
    get, path = "/api/servers", operation_id = "list_servers", tag = "servers",
    responses((status = 200, body = Servers, description = "Servers and their state"), Refusals)
)]
async fn list(
    State(app): State<App>,
    caller: Identity,
    operator: Result<Operator, ApiError>,
) -> Result<Json<Servers>, ApiError> {
    let can_add = AddableServers::by(&app, operator.as_ref());
    Ok(Json(Servers { servers: views(&app, &caller).await?, can_add }))
}

/// Get an MCP server
#[utoipa::path(
    get, path = "/api/servers/{name}", operation_id = "show_server", tag = "servers",
    params(("name" = String, Path, description = "Server name")),
    responses((status = 200, body = ServerView, description = "Server and its state"), Refusals)
)]
async fn show(State(app): State<App>, caller: Identity, At(name): At<String>) -> Result<Json<ServerView>, ApiError> {
    view(&app, &caller, &name).await.map(Json)
}

/// A server as the caller sees it.
pub(super) async fn view(app: &App, caller: &Identity, name: &str) -> Result<ServerView, ApiError> {
    views(app, caller).await?.into_iter().find(|server| server.name == name).ok_or_else(missing)
}

/// Connect to an MCP server and list its tools
///
/// Starts the server for the current user unless it is running. A server that cannot be started is reported with status
/// 200 and `ok: false`.
#[utoipa::path(
    post, path = "/api/servers/{name}/test", operation_id = "test_server", tag = "servers",
    params(("name" = String, Path, description = "Server name")),
    responses((status = 200, body = ServerTestView, description = "Result of the connection"), Refusals)
)]
async fn test(
    State(app): State<App>,
    caller: Identity,
    At(name): At<String>,
) -> Result<Json<ServerTestView>, ApiError> {
    let (toolbox, spec) = usable(&app, &name)?;
    let mut outcome = ServerTestView::of(toolbox, &caller.user, &spec.name).await;
    outcome.labels = labels(&app.frontend, &entries(&app), &spec);
    Ok(Json(outcome))
}

/// End the connection to an MCP server
///
/// Ends the current user's connection, including calls in progress, and forgets earlier failures. The next use starts
/// the server again. All users share the connection to a server with the scope `shared`: ending it requires the role
/// `admin`, and an API key also needs the scope `admin`.
#[utoipa::path(
    post, path = "/api/servers/{name}/restart", operation_id = "restart_server", tag = "servers",
    params(("name" = String, Path, description = "Server name")),
    responses(
        (status = 204, description = "Connection ended"),
        (status = 409, body = Problem, description = "Server runs in the process of the embedding program"),
        Refusals
    )
)]
async fn restart(State(app): State<App>, caller: Identity, At(name): At<String>) -> Result<StatusCode, ApiError> {
    let (toolbox, spec) = usable(&app, &name)?;
    let upstream = connections(toolbox, &spec, &caller)?;
    upstream.restart(&caller.user, &spec.name).map_err(|_| missing())?;
    tracing::info!(user = %caller.user, server = %spec.name, "the connection to a server was ended");
    Ok(StatusCode::NO_CONTENT)
}

/// The connections of a server, for a caller who may change the one to this server.
pub(super) fn connections<'a>(
    toolbox: &'a Toolbox,
    spec: &ServerSpec,
    caller: &Identity,
) -> Result<&'a Upstream, ApiError> {
    if spec.scope == Scope::Shared && !caller.may(KeyScope::Admin) {
        let message = "all users share this server: changing its connection requires the role admin, and an API key \
                       needs the scope admin";
        return Err(ApiError::forbidden("admins_only", message));
    }
    let in_process = || ApiError::new(StatusCode::CONFLICT, "in_process", "this server has no connection");
    toolbox.upstream().passes_on().ok_or_else(in_process)
}

fn missing() -> ApiError {
    ApiError::missing("there is no such server, or it cannot be used: see /api/servers")
}

/// Finds a server that can be used.
pub(super) fn usable<'a>(app: &'a App, name: &str) -> Result<(&'a Arc<Toolbox>, Arc<ServerSpec>), ApiError> {
    let toolbox = app.frontend.toolbox().ok_or_else(missing)?;
    let spec = toolbox.upstream().servers().into_iter().find(|spec| spec.name.as_str() == name);
    Ok((toolbox, spec.ok_or_else(missing)?))
}

/// The entries of servers in the settings.
fn entries(app: &App) -> Arc<BTreeMap<String, McpServer>> {
    match app.configuration() {
        Ok(configuration) => configuration.servers(),
        Err(_) => Arc::new(app.frontend.options.settings.mcp_servers.clone()),
    }
}

/// The servers as the caller sees them: those that can be used, those that cannot, and disabled ones.
async fn views(app: &App, caller: &Identity) -> Result<Vec<ServerView>, StoreError> {
    let changeable = app.configuration().ok().filter(|_| caller.may(KeyScope::Admin));
    let configured = entries(app);
    // Commands and URLs are the operator's.
    let transport = |name: &str| {
        let entry = configured.get(name).filter(|_| caller.may(KeyScope::Admin))?;
        Some(ServerView::transport_of(entry))
    };
    let scope = |name: &str| configured.get(name).and_then(|entry| entry.scope).unwrap_or(Scope::User);
    let mut servers = Vec::new();
    if let Some(toolbox) = app.frontend.toolbox() {
        let states = toolbox.upstream().status(&caller.user);
        for spec in toolbox.upstream().servers() {
            let mut view = usable_view(toolbox, caller, &spec, &states).await?;
            view.transport = transport(&view.name);
            view.labels = labels(&app.frontend, &configured, &spec);
            servers.push(view);
        }
        servers.extend(toolbox.unusable().iter().map(|(name, reason)| ServerView {
            transport: transport(name.as_str()),
            scope: scope(name.as_str()),
            ..bare(name.as_str(), ServerCondition::CannotBeUsed, Some(reason))
        }));
    }
    let disabled = configured.iter().filter(|(_, entry)| entry.disabled);
    servers.extend(disabled.map(|(name, _)| ServerView {
        transport: transport(name),
        scope: scope(name),
        ..bare(name, ServerCondition::SwitchedOff, None)
    }));
    for server in &mut servers {
        server.can_remove = changeable.is_some_and(|configuration| configuration.is_in_file(&server.name));
    }
    servers.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(servers)
}

/// The labels of a server, configured or guessed.
fn labels(frontend: &Frontend, configured: &BTreeMap<String, McpServer>, spec: &ServerSpec) -> Vec<LabelView> {
    let entry = configured.get(spec.name.as_str());
    let listed = entry.and_then(|entry| entry.labels.as_deref());
    LabelView::all(&Labels::of(listed, Some(spec), frontend.options.settings.policy.guess_labels))
}

/// A server that is not connected to.
fn bare(name: &str, state: ServerCondition, problem: Option<&str>) -> ServerView {
    // The reason contains the fix.
    let (problem, hint) = match problem.and_then(|text| text.split_once("; ")) {
        Some((problem, hint)) => (Some(problem), Some(hint)),
        None => (problem, None),
    };
    ServerView {
        name: name.to_owned(),
        transport: None,
        scope: Scope::User,
        can_sign_in: false,
        can_remove: false,
        origin: None,
        state,
        connection: None,
        tools: None,
        listed_at: None,
        labels: Vec::new(),
        problem: problem.map(shortened),
        hint: hint.map(shortened),
    }
}

async fn usable_view(
    toolbox: &Toolbox,
    caller: &Identity,
    spec: &ServerSpec,
    states: &[ServerStatus],
) -> Result<ServerView, StoreError> {
    let name: &ServerName = &spec.name;
    let last = toolbox.last_listed(&caller.user, name).await?;
    let state = states.iter().find(|status| status.name == *name).map(|status| &status.state);
    let condition = match (state, &last) {
        (Some(ServerState::Failed { .. }), _) => ServerCondition::Failed,
        (_, Some(_)) => ServerCondition::Listed,
        (_, None) => ServerCondition::NotListed,
    };
    let (problem, hint) = match state {
        Some(ServerState::Failed { reason, retry_in }) => {
            let hint =
                format!("it is started again on the next use after {} s, or now after a restart", retry_in.as_secs());
            (Some(shortened(reason)), Some(hint))
        }
        _ => (None, None),
    };
    Ok(ServerView {
        scope: spec.scope,
        can_sign_in: spec.transport.has_url(),
        connection: state.map(connection),
        tools: last.as_ref().map(|last| last.tools.len()),
        listed_at: last.map(|last| last.listed_at.into()),
        problem,
        hint,
        ..bare(name.as_str(), condition, None)
    })
}

fn connection(state: &ServerState) -> &'static str {
    match state {
        ServerState::Idle => "idle",
        ServerState::Starting => "starting",
        ServerState::Ready(_) => "ready",
        ServerState::Failed { .. } => "failed",
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(MAX_REASON).collect()
}
