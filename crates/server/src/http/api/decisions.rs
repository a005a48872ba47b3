//! `/api/decisions`: permanent decisions of the caller about tools.

use crate::http::App;
use crate::http::extract::{Asked, At, Body, Caller};
use crate::http::operator::needs_a_person;
use crate::http::problem::{ApiError, Problem, Refusals};
use crate::identity::Identity;
use crate::views::DecisionView;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use coracle_audit::Event;
use coracle_types::{Decision, ServerName};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(decide, forget))
}

/// List of permanent decisions
#[derive(Debug, Serialize, ToSchema)]
struct Decisions {
    /// Decisions, by server and tool
    decisions: Vec<DecisionView>,
}

/// List permanent decisions about tools
///
/// Returns the tools that the current user has permanently allowed or refused, or wants to be asked about.
#[utoipa::path(
    get, path = "/api/decisions", operation_id = "list_decisions", tag = "tools",
    responses((status = 200, body = Decisions, description = "Decisions by server and tool"), Refusals)
)]
async fn list(State(app): State<App>, Caller(user): Caller) -> Result<Json<Decisions>, ApiError> {
    let decisions = app.auth.people.store().decisions(&user).await?;
    Ok(Json(Decisions { decisions: decisions.into_iter().map(DecisionView::from).collect() }))
}

/// Decision about a tool
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewDecision {
    /// Decision: `ask`, `deny` or `allow`
    #[schema(value_type = String, pattern = "^(ask|deny|allow)$")]
    decision: Decision,
}

/// Decide about a tool permanently
///
/// `ask` and `deny` restrict the policy for the current user, whatever it allows and however the tool is defined later.
/// `allow` is possible only if the policy asks, and applies to the tool as it is defined now. An API key needs the scope
/// `approve` in addition to `api`, and access tokens cannot decide.
#[utoipa::path(
    put, path = "/api/decisions/{server}/{tool}", operation_id = "decide_tool", tag = "tools",
    params(
        ("server" = String, Path, description = "Server name"),
        ("tool" = String, Path, description = "Tool name"),
    ),
    request_body = NewDecision,
    responses(
        (status = 200, body = DecisionView, description = "Stored decision"),
        (status = 409, body = Problem, description = "Policy does not ask about the tool"),
        Refusals
    )
)]
async fn decide(
    State(app): State<App>,
    caller: Identity,
    At((server, tool)): At<(String, String)>,
    Body(NewDecision { decision }): Body<NewDecision>,
) -> Result<Json<DecisionView>, ApiError> {
    needs_a_person(&caller)?;
    let (toolbox, tool) = super::tools::listed_tool(&app, &caller.user, &server, &tool).await?;
    if decision == Decision::Allow && toolbox.verdict(&caller.user, &tool).decision != Decision::Ask {
        let message = "the policy does not ask about this tool, so there is nothing to allow";
        return Err(ApiError::new(StatusCode::CONFLICT, "not_asked", message));
    }
    let event =
        Event::DecisionChanged { server: tool.server.clone(), tool: tool.name.clone(), decision: Some(decision) };
    app.auth.people.by(&caller.user).record(event).await?;
    let decided = toolbox.approvals().decide_for_good(&caller.user, &tool, decision).await?;
    tracing::info!(user = %caller.user, %server, tool = tool.name, ?decision, "a permanent decision was made");
    Ok(Json(decided.into()))
}

/// Query parameters for revoking decisions.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct WhichArguments {
    /// Only revoke the decision about the arguments with this digest
    arguments: Option<String>,
}

/// Revoke permanent decisions about a tool
///
/// Revokes all decisions about the tool, or the one about certain arguments. The policy applies to the next call again. An
/// API key needs the scope `approve` in addition to `api`, and
/// access tokens cannot revoke decisions.
#[utoipa::path(
    delete, path = "/api/decisions/{server}/{tool}", operation_id = "forget_decision", tag = "tools",
    params(
        ("server" = String, Path, description = "Server name"),
        ("tool" = String, Path, description = "Tool name"),
        WhichArguments,
    ),
    responses((status = 204, description = "Decision revoked"), Refusals)
)]
async fn forget(
    State(app): State<App>,
    caller: Identity,
    At((server, tool)): At<(String, String)>,
    Asked(WhichArguments { arguments }): Asked<WhichArguments>,
) -> Result<StatusCode, ApiError> {
    needs_a_person(&caller)?;
    let user = &caller.user;
    let missing = || ApiError::missing("there is no decision about this tool");
    let server = ServerName::new(server).map_err(|_| missing())?;
    let event = Event::DecisionChanged { server: server.clone(), tool: tool.clone(), decision: None };
    app.auth.people.by(user).record(event).await?;
    // The server may have been removed from the configuration, and all others with it.
    let is_forgotten = match app.frontend.toolbox() {
        Some(toolbox) => toolbox.approvals().forget(user, &server, &tool, arguments.as_deref()).await?,
        None => match &arguments {
            None => app.auth.people.store().forget(user, &server, &tool).await?,
            Some(arguments) => app.auth.people.store().forget_arguments(user, &server, &tool, arguments).await?,
        },
    };
    if !is_forgotten {
        return Err(missing());
    }
    tracing::info!(%user, %server, tool, "a permanent decision was revoked");
    Ok(StatusCode::NO_CONTENT)
}
