//! What ran in sessions.

use super::extract::{Asked, At, Caller, listed};
use super::problem::{ApiError, Refusals};
use crate::http::App;
use axum::Json;
use axum::extract::State;
use coracle_store::SessionRecord;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::SystemTime;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(show, end)).routes(routes!(resume))
}

/// A session of the caller.
#[derive(Serialize, ToSchema)]
struct Session {
    /// Names it, and cannot be guessed.
    id: String,
    /// Its number among the caller's sessions, from 1.
    number: u64,
    /// What a person calls it.
    label: Option<String>,
    /// When it was made, in milliseconds since 1970.
    started_at_ms: u64,
    /// When something last began to run in it, in milliseconds since 1970.
    last_used_ms: u64,
    /// When it was ended, in milliseconds since 1970.
    ended_at_ms: Option<u64>,
    /// How many tasks have begun in it.
    tasks: u64,
}

pub(super) fn milliseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

impl From<SessionRecord> for Session {
    fn from(record: SessionRecord) -> Self {
        Self {
            id: record.id.as_str().to_owned(),
            number: record.number,
            label: record.label,
            started_at_ms: milliseconds(record.started_at),
            last_used_ms: milliseconds(record.last_used),
            ended_at_ms: record.ended_at.map(milliseconds),
            tasks: record.tasks,
        }
    }
}

/// Which sessions to list.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct Page {
    /// So many at most.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<usize>,
    /// Those with a lower number.
    #[param(minimum = 1)]
    before: Option<i64>,
}

/// The caller's sessions, the newest first.
#[utoipa::path(
    get, path = "/api/sessions", operation_id = "list_sessions", tag = "sessions", params(Page),
    responses((status = 200, body = [Session], description = "A page of them"), Refusals)
)]
async fn list(
    State(app): State<App>,
    Caller(user): Caller,
    Asked(page): Asked<Page>,
) -> Result<Json<Vec<Session>>, ApiError> {
    let limit = listed(page.limit)?;
    let before = page.before.map(u64::try_from).transpose().unwrap_or(Some(0));
    if before == Some(0) {
        return Err(ApiError::invalid("sessions count from 1: before must be at least that"));
    }
    let found = app.face.engine.history().sessions(&user, limit, before).await;
    let found = found.map_err(|error| ApiError::internal("list sessions", error))?;
    Ok(Json(found.into_iter().map(Session::from).collect()))
}

async fn found(app: &App, user: &coracle_types::UserId, handle: &str) -> Result<SessionRecord, ApiError> {
    let found = app.face.engine.history().session(user, handle).await;
    let found = found.map_err(|error| ApiError::internal("find a session", error))?;
    found.ok_or_else(|| ApiError::missing("there is no such session"))
}

/// All that is kept of a session: tasks, their code and results, the checkpoint.
#[utoipa::path(
    get, path = "/api/sessions/{handle}", operation_id = "show_session", tag = "sessions",
    params(("handle" = String, Path, description = "Its id, its label or its number")),
    responses((status = 200, body = Object, description = "The log"), Refusals)
)]
async fn show(State(app): State<App>, Caller(user): Caller, At(handle): At<String>) -> Result<Json<Value>, ApiError> {
    let session = found(&app, &user, &handle).await?;
    let log = app.face.engine.history().export(&user, &session).await;
    log.map(Json).map_err(|error| ApiError::internal("read a session", error))
}

/// What the next program should know.
#[derive(Serialize, ToSchema)]
struct Resumed {
    /// Which session.
    id: String,
    /// For a model or a person to read.
    text: String,
}

/// What the next program in a session should know.
#[utoipa::path(
    get, path = "/api/sessions/{handle}/resume", operation_id = "resume_session", tag = "sessions",
    params(("handle" = String, Path, description = "Its id, its label or its number")),
    responses((status = 200, body = Resumed, description = "It"), Refusals)
)]
async fn resume(
    State(app): State<App>,
    Caller(user): Caller,
    At(handle): At<String>,
) -> Result<Json<Resumed>, ApiError> {
    let session = found(&app, &user, &handle).await?;
    let text = app.face.engine.history().resume(&user, &session).await;
    let text = text.map_err(|error| ApiError::internal("read a session", error))?;
    Ok(Json(Resumed { id: session.id.as_str().to_owned(), text }))
}

/// Whether it had not ended before.
#[derive(Serialize, ToSchema)]
struct Ended {
    /// It has ended now.
    ended: bool,
}

/// Ends a session: its name is free again, its log stays.
#[utoipa::path(
    delete, path = "/api/sessions/{handle}", operation_id = "end_session", tag = "sessions",
    params(("handle" = String, Path, description = "Its id, its label or its number")),
    responses((status = 200, body = Ended, description = "It has ended"), Refusals)
)]
async fn end(State(app): State<App>, Caller(user): Caller, At(handle): At<String>) -> Result<Json<Ended>, ApiError> {
    let session = found(&app, &user, &handle).await?;
    let ended = app.face.engine.end_session(&user, &session).await;
    ended.map(|ended| Json(Ended { ended })).map_err(|error| ApiError::internal("end a session", error))
}
