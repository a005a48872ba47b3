//! `/api/artifacts`: what the caller's code has left, in versions.

use super::content::{Content, Inline, send};
use super::extract::{Asked, At, Caller, listed};
use super::problem::{ApiError, Problem, Refusals};
use crate::http::App;
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use coracle_engine::{ArtifactError, ArtifactRecord, ArtifactVersion};
use coracle_types::{ArtifactId, UserId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::{SystemTime, UNIX_EPOCH};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(one, remove))
        .routes(routes!(newest_content))
        .routes(routes!(remove_version))
        .routes(routes!(content))
}

impl From<ArtifactError> for ApiError {
    fn from(error: ArtifactError) -> Self {
        match error {
            ArtifactError::Missing { .. } => Self::missing(error.to_string()),
            ArtifactError::TooLarge { .. } => Self::new(StatusCode::PAYLOAD_TOO_LARGE, error.code(), error.to_string()),
            ArtifactError::Unreadable { .. } | ArtifactError::Store(_) => Self::internal("use an artifact", error),
        }
    }
}

/// One version of an artifact, as an execution wrote it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ArtifactVersion)]
pub(crate) struct Written {
    /// Counts from 1.
    version: u64,
    /// The execution that wrote it.
    execution_id: String,
    /// The session that it ran in.
    session: Option<String>,
    /// By content and ending.
    mime: String,
    /// Its length.
    bytes: u64,
    /// Of its content.
    sha256: String,
    /// In milliseconds since 1970.
    created_ms: u64,
    /// The beginning of a text, or the size of an image.
    #[schema(value_type = Option<Object>)]
    preview: Option<Value>,
}

impl From<ArtifactVersion> for Written {
    fn from(version: ArtifactVersion) -> Self {
        Self {
            version: version.version,
            execution_id: version.execution_id.to_string(),
            session: version.session.map(|session| session.to_string()),
            mime: version.mime,
            bytes: version.bytes,
            sha256: version.sha256,
            created_ms: millis(version.created_at),
            preview: version.preview.and_then(|preview| serde_json::to_value(preview).ok()),
        }
    }
}

fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// An artifact: a name, and what was written under it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Artifact)]
pub(crate) struct ArtifactBody {
    /// Names it in all its versions.
    id: String,
    /// Its path below `/artifacts`.
    name: String,
    /// How many versions there are.
    count: u64,
    /// The newest first. A list of artifacts has only that.
    versions: Vec<Written>,
}

impl From<ArtifactRecord> for ArtifactBody {
    fn from(record: ArtifactRecord) -> Self {
        let versions = record.versions.into_iter().map(Written::from).collect();
        Self { id: record.id.to_string(), name: record.name, count: record.count, versions }
    }
}

/// A page of artifacts.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ArtifactPage {
    /// Those changed last first, with their newest version.
    artifacts: Vec<ArtifactBody>,
    /// What all of the caller's amount to; a version counts for 4096 bytes at least.
    bytes: u64,
    /// What they may amount to.
    max_bytes: u64,
}

/// Which page.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Paging {
    /// How many; at most 100.
    #[param(minimum = 1, maximum = 100, default = 50)]
    limit: Option<usize>,
    /// Those after this one: the last id of the page before.
    before: Option<String>,
}

/// The caller's artifacts.
#[utoipa::path(
    get, path = "/api/artifacts", operation_id = "list_artifacts", tag = "artifacts", params(Paging),
    responses(
        (status = 200, description = "A page of them", body = ArtifactPage),
        Refusals
    )
)]
pub(crate) async fn list(
    State(app): State<App>,
    Caller(user): Caller,
    Asked(paging): Asked<Paging>,
) -> Result<Json<ArtifactPage>, ApiError> {
    let limit = listed(paging.limit)?;
    let before =
        paging.before.map(ArtifactId::new).transpose().map_err(|error| ApiError::invalid(error.to_string()))?;
    let records = app.face.engine.artifacts(&user, limit, before.as_ref()).await?;
    let usage = app.face.engine.artifact_usage(&user).await?;
    let artifacts = records.into_iter().map(ArtifactBody::from).collect();
    Ok(Json(ArtifactPage { artifacts, bytes: usage.bytes, max_bytes: app.face.engine.artifact_limit() }))
}

/// How a file is sent.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Showing {
    /// 1 shows images, texts and isolated pages in the browser instead of saving them.
    #[param(value_type = u8, minimum = 0, maximum = 1)]
    inline: Inline,
}

/// What cannot be an id is one that there is not.
fn known(id: &str) -> Result<ArtifactId, ApiError> {
    ArtifactId::new(id).map_err(|_| ApiError::missing("there is no such artifact"))
}

/// An artifact with its versions.
#[utoipa::path(
    get, path = "/api/artifacts/{id}", operation_id = "show_artifact", tag = "artifacts", params(("id" = String, Path, description = "Which")),
    responses(
        (status = 200, description = "It, with its versions", body = ArtifactBody),
        Refusals
    )
)]
pub(crate) async fn one(
    State(app): State<App>,
    Caller(user): Caller,
    At(id): At<String>,
) -> Result<Json<ArtifactBody>, ApiError> {
    Ok(Json(app.face.engine.artifact_versions(&user, &known(&id)?).await?.into()))
}

async fn sent(
    app: &App,
    user: &UserId,
    id: &str,
    version: Option<u64>,
    showing: &Showing,
    headers: &HeaderMap,
) -> Result<Response, ApiError> {
    let (record, version, file) = app.face.engine.open_artifact(user, &known(id)?, version).await?;
    let ArtifactVersion { mime, bytes, sha256, .. } = version;
    let etag = format!("\"{sha256}\"");
    Ok(send(Content { file, bytes, mime, name: record.name, etag, inline: showing.inline.0 }, headers))
}

/// The newest version of an artifact, or a range of it.
#[utoipa::path(
    get, path = "/api/artifacts/{id}/content", operation_id = "download_artifact", tag = "artifacts",
    params(("id" = String, Path, description = "Which"), Showing),
    responses(
        (status = 200, description = "The file", content_type = "*/*"),
        (status = 206, description = "A range of it", content_type = "*/*"),
        (status = 304, description = "It is what the caller has"),
        (status = 416, description = "The range is beyond its end", body = Problem),
        Refusals
    )
)]
pub(crate) async fn newest_content(
    State(app): State<App>,
    Caller(user): Caller,
    At(id): At<String>,
    Asked(showing): Asked<Showing>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    sent(&app, &user, &id, None, &showing, &headers).await
}

/// One version of an artifact, or a range of it.
#[utoipa::path(
    get, path = "/api/artifacts/{id}/versions/{version}/content", operation_id = "download_artifact_version", tag = "artifacts",
    params(
        ("id" = String, Path, description = "Which"),
        ("version" = u64, Path, description = "Its number"),
        Showing,
    ),
    responses(
        (status = 200, description = "The file", content_type = "*/*"),
        (status = 206, description = "A range of it", content_type = "*/*"),
        (status = 304, description = "It is what the caller has"),
        (status = 416, description = "The range is beyond its end", body = Problem),
        Refusals
    )
)]
pub(crate) async fn content(
    State(app): State<App>,
    Caller(user): Caller,
    At((id, version)): At<(String, u64)>,
    Asked(showing): Asked<Showing>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    sent(&app, &user, &id, Some(version), &showing, &headers).await
}

/// Delete an artifact with all its versions.
#[utoipa::path(
    delete, path = "/api/artifacts/{id}", operation_id = "delete_artifact", tag = "artifacts", params(("id" = String, Path, description = "Which")),
    responses(
        (status = 204, description = "It is gone"),
        Refusals
    )
)]
pub(crate) async fn remove(
    State(app): State<App>,
    Caller(user): Caller,
    At(id): At<String>,
) -> Result<StatusCode, ApiError> {
    app.face.engine.delete_artifact(&user, &known(&id)?, None).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Delete one version of an artifact.
#[utoipa::path(
    delete, path = "/api/artifacts/{id}/versions/{version}", operation_id = "delete_artifact_version", tag = "artifacts",
    params(("id" = String, Path, description = "Which"), ("version" = u64, Path, description = "Its number")),
    responses(
        (status = 204, description = "It is gone"),
        Refusals
    )
)]
pub(crate) async fn remove_version(
    State(app): State<App>,
    Caller(user): Caller,
    At((id, version)): At<(String, u64)>,
) -> Result<StatusCode, ApiError> {
    app.face.engine.delete_artifact(&user, &known(&id)?, Some(version)).await?;
    Ok(StatusCode::NO_CONTENT)
}
