//! `/api/sources`: where the caller's data came from, which flow rules depend on.

use crate::http::App;
use crate::http::extract::{Asked, Caller};
use crate::http::operator::needs_a_person;
use crate::http::problem::{ApiError, Refusals};
use crate::identity::Identity;
use crate::views::{FlowApprovalView, SourceView};
use axum::Json;
use axum::extract::State;
use coracle_store::Place;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list, forget))
}

/// Where data came from
#[derive(Debug, Serialize, ToSchema)]
struct Sources {
    /// Servers whose data is in sessions, conversations and workspaces
    sources: Vec<SourceView>,
    /// Permanent approvals of flows, latest first
    approvals: Vec<FlowApprovalView>,
}

/// List where data came from
///
/// Returns the servers whose data is in the sessions, conversations and workspaces of the current user. Flow rules decide by
/// them where code that runs there may send data. Also returns the flows that the user has permanently approved.
#[utoipa::path(
    get, path = "/api/sources", operation_id = "list_sources", tag = "tools",
    responses((status = 200, body = Sources, description = "Sources and approvals"), Refusals)
)]
async fn list(State(app): State<App>, Caller(user): Caller) -> Result<Json<Sources>, ApiError> {
    let store = app.auth.people.store();
    let sources = store.sources(&user).await?.into_iter().map(SourceView::from).collect();
    let approvals = store.flow_approvals(&user).await?.into_iter().map(FlowApprovalView::from).collect();
    Ok(Json(Sources { sources, approvals }))
}

/// Where to forget
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct Where {
    /// Place, as listed; all places by default
    place: Option<String>,
}

/// Number of entries
#[derive(Debug, Serialize, ToSchema)]
struct Forgotten {
    /// Number of entries that were deleted
    forgotten: u64,
}

/// Forget where data came from
///
/// From then on, flow rules do not count what was read before as the source of data there. An API key needs the scope
/// `approve` in addition to `api`, and access tokens cannot do this.
#[utoipa::path(
    delete, path = "/api/sources", operation_id = "forget_sources", tag = "tools",
    params(Where),
    responses((status = 200, body = Forgotten, description = "Number of entries"), Refusals)
)]
async fn forget(
    State(app): State<App>,
    caller: Identity,
    Asked(Where { place }): Asked<Where>,
) -> Result<Json<Forgotten>, ApiError> {
    needs_a_person(&caller)?;
    let place = place.map(Place::named);
    let forgotten = app.auth.people.store().forget_sources(&caller.user, place.as_ref()).await?;
    tracing::info!(user = %caller.user, place = place.as_ref().map(Place::as_str), forgotten, "sources were forgotten");
    Ok(Json(Forgotten { forgotten }))
}
