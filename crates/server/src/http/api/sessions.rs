//! `/api/sessions`: sessions and their logs.

use super::extract::{Asked, At, Caller, listed};
use super::problem::{ApiError, Refusals};
use crate::http::App;
use crate::views::SessionView;
use axum::Json;
use axum::extract::State;
use coracle_store::SessionRecord;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(show, end)).routes(routes!(resume))
}

/// Query parameters for listing sessions.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct Page {
    /// Maximum number of sessions to return; defaults to 50
    #[param(minimum = 1, maximum = 100)]
    limit: Option<usize>,
    /// Return sessions with a number lower than this
    #[param(minimum = 1)]
    before: Option<i64>,
}

/// List sessions
///
/// Returns the current user's sessions, newest first.
#[utoipa::path(
    get, path = "/api/sessions", operation_id = "list_sessions", tag = "sessions", params(Page),
    responses((status = 200, body = [SessionView], description = "Sessions, newest first"), Refusals)
)]
async fn list(
    State(app): State<App>,
    Caller(user): Caller,
    Asked(page): Asked<Page>,
) -> Result<Json<Vec<SessionView>>, ApiError> {
    let limit = listed(page.limit)?;
    let before = page.before.map(u64::try_from).transpose().unwrap_or(Some(0));
    if before == Some(0) {
        return Err(ApiError::invalid("before must be at least 1"));
    }
    let found = app.frontend.engine.history().sessions(&user, limit, before).await;
    let found = found.map_err(|error| ApiError::internal("list sessions", error))?;
    Ok(Json(found.iter().map(SessionView::from).collect()))
}

async fn found(app: &App, user: &coracle_types::UserId, handle: &str) -> Result<SessionRecord, ApiError> {
    let found = app.frontend.engine.history().session(user, handle).await;
    let found = found.map_err(|error| ApiError::internal("find a session", error))?;
    found.ok_or_else(|| ApiError::missing("there is no such session"))
}

/// Get the log of a session
///
/// The log contains all stored tasks with their code and results, the state files and the latest checkpoint.
#[utoipa::path(
    get, path = "/api/sessions/{handle}", operation_id = "show_session", tag = "sessions",
    params(("handle" = String, Path, description = "Session ID, label or number")),
    responses(
        (status = 200, body = Object, description = "Session log with tasks, state files and checkpoint"),
        Refusals
    )
)]
async fn show(State(app): State<App>, Caller(user): Caller, At(handle): At<String>) -> Result<Json<Value>, ApiError> {
    let session = found(&app, &user, &handle).await?;
    let log = app.frontend.engine.history().export(&user, &session).await;
    log.map(Json).map_err(|error| ApiError::internal("read a session", error))
}

/// Summary for continuing a session
#[derive(Serialize, ToSchema)]
struct Resumed {
    /// Session ID
    session_id: String,
    /// Summary as plain text, for a model or a person
    text: String,
}

/// Get a summary for continuing a session
///
/// The summary covers the latest checkpoint, state files, variables and the most recent tasks.
#[utoipa::path(
    get, path = "/api/sessions/{handle}/resume", operation_id = "resume_session", tag = "sessions",
    params(("handle" = String, Path, description = "Session ID, label or number")),
    responses((status = 200, body = Resumed, description = "Summary for continuing the session"), Refusals)
)]
async fn resume(
    State(app): State<App>,
    Caller(user): Caller,
    At(handle): At<String>,
) -> Result<Json<Resumed>, ApiError> {
    let session = found(&app, &user, &handle).await?;
    let text = app.frontend.engine.history().resume(&user, &session).await;
    let text = text.map_err(|error| ApiError::internal("read a session", error))?;
    Ok(Json(Resumed { session_id: session.id.as_str().to_owned(), text }))
}

/// Result of ending a session
#[derive(Serialize, ToSchema)]
struct Ended {
    /// Whether this request ended the session; `false` if it had already ended
    ended: bool,
}

/// End a session
///
/// Ends the session's interpreter, after any running task, and makes its label available again. The log is kept.
#[utoipa::path(
    delete, path = "/api/sessions/{handle}", operation_id = "end_session", tag = "sessions",
    params(("handle" = String, Path, description = "Session ID, label or number")),
    responses((status = 200, body = Ended, description = "Session ended, now or earlier"), Refusals)
)]
async fn end(State(app): State<App>, Caller(user): Caller, At(handle): At<String>) -> Result<Json<Ended>, ApiError> {
    let session = found(&app, &user, &handle).await?;
    let ended = app.frontend.engine.end_session(&user, &session).await;
    ended.map(|ended| Json(Ended { ended })).map_err(|error| ApiError::internal("end a session", error))
}
