//! `/v1/containers/{id}/files`: the files that code left for its user. The container of a user is the workspace.

use super::error::OpenAiError;
use crate::http::App;
use crate::http::api::content::{Content, send};
use crate::http::extract::{Asked, Caller};
use crate::http::problem::ApiError;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::Response;
use axum::routing::get;
use axum::{Json, Router};
use coracle_engine::{ArtifactRecord, ArtifactVersion};
use coracle_runs::{artifact_of_file, container, file_id};
use coracle_types::{ArtifactId, UserId};
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::SystemTime;

/// Default and maximum number of files in one list.
const LIST: (usize, usize) = (20, 100);

pub(super) fn router() -> Router<App> {
    Router::new()
        .route("/v1/containers/{id}/files", get(list))
        .route("/v1/containers/{id}/files/{file}", get(show).delete(delete))
        .route("/v1/containers/{id}/files/{file}/content", get(content))
}

/// Users have one container each, and those of others do not exist for them.
fn check(user: &UserId, id: &str) -> Result<(), OpenAiError> {
    if id == container(user) { Ok(()) } else { Err(ApiError::missing("there is no such container").into()) }
}

fn known(file: &str) -> Result<(ArtifactId, Option<u64>), OpenAiError> {
    artifact_of_file(file).ok_or_else(|| ApiError::missing("there is no such file").into())
}

fn view(user: &UserId, record: &ArtifactRecord, version: &ArtifactVersion) -> Value {
    let created_at = version.created_at.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_secs());
    json!({
        "id": file_id(&record.id, version.version), "object": "container.file", "bytes": version.bytes,
        "container_id": container(user), "created_at": created_at, "path": format!("/artifacts/{}", record.name),
        "source": "assistant",
    })
}

#[derive(Debug, Deserialize)]
struct ListQuery {
    #[serde(default)]
    after: Option<String>,
    #[serde(default)]
    limit: Option<usize>,
}

async fn list(
    State(app): State<App>,
    caller: Result<Caller, ApiError>,
    Path(id): Path<String>,
    query: Result<Asked<ListQuery>, ApiError>,
) -> Result<Json<Value>, OpenAiError> {
    let (Caller(user), Asked(query)) = (caller?, query?);
    check(&user, &id)?;
    let (default, most) = LIST;
    let limit = query.limit.unwrap_or(default).clamp(1, most);
    let after = query.after.as_deref().map(known).transpose()?;
    let found = app.frontend.engine.artifacts(&user, limit + 1, after.as_ref().map(|(id, _)| id)).await;
    let mut found = found.map_err(ApiError::from)?;
    let has_more = found.len() > limit;
    found.truncate(limit);
    let newest = found.iter().filter_map(|record| Some(view(&user, record, record.versions.first()?)));
    let views: Vec<Value> = newest.collect();
    let id = |view: Option<&Value>| view.map(|view| view["id"].clone());
    let (first, last) = (id(views.first()), id(views.last()));
    Ok(Json(json!({"object": "list", "data": views, "first_id": first, "last_id": last, "has_more": has_more})))
}

async fn show(
    State(app): State<App>,
    caller: Result<Caller, ApiError>,
    Path((id, file)): Path<(String, String)>,
) -> Result<Json<Value>, OpenAiError> {
    let Caller(user) = caller?;
    check(&user, &id)?;
    let (artifact, version) = known(&file)?;
    let opened = app.frontend.engine.open_artifact(&user, &artifact, version).await.map_err(ApiError::from)?;
    Ok(Json(view(&user, &opened.0, &opened.1)))
}

async fn delete(
    State(app): State<App>,
    caller: Result<Caller, ApiError>,
    Path((id, file)): Path<(String, String)>,
) -> Result<Json<Value>, OpenAiError> {
    let Caller(user) = caller?;
    check(&user, &id)?;
    let (artifact, version) = known(&file)?;
    app.frontend.engine.delete_artifact(&user, &artifact, version).await.map_err(ApiError::from)?;
    Ok(Json(json!({"id": file, "object": "container.file.deleted", "deleted": true})))
}

async fn content(
    State(app): State<App>,
    caller: Result<Caller, ApiError>,
    Path((id, file)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, OpenAiError> {
    let Caller(user) = caller?;
    check(&user, &id)?;
    let (artifact, version) = known(&file)?;
    let opened = app.frontend.engine.open_artifact(&user, &artifact, version).await.map_err(ApiError::from)?;
    let (record, ArtifactVersion { mime, bytes, sha256, .. }, file) = opened;
    let etag = format!("\"{sha256}\"");
    Ok(send(Content { file, bytes, mime, name: record.name, etag, inline: false }, &headers))
}
