//! `/api/me` and `/api/users/{name}`: export and deletion of everything that a user has.

use super::accounts::{admin, named};
use crate::http::App;
use crate::http::extract::{At, Caller};
use crate::http::problem::{ApiError, Problem, Refusals};
use crate::identity::{How, Identity};
use crate::user_export::export_user;
use axum::body::Body;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use coracle_engine::{AccountFate, DeleteError};
use coracle_types::UserId;
use futures::stream;
use std::io::{self, BufWriter, Write};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Number of bytes that are sent at once.
const CHUNK: usize = 64 << 10;
/// Number of chunks that wait to be sent. If the client is slower, reading waits.
const AHEAD: usize = 4;
/// Maximum time for the user's code to end before everything is deleted.
const ENDED_WITHIN: Duration = Duration::from_secs(30);
/// Pause between attempts.
const AGAIN: Duration = Duration::from_millis(20);

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(export_own))
        .routes(routes!(delete_own))
        .routes(routes!(export))
        .routes(routes!(delete))
}

/// Export everything that you have
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
async fn export_own(State(app): State<App>, Caller(user): Caller) -> Result<Response, ApiError> {
    archive(&app, user)
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
    let Some(turn) = app.user_data.export(&user) else {
        let message = "an export of this user is under way, or too many of others: try again later";
        let refused = ApiError::new(StatusCode::TOO_MANY_REQUESTS, "too_many_exports", message);
        return Err(ApiError { retry: Some(Duration::from_secs(5)), ..refused });
    };
    let (sender, receiver) = mpsc::channel(AHEAD);
    let folder = app.frontend.engine.belongings().folder(&user);
    let writer = BufWriter::with_capacity(CHUNK, Sending(sender.clone()));
    let name = format!("attachment; filename=\"coracle-{user}.tar\"");
    let store = app.auth.people.shared_store();
    tokio::spawn(async move {
        if let Err(error) = export_user(store, user.clone(), folder, writer).await {
            tracing::warn!(%user, %error, "an export was not completed");
            // Breaks the response off, so that the client does not take it for complete.
            let _ = sender.send(Err(io::Error::other(error))).await;
        }
        drop(turn);
    });
    let body = stream::unfold(receiver, |mut receiver| async move { Some((receiver.recv().await?, receiver)) });
    let headers = [
        (header::CONTENT_TYPE, "application/x-tar".to_owned()),
        (header::CONTENT_DISPOSITION, name),
        (header::CACHE_CONTROL, "no-store".to_owned()),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
    ];
    Ok((headers, Body::from_stream(body)).into_response())
}

/// Writes to a response, on a thread that may block. Fails when the client is gone.
struct Sending(mpsc::Sender<io::Result<Bytes>>);

impl Write for Sending {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sent = self.0.blocking_send(Ok(Bytes::copy_from_slice(bytes)));
        sent.map_err(|_| io::Error::new(io::ErrorKind::BrokenPipe, "the client is gone"))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
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
    use coracle_store::KeyScope::{Admin, Approve};
    if matches!(caller.how, How::Key { .. } | How::Bearer { .. }) && !caller.may(Approve) && !caller.may(Admin) {
        let message = "deleting everything requires a person: a browser session, or an API key with the scope approve";
        return Err(ApiError::forbidden("insufficient_scope", message));
    }
    delete_all(&app, &caller.user, AccountFate::Kept).await?;
    tracing::info!(user = %caller.user, "data of a user deleted");
    Ok(StatusCode::NO_CONTENT)
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
    tracing::info!(by = %caller.user, %user, "user deleted");
    Ok(StatusCode::NO_CONTENT)
}

/// Ends everything that works for a user, and deletes everything that the user has. Goes on if the client leaves.
async fn delete_all(app: &App, user: &UserId, account: AccountFate) -> Result<(), ApiError> {
    let (app, user) = (app.clone(), user.clone());
    let deleting = tokio::spawn(async move {
        let _turn = app.user_data.deleting.lock().await;
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
