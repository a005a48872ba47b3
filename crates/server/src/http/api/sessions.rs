//! `/api/sessions`: sessions and their logs.

use crate::http::App;
use crate::http::extract::{Asked, At, Body, Caller, listed};
use crate::http::problem::{ApiError, Problem, Refusals};
use crate::http::reader::Reader;
use crate::views::SessionView;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use coracle_engine::{Difference, Replay, ReplayFiles, ReplayedTask};
use coracle_privacy::Item;
use coracle_store::{SessionRecord, StoreError};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(show, end))
        .routes(routes!(resume))
        .routes(routes!(remove))
        .routes(routes!(replay))
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
/// The log contains all stored tasks with their code, results and the answers of tools, the state files and the latest
/// checkpoint. Where personal data is hidden from models, API keys without the scope `approve` get tokens instead of it.
#[utoipa::path(
    get, path = "/api/sessions/{handle}", operation_id = "show_session", tag = "sessions",
    params(("handle" = String, Path, description = "Session ID, label or number")),
    responses(
        (status = 200, body = Object, description = "Session log with tasks, state files and checkpoint"),
        Refusals
    )
)]
async fn show(State(app): State<App>, reader: Reader, At(handle): At<String>) -> Result<Json<Value>, ApiError> {
    let session = found(&app, &reader.user, &handle).await?;
    let log = app.frontend.engine.history().export(&reader.user, &session).await;
    let mut log = log.map_err(|error| ApiError::internal("read a session", error))?;
    reader.protect_message(&app, &mut log).await?;
    Ok(Json(log))
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
/// The summary covers the latest checkpoint, state files, variables and the most recent tasks. Where personal data is hidden
/// from models, API keys without the scope `approve` get tokens instead of it.
#[utoipa::path(
    get, path = "/api/sessions/{handle}/resume", operation_id = "resume_session", tag = "sessions",
    params(("handle" = String, Path, description = "Session ID, label or number")),
    responses((status = 200, body = Resumed, description = "Summary for continuing the session"), Refusals)
)]
async fn resume(State(app): State<App>, reader: Reader, At(handle): At<String>) -> Result<Json<Resumed>, ApiError> {
    let session = found(&app, &reader.user, &handle).await?;
    let text = app.frontend.engine.history().resume(&reader.user, &session).await;
    let mut text = text.map_err(|error| ApiError::internal("read a session", error))?;
    reader.protect(&app, &mut [Item::Text(&mut text)]).await?;
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

/// Delete a session and its log
///
/// Ends the session first. Files in the workspace are kept.
#[utoipa::path(
    delete, path = "/api/sessions/{handle}/log", operation_id = "delete_session", tag = "sessions",
    params(("handle" = String, Path, description = "Session ID, label or number")),
    responses(
        (status = 204, description = "Session deleted"),
        (status = 409, body = Problem, description = "A task is running in the session"),
        Refusals
    )
)]
async fn remove(State(app): State<App>, Caller(user): Caller, At(handle): At<String>) -> Result<StatusCode, ApiError> {
    let session = found(&app, &user, &handle).await?;
    let failed = |error: StoreError| ApiError::internal("delete a session", error);
    app.frontend.engine.end_session(&user, &session).await.map_err(failed)?;
    if !app.frontend.engine.history().remove(&user, &session).await.map_err(failed)? {
        let message = "a task is running in this session: cancel it, or wait for it to end";
        return Err(ApiError::new(StatusCode::CONFLICT, "in_use", message));
    }
    Ok(StatusCode::NO_CONTENT)
}

/// Options of a replay
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ReplayOptions {
    /// Whether to replay in a copy of the current workspace instead of an empty one, for a session that read files
    /// created before it; defaults to `false`
    #[serde(default)]
    with_files: bool,
}

/// Outcome of a replay
#[derive(Serialize, ToSchema)]
struct Replayed {
    /// Session ID
    session_id: String,
    /// Whether all files of the workspace were copied; also true if none were asked for
    all_files: bool,
    /// Whether all tasks that ran had the same outcome as before
    is_same: bool,
    /// Tasks in order
    tasks: Vec<TaskComparison>,
}

/// Task of a replayed session
#[derive(Serialize, ToSchema)]
struct TaskComparison {
    /// Task number within the session
    number: u64,
    /// Reason why the task was not run; null if it was
    skipped: Option<String>,
    /// Differences from the recorded outcome
    differences: Vec<OutcomeDifference>,
}

/// Difference from the recorded outcome
#[derive(Serialize, ToSchema)]
struct OutcomeDifference {
    /// Part that differs: `result`, `output`, `error` or `calls`
    what: String,
    /// Recorded value
    then: String,
    /// Current value
    now: String,
}

impl From<Replay> for Replayed {
    fn from(replay: Replay) -> Self {
        let is_same = replay.is_same();
        let difference = |Difference { what, then, now }| OutcomeDifference { what, then, now };
        let task = |task: ReplayedTask| TaskComparison {
            number: task.number,
            skipped: task.skipped,
            differences: task.differences.into_iter().map(difference).collect(),
        };
        let Replay { session_id, all_files, tasks } = replay;
        Self { session_id, all_files, is_same, tasks: tasks.into_iter().map(task).collect() }
    }
}

/// Replay a session
///
/// Runs the code of the session again, in a temporary workspace and with the recorded answers of tools, and compares the
/// outcomes. No tool is called. Closing the connection cancels the replay.
#[utoipa::path(
    post, path = "/api/sessions/{handle}/replay", operation_id = "replay_session", tag = "sessions",
    params(("handle" = String, Path, description = "Session ID, label or number")),
    request_body = ReplayOptions,
    responses(
        (status = 200, body = Replayed, description = "Outcome of each task, compared with the recorded one"),
        (status = 429, body = Problem, description = "Another replay of the user is under way, or too many others"),
        Refusals
    )
)]
async fn replay(
    State(app): State<App>,
    reader: Reader,
    At(handle): At<String>,
    Body(options): Body<ReplayOptions>,
) -> Result<Json<Replayed>, ApiError> {
    let user = &reader.user;
    let session = found(&app, user, &handle).await?;
    let Some(_turn) = app.replays.begin(user) else {
        let message = "a replay of this user is under way, or too many of others: try again later";
        return Err(ApiError::new(StatusCode::TOO_MANY_REQUESTS, "too_many_replays", message));
    };
    let files = if options.with_files { ReplayFiles::Copied } else { ReplayFiles::Nothing };
    // If the client leaves, this future is dropped, which ends the sandbox.
    let (limits, cancel) = (app.frontend.options.settings.limits(), app.stop.child_token());
    let replayed = app.frontend.engine.replay(user, &session, files, &limits, &cancel).await;
    let mut replayed: Replayed = replayed.map_err(|error| ApiError::internal("replay a session", error))?.into();
    let mut texts = Vec::new();
    for task in &mut replayed.tasks {
        texts.extend(task.skipped.iter_mut().map(Item::Text));
        let differences = task.differences.iter_mut();
        texts.extend(differences.flat_map(|difference| [&mut difference.then, &mut difference.now].map(Item::Text)));
    }
    reader.protect(&app, &mut texts).await?;
    Ok(Json(replayed))
}
