//! `/api/policy`: the rules of the operator for tools, which apply to all users.

use super::tools::{ToolPolicy, listed_tool};
use crate::http::App;
use crate::http::extract::{At, Body};
use crate::http::operator::{Operator, change, needs_a_person};
use crate::http::problem::{ApiError, Problem, Refusals};
use axum::Json;
use axum::extract::State;
use coracle_audit::Event;
use coracle_policy::Pattern;
use coracle_types::{Decision, Tool};
use serde::Deserialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(set, reset))
}

/// Rule for a tool
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewRule {
    /// Decision: `allow`, `ask` or `deny`
    #[schema(value_type = String, pattern = "^(ask|deny|allow)$")]
    decision: Decision,
}

/// Set the policy for a tool
///
/// Writes a rule for exactly this tool to the settings file, which applies to all users at once. Requires the role
/// `admin`. An API key needs the scopes `admin` and `approve` in addition to `api`, and access tokens cannot change the
/// policy.
#[utoipa::path(
    put, path = "/api/policy/{server}/{tool}", operation_id = "set_tool_policy", tag = "tools",
    params(
        ("server" = String, Path, description = "Server name"),
        ("tool" = String, Path, description = "Tool name"),
    ),
    request_body = NewRule,
    responses(
        (status = 200, body = ToolPolicy, description = "Policy for the tool"),
        (status = 409, body = Problem, description = "Settings cannot be written, or the rule is not in the file"),
        Refusals
    )
)]
async fn set(
    State(app): State<App>,
    operator: Operator,
    At((server, tool)): At<(String, String)>,
    Body(NewRule { decision }): Body<NewRule>,
) -> Result<Json<ToolPolicy>, ApiError> {
    replace(&app, &operator, (&server, &tool), Some(decision)).await
}

/// Remove the policy for a tool
///
/// Removes the rules for exactly this tool from the settings file; other rules and the default apply again. Requires the
/// role `admin`. An API key needs the scopes `admin` and `approve` in addition to `api`.
#[utoipa::path(
    delete, path = "/api/policy/{server}/{tool}", operation_id = "reset_tool_policy", tag = "tools",
    params(
        ("server" = String, Path, description = "Server name"),
        ("tool" = String, Path, description = "Tool name"),
    ),
    responses(
        (status = 200, body = ToolPolicy, description = "Policy for the tool"),
        (status = 409, body = Problem, description = "Settings cannot be written, or the rule is not in the file"),
        Refusals
    )
)]
async fn reset(
    State(app): State<App>,
    operator: Operator,
    At((server, tool)): At<(String, String)>,
) -> Result<Json<ToolPolicy>, ApiError> {
    replace(&app, &operator, (&server, &tool), None).await
}

async fn replace(
    app: &App,
    operator: &Operator,
    (server, name): (&str, &str),
    decision: Option<Decision>,
) -> Result<Json<ToolPolicy>, ApiError> {
    let Operator(caller) = operator;
    needs_a_person(caller)?;
    let (toolbox, tool): (_, Tool) = listed_tool(app, &caller.user, server, name).await?;
    let replaced: Vec<String> = toolbox.rules_about(&caller.user, &tool).into_iter().map(|rule| rule.pattern).collect();
    if decision.is_some() || !replaced.is_empty() {
        let pattern = Pattern::exactly(&tool);
        let event = Event::PolicyChanged { pattern: pattern.as_str().to_owned(), decision };
        app.auth.people.by(&caller.user).record(event).await?;
        change(app, move |configuration| {
            configuration.set_rule(&replaced, decision.map(|decision| (pattern.as_str(), decision)))
        })
        .await?;
        tracing::info!(user = %caller.user, server, tool = tool.name, ?decision, "the policy for a tool was changed");
    }
    ToolPolicy::of(app, toolbox, &caller.user, &tool, Ok(operator)).await.map(Json)
}
