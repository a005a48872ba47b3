//! `/v1/files`: files that clients upload into the workspace of their user.

use super::error::OpenAiError;
use super::multipart::Multipart;
use super::stored_file::{self, FOLDER, StoredFile};
use crate::http::App;
use crate::http::api::content::{Content, send};
use crate::http::extract::{Asked, Caller};
use crate::http::problem::ApiError;
use crate::http::upload::{self, Upload};
use crate::mcp::{Frontend, with_files};
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use axum::routing::get;
use axum::{Json, Router};
use bytes::Bytes;
use coracle_engine::{Existing, Listed};
use coracle_types::UserId;
use futures::stream;
use serde::Deserialize;
use serde_json::{Value, json};

/// Maximum length of a field that is not a file.
const MAX_VALUE: usize = 1 << 10;
/// Maximum number of files in one list.
const MAX_LISTED: usize = 10_000;
/// The purpose of a file that does not say one before its content.
const DEFAULT_PURPOSE: &str = "user_data";

pub(super) fn router() -> Router<App> {
    Router::new()
        .route("/v1/files", get(list).post(create))
        .route("/v1/files/{id}", get(show).delete(delete))
        .route("/v1/files/{id}/content", get(content))
}

fn frontend(app: &App, user: &UserId) -> Frontend {
    app.frontend.of_user(user)
}

/// Fails if there are too many files to list.
async fn has_room(frontend: &Frontend) -> Result<(), ApiError> {
    if stored_file::all(frontend).await?.1 {
        let message = format!("the folder {FOLDER} of the workspace has too many files: delete some of them");
        return Err(ApiError::new(StatusCode::INSUFFICIENT_STORAGE, "too_many_files", message));
    }
    Ok(())
}

/// Stores a file that a request contains.
pub(super) async fn store(frontend: &Frontend, name: &str, content: Bytes) -> Result<StoredFile, ApiError> {
    has_room(frontend).await?;
    let file = StoredFile::new(name, DEFAULT_PURPOSE)?;
    let upload = Upload { path: file.path(), length: Some(content.len() as u64), existing: Existing::Keep };
    let bytes = upload::write(frontend, upload, stream::once(std::future::ready(Ok(content)))).await?.bytes;
    Ok(StoredFile { bytes, ..file })
}

async fn create(
    State(app): State<App>,
    caller: Result<Caller, ApiError>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Value>, OpenAiError> {
    let Caller(user) = caller?;
    let frontend = frontend(&app, &user);
    has_room(&frontend).await?;
    let mut multipart = Multipart::new(&headers, body)?;
    let mut purpose = None;
    let mut written: Option<StoredFile> = None;
    let read = async {
        while let Some(field) = multipart.next_field().await? {
            match (field.name.as_str(), field.file_name) {
                ("purpose", None) => {
                    let name = multipart.text(MAX_VALUE).await?;
                    let known = stored_file::purpose(&name);
                    let message = || format!("must be one of these: {}", stored_file::purposes());
                    purpose = Some(known.ok_or_else(|| OpenAiError::parameter("purpose", message()))?);
                }
                ("file", name) if written.is_none() => {
                    let file = StoredFile::new(&name.unwrap_or_default(), purpose.unwrap_or(DEFAULT_PURPOSE))?;
                    let upload = Upload { path: file.path(), length: None, existing: Existing::Keep };
                    let pieces = stream::try_unfold(&mut multipart, |multipart| async move {
                        Ok(multipart.next_piece().await?.map(|piece| (piece, multipart)))
                    });
                    let bytes = upload::write(&frontend, upload, pieces).await?.bytes;
                    written = Some(StoredFile { bytes, ..file });
                }
                ("file", _) => return Err(OpenAiError::parameter("file", "only one file can be uploaded at once")),
                // Options that have no effect here.
                _ => {
                    multipart.text(MAX_VALUE).await?;
                }
            }
        }
        Ok::<_, OpenAiError>(())
    };
    let read = read.await;
    let finished = match (read, written, purpose) {
        (Ok(()), Some(file), Some(purpose)) => return finish(&frontend, file, purpose).await,
        (Ok(()), None, _) => (None, OpenAiError::parameter("file", "is missing")),
        (Ok(()), file, None) => (file, OpenAiError::parameter("purpose", "is missing")),
        (Err(error), file, _) => (file, error),
    };
    // A request that fails leaves nothing.
    let (file, error) = finished;
    if let Some(file) = file {
        with_files(&frontend, move |files| files.delete(&file.path(), Listed::Here)).await.map_err(ApiError::from)?;
    }
    Err(error)
}

/// Gives a file its purpose, if that came after the content.
async fn finish(frontend: &Frontend, file: StoredFile, purpose: &'static str) -> Result<Json<Value>, OpenAiError> {
    if file.purpose == purpose {
        return Ok(Json(file.view()));
    }
    let named = StoredFile { bytes: file.bytes, ..StoredFile::new(&file.name, purpose)? };
    let (from, to) = (file.path(), named.path());
    with_files(frontend, move |files| files.rename(&from, &to, Existing::Keep)).await.map_err(ApiError::from)?;
    Ok(Json(named.view()))
}

#[derive(Debug, Deserialize)]
struct ListQuery {
    #[serde(default)]
    after: Option<String>,
    #[serde(default)]
    limit: Option<usize>,
    #[serde(default)]
    order: Option<String>,
    #[serde(default)]
    purpose: Option<String>,
}

async fn list(
    State(app): State<App>,
    caller: Result<Caller, ApiError>,
    query: Result<Asked<ListQuery>, ApiError>,
) -> Result<Json<Value>, OpenAiError> {
    let (Caller(user), Asked(query)) = (caller?, query?);
    let (mut files, _) = stored_file::all(&frontend(&app, &user)).await?;
    files.retain(|file| query.purpose.as_ref().is_none_or(|purpose| file.purpose == purpose));
    match query.order.as_deref() {
        None | Some("desc") => files.reverse(),
        Some("asc") => {}
        Some(_) => return Err(OpenAiError::parameter("order", "must be `asc` or `desc`")),
    }
    if let Some(after) = &query.after {
        let place = files.iter().position(|file| file.id == *after);
        files = place.map(|place| files.split_off(place + 1)).unwrap_or_default();
    }
    let limit = query.limit.unwrap_or(MAX_LISTED).clamp(1, MAX_LISTED);
    let has_more = files.len() > limit;
    files.truncate(limit);
    let ends = (files.first().map(|file| &file.id), files.last().map(|file| &file.id));
    let views: Vec<Value> = files.iter().map(StoredFile::view).collect();
    Ok(Json(json!({"object": "list", "data": views, "first_id": ends.0, "last_id": ends.1, "has_more": has_more})))
}

async fn show(
    State(app): State<App>,
    caller: Result<Caller, ApiError>,
    Path(id): Path<String>,
) -> Result<Json<Value>, OpenAiError> {
    let Caller(user) = caller?;
    Ok(Json(stored_file::find(&frontend(&app, &user), &id).await?.view()))
}

async fn delete(
    State(app): State<App>,
    caller: Result<Caller, ApiError>,
    Path(id): Path<String>,
) -> Result<Json<Value>, OpenAiError> {
    let Caller(user) = caller?;
    let frontend = frontend(&app, &user);
    let file = stored_file::find(&frontend, &id).await?;
    with_files(&frontend, move |files| files.delete(&file.path(), Listed::Here)).await.map_err(ApiError::from)?;
    Ok(Json(json!({"id": id, "object": "file", "deleted": true})))
}

async fn content(
    State(app): State<App>,
    caller: Result<Caller, ApiError>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, OpenAiError> {
    let Caller(user) = caller?;
    let frontend = frontend(&app, &user);
    let file = stored_file::find(&frontend, &id).await?;
    let path = file.path();
    let (info, opened) = with_files(&frontend, move |files| files.open_file(&path)).await.map_err(ApiError::from)?;
    let etag = format!("\"{}\"", info.version());
    let mime = "application/octet-stream".to_owned();
    let content = Content { file: opened, bytes: info.bytes, mime, name: file.name, etag, inline: false };
    Ok(send(content, &headers))
}
