//! `/api/plans`: what code would change, until a person approves it.

use crate::http::App;
use crate::http::extract::{At, Body, Caller};
use crate::http::problem::{ApiError, Problem, Refusals};
use crate::http::reader::{Reader, withheld};
use crate::identity::Identity;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use coracle_engine::{PlanApproval, PlanError, hide_in_plan};
use coracle_store::KeyScope;
use coracle_types::{Plan, PlanId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use tokio_util::sync::CancellationToken;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(show, delete)).routes(routes!(run))
}

/// List of plans
#[derive(Debug, Serialize, ToSchema)]
struct Plans {
    /// Plans, newest first: `id`, `state` (`open`, `expired`, `running`, `done`, `failed`, `changed` or `interrupted`),
    /// `execution_id`, `language`, `created_at`, `expires_at`, `effects`, `reads` and `changes`
    #[schema(value_type = Vec<Object>)]
    plans: Vec<Plan>,
}

/// Approval of a plan
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Approval {
    /// Numbers of the effects to run; all of them if omitted
    #[serde(default)]
    effects: Option<BTreeSet<u64>>,
}

fn refused(error: &PlanError) -> ApiError {
    let code = error.code();
    let status = match error {
        PlanError::Missing => return ApiError::missing("there is no such plan"),
        PlanError::NotOpen { .. } | PlanError::Changed { .. } => StatusCode::CONFLICT,
        PlanError::Selection { .. } => StatusCode::BAD_REQUEST,
        PlanError::Unavailable { .. } | PlanError::Audit(_) => StatusCode::SERVICE_UNAVAILABLE,
        PlanError::Store(error) => return ApiError::internal("use plans", error),
    };
    ApiError::new(status, code, error.to_string())
}

fn plan_id(id: &str) -> Result<PlanId, ApiError> {
    PlanId::new(id).map_err(|_| refused(&PlanError::Missing))
}

/// The plan as this reader may see it.
async fn shown_to(app: &App, reader: &Reader, mut plan: Plan) -> Result<Json<Plan>, ApiError> {
    if let Some(vault) = reader.vault(app).await? {
        hide_in_plan(&vault, &mut plan).await.map_err(|error| withheld(&error))?;
    }
    Ok(Json(plan))
}

/// List plans
///
/// Returns the plans of the current user, newest first. Code that runs with `mode: plan` makes them. Where personal data is
/// hidden from models, API keys without the scope `approve` get tokens instead of it.
#[utoipa::path(
    get, path = "/api/plans", operation_id = "list_plans", tag = "plans",
    responses((status = 200, body = Plans, description = "Plans of the user"), Refusals)
)]
async fn list(State(app): State<App>, reader: Reader) -> Result<Json<Plans>, ApiError> {
    let mut plans = app.frontend.engine.plans(&reader.user).await.map_err(|error| refused(&error))?;
    if let Some(vault) = reader.vault(&app).await? {
        for plan in &mut plans {
            hide_in_plan(&vault, plan).await.map_err(|error| withheld(&error))?;
        }
    }
    Ok(Json(Plans { plans }))
}

/// Get a plan
#[utoipa::path(
    get, path = "/api/plans/{id}", operation_id = "show_plan", tag = "plans",
    params(("id" = String, Path, description = "Plan ID")),
    responses((status = 200, body = Object, description = "Plan with its effects"), Refusals)
)]
async fn show(State(app): State<App>, reader: Reader, At(id): At<String>) -> Result<Json<Plan>, ApiError> {
    let plan = app.frontend.engine.plan(&reader.user, &plan_id(&id)?).await.map_err(|error| refused(&error))?;
    shown_to(&app, &reader, plan).await
}

/// Delete a plan
#[utoipa::path(
    delete, path = "/api/plans/{id}", operation_id = "delete_plan", tag = "plans",
    params(("id" = String, Path, description = "Plan ID")),
    responses(
        (status = 204, description = "Plan deleted"),
        (status = 409, body = Problem, description = "Plan is being run"),
        Refusals
    )
)]
async fn delete(State(app): State<App>, Caller(user): Caller, At(id): At<String>) -> Result<StatusCode, ApiError> {
    app.frontend.engine.delete_plan(&user, &plan_id(&id)?).await.map_err(|error| refused(&error))?;
    Ok(StatusCode::NO_CONTENT)
}

/// Approve a plan and run it
///
/// Runs the chosen effects in order, with the listed arguments, and ends at the first one that fails. Nothing is run if
/// something has changed since the plan was made: definitions of tools, answers of reads, or files of the workspace
/// (error code `plan_changed`). An API key needs the scope `approve` in addition to `api`, and access tokens cannot
/// approve.
#[utoipa::path(
    post, path = "/api/plans/{id}/run", operation_id = "run_plan", tag = "plans",
    params(("id" = String, Path, description = "Plan ID")),
    request_body = Approval,
    responses(
        (status = 200, body = Object, description = "Plan with the state of each effect: `done`, `failed`, `left_out` or `planned`"),
        (status = 409, body = Problem, description = "Plan changed, expired, or run before"),
        (status = 503, body = Problem, description = "Approval not recorded, and nothing run"),
        Refusals
    )
)]
async fn run(
    State(app): State<App>,
    caller: Identity,
    reader: Reader,
    At(id): At<String>,
    Body(body): Body<Approval>,
) -> Result<Json<Plan>, ApiError> {
    if !caller.may(KeyScope::Approve) {
        let message = "approving requires a person: a browser session, or an API key with the scope approve";
        return Err(ApiError::forbidden("insufficient_scope", message));
    }
    let plan = plan_id(&id)?;
    let approval = PlanApproval { user: caller.user, plan, effects: body.effects, cancel: CancellationToken::new() };
    let ended = app.frontend.engine.run_plan(approval).await.map_err(|error| refused(&error))?;
    shown_to(&app, &reader, ended).await
}
