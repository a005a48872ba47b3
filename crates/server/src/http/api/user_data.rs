//! `/api/me` and `/api/users/{name}`: usage, export and deletion of what a user has.

use super::accounts::{admin, named};
use super::workspace::WorkspaceUsage;
use crate::http::extract::{At, Caller};
use crate::http::problem::{ApiError, Problem, Refusals};
use crate::http::reader::Reader;
use crate::http::{App, download};
use crate::identity::{How, Identity};
use crate::timestamp::Timestamp;
use crate::user_export::export_user;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use coracle_engine::{AccountFate, DeleteError};
use coracle_store::Day;
use coracle_types::UserId;
use serde::Serialize;
use std::time::{Duration, SystemTime};
use tokio::time::Instant;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Number of days in the usage of tokens.
const SHOWN_DAYS: usize = 30;
/// Length of the date in a timestamp.
const DATE_CHARS: usize = 10;
/// Maximum time for the user's code to end before everything is deleted.
const ENDED_WITHIN: Duration = Duration::from_secs(30);
/// Pause between attempts.
const AGAIN: Duration = Duration::from_millis(20);

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(usage))
        .routes(routes!(export_own))
        .routes(routes!(delete_own))
        .routes(routes!(delete_vault))
        .routes(routes!(export))
        .routes(routes!(delete))
}

/// Usage of a user, with its limits
#[derive(Debug, Serialize, ToSchema)]
struct Usage {
    /// Tokens of models that the operator pays for
    tokens: TokenUsage,
    /// Disk space of the workspace
    workspace: SpaceUsage,
    /// Disk space of the artifacts
    artifacts: SpaceUsage,
}

/// Tokens of language models, counted by day
#[derive(Debug, Serialize, ToSchema)]
struct TokenUsage {
    /// Tokens used today
    today: u64,
    /// Maximum number of tokens per day; null if there is no limit
    limit: Option<u64>,
    /// The last 30 days on which tokens were used, oldest first
    days: Vec<TokenDay>,
}

/// Tokens of a day
#[derive(Debug, Serialize, ToSchema)]
struct TokenDay {
    /// Date in UTC
    #[schema(format = Date)]
    day: String,
    /// Input and output tokens together
    tokens: u64,
}

/// Disk space
#[derive(Debug, Serialize, ToSchema)]
struct SpaceUsage {
    /// Used space in bytes
    bytes: u64,
    /// Maximum space in bytes
    max_bytes: u64,
}

/// Get what you have used, and your limits
///
/// Tokens are those of models whose keys are the operator's: your own keys are not counted. A day begins at 00:00 UTC.
#[utoipa::path(
    get, path = "/api/me/usage", operation_id = "show_usage", tag = "users",
    responses((status = 200, body = Usage, description = "Tokens and disk space, with their limits"), Refusals)
)]
async fn usage(State(app): State<App>, Caller(user): Caller) -> Result<Json<Usage>, ApiError> {
    let engine = &app.frontend.engine;
    let workspace = WorkspaceUsage::of(&app, &user).await?;
    let today = Day::of(SystemTime::now());
    let days = app.auth.people.store().token_days(&user).await?;
    let shown = days.len().saturating_sub(SHOWN_DAYS);
    let date = |day: Day| Timestamp::from(day.start()).to_string().chars().take(DATE_CHARS).collect();
    Ok(Json(Usage {
        tokens: TokenUsage {
            today: days.iter().find(|(day, _)| *day == today).map_or(0, |(_, tokens)| *tokens),
            limit: app.agent.daily_tokens,
            days: days[shown..].iter().map(|(day, tokens)| TokenDay { day: date(*day), tokens: *tokens }).collect(),
        },
        workspace: SpaceUsage { bytes: workspace.bytes, max_bytes: workspace.max_bytes },
        artifacts: SpaceUsage { bytes: engine.artifact_usage(&user).await?.bytes, max_bytes: engine.artifact_limit() },
    }))
}

/// Export everything that you have
///
/// An API key needs the scope `admin` or `approve` in addition to `api`, because the archive has what privacy tokens stand for.
/// On a server without users that hides personal data from models, only its browser can export.
///
/// A tar archive: conversations, runs, executions, sessions, approvals, decisions, token counts and the index of
/// artifacts as JSON, and the files in `workspace/`. API keys, keys of providers and other secrets are only named. The
/// archive is complete if its last entry is `end.json`.
#[utoipa::path(
    get, path = "/api/me/export", operation_id = "export_me", tag = "users",
    responses(
        (status = 200, description = "Tar archive", content_type = "application/x-tar"),
        (status = 429, body = Problem, description = "Another export of the user is under way, or too many others"),
        Refusals
    )
)]
async fn export_own(State(app): State<App>, caller: Identity, reader: Reader) -> Result<Response, ApiError> {
    by_person(&caller, "exporting everything")?;
    if matches!(caller.how, How::Local) && reader.vault(&app).await?.is_some() {
        let message =
            "exporting everything requires a person: use the web page, or `coracle users export local --to FILE`";
        return Err(ApiError::forbidden("insufficient_scope", message));
    }
    archive(&app, caller.user)
}

/// Export everything that a user has
///
/// The archive is that of `GET /api/me/export`. Requires the `admin` role; an API key also needs the `admin` scope.
#[utoipa::path(
    get, path = "/api/users/{name}/export", operation_id = "export_user", tag = "users",
    params(("name" = String, Path, description = "User name")),
    responses(
        (status = 200, description = "Tar archive", content_type = "application/x-tar"),
        (status = 429, body = Problem, description = "Another export of the user is under way, or too many others"),
        Refusals
    )
)]
async fn export(State(app): State<App>, caller: Identity, At(name): At<String>) -> Result<Response, ApiError> {
    admin(&caller)?;
    let user = app.auth.people.find(&named(&name)?).await?.id;
    tracing::info!(by = %caller.user, %user, "data of a user exported");
    archive(&app, user)
}

fn archive(app: &App, user: UserId) -> Result<Response, ApiError> {
    let turn = app.exports.begin(&user).ok_or_else(download::too_many)?;
    let (store, folder) = (app.auth.people.shared_store(), app.frontend.engine.belongings().folder(&user));
    let name = format!("coracle-{user}.tar");
    Ok(download::archive("application/x-tar", &name, |writer| async move {
        let written = export_user(store, user, folder, writer).await;
        drop(turn);
        written.map(drop)
    }))
}

/// Delete everything that you have
///
/// Stops your runs and code, and deletes your conversations, executions, sessions, skills, artifacts, files, decisions,
/// approvals, keys of providers and sign-ins to servers. Your account stays, with its API keys. Deleted data is also
/// removed from the disk of the server. If the request fails, repeat it. An API key needs the scope `admin` or
/// `approve` in addition to `api`, so that programs cannot do this by default.
#[utoipa::path(
    delete, path = "/api/me/data", operation_id = "delete_my_data", tag = "users",
    responses(
        (status = 204, description = "Data deleted"),
        (status = 503, body = Problem, description = "Not completed: repeat the request"),
        Refusals
    )
)]
async fn delete_own(State(app): State<App>, caller: Identity) -> Result<StatusCode, ApiError> {
    by_person(&caller, "deleting everything")?;
    delete_all(&app, &caller.user, AccountFate::Kept).await?;
    tracing::info!(user = %caller.user, "data of a user deleted");
    Ok(StatusCode::NO_CONTENT)
}

/// Delete your vault of personal data
///
/// Deletes the keys of the vault and all values in it. Privacy tokens that were issued so far can never be restored. An API
/// key needs the scope `admin` or `approve` in addition to `api`, so that programs cannot do this by default.
#[utoipa::path(
    delete, path = "/api/me/vault", operation_id = "delete_my_vault", tag = "users",
    responses((status = 204, description = "Vault deleted, or there was none"), Refusals)
)]
async fn delete_vault(State(app): State<App>, caller: Identity) -> Result<StatusCode, ApiError> {
    by_person(&caller, "deleting the vault")?;
    app.auth.people.by(&caller.user).record_deleted_vault(&caller.user).await?;
    match app.frontend.engine.privacy() {
        Some(privacy) => {
            let deleted = privacy.vaults().delete(&caller.user).await;
            deleted.map_err(|error| ApiError::internal("delete a vault", error))?
        }
        None => app.auth.people.store().delete_vault(&caller.user).await?,
    };
    tracing::info!(user = %caller.user, "vault of a user deleted");
    Ok(StatusCode::NO_CONTENT)
}

/// Rejects keys and tokens that do not stand for a person.
fn by_person(caller: &Identity, what: &str) -> Result<(), ApiError> {
    use coracle_store::KeyScope::{Admin, Approve};
    if matches!(caller.how, How::Key { .. } | How::Bearer { .. }) && !caller.may(Approve) && !caller.may(Admin) {
        let message = format!("{what} requires a person: a browser session, or an API key with the scope approve");
        return Err(ApiError::forbidden("insufficient_scope", message));
    }
    Ok(())
}

/// Delete a user with everything that they have
///
/// Deletes the account and what `DELETE /api/me/data` deletes. If the request fails, repeat it. Requires the `admin`
/// role; an API key also needs the `admin` scope. Admins cannot delete their own account.
#[utoipa::path(
    delete, path = "/api/users/{name}", operation_id = "delete_user", tag = "users",
    params(("name" = String, Path, description = "User name")),
    responses(
        (status = 204, description = "User deleted"),
        (status = 409, body = Problem, description = "Account belongs to the caller"),
        (status = 503, body = Problem, description = "Not completed: repeat the request"),
        Refusals
    )
)]
async fn delete(State(app): State<App>, caller: Identity, At(name): At<String>) -> Result<StatusCode, ApiError> {
    admin(&caller)?;
    let name = named(&name)?;
    if name == caller.user {
        let message = "admins cannot delete their own account: ask another admin, or use coracle users remove";
        return Err(ApiError::new(StatusCode::CONFLICT, "own_account", message));
    }
    let user = app.auth.people.find(&name).await?.id;
    if user == UserId::local() {
        let message = "this data belongs to the user who runs the server: use coracle users remove";
        return Err(ApiError::new(StatusCode::CONFLICT, "own_account", message));
    }
    delete_all(&app, &user, AccountFate::Deleted).await?;
    app.auth.people.by(&caller.user).record_removal(&user);
    tracing::info!(by = %caller.user, %user, "user deleted");
    Ok(StatusCode::NO_CONTENT)
}

/// Ends everything that works for a user, and deletes everything that the user has. Goes on if the client leaves.
async fn delete_all(app: &App, user: &UserId, account: AccountFate) -> Result<(), ApiError> {
    let (app, user) = (app.clone(), user.clone());
    let deleting = tokio::spawn(async move {
        let _turn = app.deleting.lock().await;
        if account == AccountFate::Deleted {
            app.auth.people.set_disabled(&user, true).await?;
        }
        let (engine, deadline) = (&app.frontend.engine, Instant::now() + ENDED_WITHIN);
        loop {
            app.runs.stop_all(&user).await;
            engine.end_all_of(&user).await;
            match engine.belongings().delete(&user, account).await {
                Ok(()) => return Ok(()),
                // What was cancelled needs a moment to end.
                Err(DeleteError::Running { .. }) if Instant::now() < deadline => tokio::time::sleep(AGAIN).await,
                Err(error) => return Err(not_completed(&user, error)),
            }
        }
    });
    deleting.await.map_err(|error| ApiError::internal("delete the data of a user", error))?
}

fn not_completed(user: &UserId, error: DeleteError) -> ApiError {
    tracing::error!(%user, %error, "data of a user could not be deleted completely");
    let refused = match error {
        DeleteError::Store(error) => return error.into(),
        DeleteError::Running { .. } => "code of the user does not end: repeat the request",
        DeleteError::Files { .. } => "not all files could be deleted: repeat the request, or see the server's log",
    };
    ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "not_deleted", refused)
}
