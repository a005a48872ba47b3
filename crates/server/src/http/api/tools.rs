//! `/api/tools`: tools of MCP servers, and calls of single tools.

use super::tool_calls;
use crate::http::App;
use crate::http::extract::{Asked, At, Caller};
use crate::http::operator::{Operator, needs_a_person};
use crate::http::problem::{ApiError, Refusals};
use crate::views::DecisionView;
use axum::Json;
use axum::extract::State;
use coracle_catalog::{Filter, Level};
use coracle_engine::{Inventory, ToolSearch, Toolbox, described};
use coracle_policy::definition_digest;
use coracle_types::{Decision, Tool, UserId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Maximum number of tools in a response.
const MAX_TOOLS: usize = 1_000;
/// Number of listed tools by default.
const LISTED: usize = 100;
/// Number of search results by default.
const FOUND: usize = 10;
/// Maximum length of the reason why tools are missing, in characters.
const MAX_REASON: usize = 1_000;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(search)).routes(routes!(show)).merge(tool_calls::routes())
}

/// List of tools
#[derive(Debug, Serialize, ToSchema)]
struct ToolList {
    /// Number of matching tools, including those that are not returned
    count: usize,
    /// Tools. In a list, each has `server`, `package`, `name`, `function` and `summary`; in search results, what the
    /// level of detail asks for, and a `score`.
    #[schema(value_type = Vec<Object>)]
    tools: Vec<Value>,
    /// Servers whose tools are not known
    missing: Vec<MissingTools>,
}

/// Server whose tools are not known
#[derive(Debug, Serialize, ToSchema)]
struct MissingTools {
    /// Server name
    server: String,
    /// Reason why its tools are not known
    reason: String,
}

impl ToolList {
    fn new(count: usize, tools: Vec<Value>, inventory: &Inventory) -> Self {
        let missing = inventory.missing.iter().map(|(server, reason)| MissingTools {
            server: server.to_string(),
            reason: reason.chars().take(MAX_REASON).collect(),
        });
        Self { count, tools, missing: missing.collect() }
    }
}

/// The tools of a user. Waits for servers that have never listed theirs, and longer for a server that is named.
pub(super) async fn inventory<'a>(
    app: &'a App,
    user: &UserId,
    named: Option<&str>,
) -> Result<Option<(&'a Arc<Toolbox>, Arc<Inventory>)>, ApiError> {
    let Some(toolbox) = app.frontend.toolbox() else { return Ok(None) };
    let inventory = app.frontend.of_user(user).inventory(named).await;
    if let (Some(inventory), Some(server)) = (&inventory, named)
        && !inventory.catalog.knows_server(server)
        && !inventory.missing.iter().any(|(name, _)| name.as_str() == server)
    {
        return Err(ApiError::missing("there is no such server: see /api/servers"));
    }
    Ok(inventory.map(|inventory| (toolbox, inventory)))
}

fn limited(limit: Option<usize>, default: usize) -> Result<usize, ApiError> {
    match limit.unwrap_or(default) {
        limit @ 1..=MAX_TOOLS => Ok(limit),
        _ => Err(ApiError::invalid(format!("limit must be from 1 to {MAX_TOOLS}"))),
    }
}

/// Query parameters for listing tools.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct Listed {
    /// Only list tools of this server
    server: Option<String>,
    /// Only list tools with this text in their name or summary
    search: Option<String>,
    /// Maximum number of tools to return; defaults to 100
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// Number of tools to skip
    #[param(minimum = 0)]
    offset: Option<usize>,
}

/// List the tools of MCP servers
///
/// Returns the tools that the current user's code can call, by server and name. Servers that have never listed their
/// tools are started.
#[utoipa::path(
    get, path = "/api/tools", operation_id = "list_tools", tag = "tools", params(Listed),
    responses((status = 200, body = ToolList, description = "Tools by server and name"), Refusals)
)]
async fn list(
    State(app): State<App>,
    Caller(user): Caller,
    Asked(wanted): Asked<Listed>,
) -> Result<Json<ToolList>, ApiError> {
    let limit = limited(wanted.limit, LISTED)?;
    let Some((_, inventory)) = inventory(&app, &user, wanted.server.as_deref()).await? else {
        return Ok(Json(ToolList { count: 0, tools: Vec::new(), missing: Vec::new() }));
    };
    let found = inventory.catalog.list(&Filter { server: wanted.server, text: wanted.search });
    let page = found.iter().skip(wanted.offset.unwrap_or_default()).take(limit);
    let tools = page.map(|entry| serde_json::to_value(entry).unwrap_or_default()).collect();
    Ok(Json(ToolList::new(found.len(), tools, &inventory)))
}

/// Query parameters for searching tools.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct Searched {
    /// Words that describe the tool
    query: String,
    /// Only search tools of this server
    server: Option<String>,
    /// Only search tools of this category
    category: Option<String>,
    /// Maximum number of results; defaults to 10
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// Level of detail: `name`, `summary` (the default), `full`, `python` or `typescript`
    #[param(pattern = "^(name|summary|full|python|typescript)$")]
    level: Option<String>,
}

/// Search for tools by purpose
///
/// Returns the best matches first. Equivalent tools of several servers are grouped.
#[utoipa::path(
    get, path = "/api/tools/search", operation_id = "search_tools", tag = "tools", params(Searched),
    responses((status = 200, body = ToolList, description = "Matching tools, best first"), Refusals)
)]
async fn search(
    State(app): State<App>,
    Caller(user): Caller,
    Asked(wanted): Asked<Searched>,
) -> Result<Json<ToolList>, ApiError> {
    let limit = limited(wanted.limit, FOUND)?;
    let level = match wanted.level.as_deref() {
        None => Level::Summary,
        Some(level) => level.parse().map_err(|error| ApiError::invalid(format!("level: {error}")))?,
    };
    let Some((toolbox, inventory)) = inventory(&app, &user, wanted.server.as_deref()).await? else {
        return Ok(Json(ToolList { count: 0, tools: Vec::new(), missing: Vec::new() }));
    };
    // A server that is configured and has not listed its tools has none to find.
    if wanted.server.as_deref().is_some_and(|server| !inventory.catalog.knows_server(server)) {
        return Ok(Json(ToolList::new(0, Vec::new(), &inventory)));
    }
    let search = ToolSearch { query: wanted.query, server: wanted.server, category: wanted.category, level, limit };
    let found = toolbox.search(&user, &inventory, search).await.map_err(ApiError::missing)?;
    let tools: Vec<Value> = found
        .into_iter()
        .map(|tool| {
            let mut value = tool.value;
            value["score"] = Value::from((f64::from(tool.score) * 1e3).round() / 1e3);
            value
        })
        .collect();
    Ok(Json(ToolList::new(tools.len(), tools, &inventory)))
}

/// Get the definition of a tool
///
/// The schemas, the functions that code calls, and what the policy decides about calls.
#[utoipa::path(
    get, path = "/api/tools/{server}/{tool}", operation_id = "show_tool", tag = "tools",
    params(
        ("server" = String, Path, description = "Server name"),
        ("tool" = String, Path, description = "Tool name, or the name of its function"),
    ),
    responses(
        (
            status = 200, body = Object,
            description = "Object with `server`, `package`, `name`, `function`, `summary`, `description`, \
                           `input_schema`, `output_schema`, `hints`, `category`, `python`, `typescript` and `policy`, \
                           which is the same as in the answer of `set_tool_policy`"
        ),
        Refusals
    )
)]
async fn show(
    State(app): State<App>,
    Caller(user): Caller,
    operator: Result<Operator, ApiError>,
    At((server, name)): At<(String, String)>,
) -> Result<Json<Value>, ApiError> {
    let (toolbox, inventory) = inventory(&app, &user, Some(&server)).await?.ok_or_else(no_tool)?;
    let catalog = &inventory.catalog;
    let (entry, tool) = catalog.find(&server, &name).ok_or_else(no_tool)?;
    let mut shown = described(catalog, entry, Level::Full);
    for level in [Level::Python, Level::Typescript] {
        shown[level.as_str()] = catalog.show(&entry.server, &entry.name, level).into();
    }
    let policy = ToolPolicy::of(&app, toolbox, &user, tool, operator.as_ref()).await?;
    shown["policy"] = serde_json::to_value(policy).unwrap_or_default();
    Ok(Json(shown))
}

/// Finds a tool by its name, or by that of its function.
pub(super) async fn listed_tool<'a>(
    app: &'a App,
    user: &UserId,
    server: &str,
    name: &str,
) -> Result<(&'a Arc<Toolbox>, Tool), ApiError> {
    let (toolbox, inventory) = inventory(app, user, Some(server)).await?.ok_or_else(no_tool)?;
    let (_, tool) = inventory.catalog.find(server, name).ok_or_else(no_tool)?;
    Ok((toolbox, tool.clone()))
}

fn no_tool() -> ApiError {
    ApiError::missing("there is no such tool: see /api/tools")
}

/// Policy for a tool
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ToolPolicy {
    /// Decision of the policy: `allow`, `ask` or `deny`
    #[schema(value_type = String)]
    decision: Decision,
    /// Reason of the decision
    reason: String,
    /// Line for the settings file that allows this tool and no other
    allow_line: String,
    /// Decision of the rule for exactly this tool, if there is one
    #[schema(value_type = Option<String>)]
    rule: Option<Decision>,
    /// Whether the current user can change the policy for all users
    can_change: bool,
    /// Permanent decision of the current user that applies to the tool
    remembered: Option<DecisionView>,
    /// Number of permanent decisions of the current user about calls with certain arguments
    remembered_arguments: usize,
}

impl ToolPolicy {
    pub(super) async fn of(
        app: &App,
        toolbox: &Toolbox,
        user: &UserId,
        tool: &Tool,
        operator: Result<&Operator, &ApiError>,
    ) -> Result<Self, ApiError> {
        let verdict = toolbox.verdict(user, tool);
        let mut remembered = app.auth.people.store().decisions_about(user, &tool.server, &tool.name).await?;
        let bound = remembered.iter().filter(|decided| decided.arguments.is_some()).count();
        // A permission applies where the policy asks, and to one definition. Restrictions always apply.
        remembered.retain(|remembered| {
            remembered.arguments.is_none()
                && (remembered.decision != Decision::Allow
                    || verdict.decision == Decision::Ask && remembered.definition == definition_digest(tool))
        });
        let can_change = operator.is_ok_and(|Operator(caller)| needs_a_person(caller).is_ok());
        Ok(Self {
            decision: verdict.decision,
            reason: verdict.reason.to_string(),
            allow_line: verdict.allow_line,
            rule: toolbox.rules_about(user, tool).iter().map(|rule| rule.decision).max(),
            can_change: can_change && app.configuration().is_ok(),
            remembered: remembered.pop().map(DecisionView::from),
            remembered_arguments: bound,
        })
    }
}
