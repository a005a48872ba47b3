//! `/api/artifacts`: the versioned files that the caller's code wrote to `/artifacts`.

use super::content::{Content, Inline, send};
use crate::artifact_archive::write_archive;
use crate::http::extract::{Asked, At, Caller, listed};
use crate::http::problem::{ApiError, Problem, Refusals};
use crate::http::reader::Reader;
use crate::http::{App, download};
use crate::timestamp::Timestamp;
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use coracle_engine::{ArtifactError, ArtifactRecord, ArtifactVersion};
use coracle_privacy::Item;
use coracle_types::{ArtifactId, UserId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(archive))
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

/// Version of an artifact, as written by one execution
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ArtifactVersion)]
pub(crate) struct Written {
    /// Version number, starting at 1
    version: u64,
    /// ID of the execution that wrote this version
    execution_id: String,
    /// ID of the session that the execution ran in; null if it ran without a session
    session_id: Option<String>,
    /// MIME type, detected from the content and the file name extension
    mime: String,
    /// Size in bytes
    bytes: u64,
    /// SHA-256 digest of the content, in hexadecimal
    sha256: String,
    /// Creation time
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// Preview of the given `kind`: `text` (the first lines, as `text` and `truncated`) or `image` (`width` and
    /// `height` in pixels). Null for other types.
    #[schema(value_type = Option<Object>)]
    preview: Option<Value>,
}

impl From<ArtifactVersion> for Written {
    fn from(version: ArtifactVersion) -> Self {
        Self {
            version: version.version,
            execution_id: version.execution_id.to_string(),
            session_id: version.session.map(|session| session.to_string()),
            mime: version.mime,
            bytes: version.bytes,
            sha256: version.sha256,
            created_at: version.created_at.into(),
            preview: version.preview.and_then(|preview| serde_json::to_value(preview).ok()),
        }
    }
}

/// Artifact: a named file with one or more versions
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Artifact)]
pub(crate) struct ArtifactBody {
    /// Artifact ID, the same for all versions
    id: String,
    /// File path relative to `/artifacts`
    name: String,
    /// Number of versions
    count: u64,
    /// Versions, newest first. A list of artifacts includes only the latest version of each; a single artifact includes
    /// the latest 1000.
    versions: Vec<Written>,
}

impl From<ArtifactRecord> for ArtifactBody {
    fn from(record: ArtifactRecord) -> Self {
        let versions = record.versions.into_iter().map(Written::from).collect();
        Self { id: record.id.to_string(), name: record.name, count: record.count, versions }
    }
}

impl ArtifactBody {
    /// Adds what code wrote. Contents are files, which are sent as they are.
    fn add_texts<'a>(&'a mut self, texts: &mut Vec<Item<'a>>) {
        texts.push(Item::Text(&mut self.name));
        texts.extend(self.versions.iter_mut().filter_map(|version| version.preview.as_mut()).map(Item::Json));
    }
}

/// Page of artifacts
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ArtifactPage {
    /// Artifacts with their latest version, most recently changed first
    artifacts: Vec<ArtifactBody>,
    /// Total size of all the user's artifacts in bytes. Each version counts as at least 4096 bytes.
    bytes: u64,
    /// Maximum total size in bytes
    max_bytes: u64,
}

/// Query parameters for listing artifacts.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Paging {
    /// Maximum number of artifacts to return; defaults to 50
    #[param(minimum = 1, maximum = 100, default = 50)]
    limit: Option<usize>,
    /// Return artifacts older than this ID. Pass the last ID of the previous page.
    before: Option<String>,
}

/// List artifacts
///
/// Returns the current user's artifacts, most recently changed first. Where personal data is hidden from models, API keys
/// without the scope `approve` get tokens instead of it in names and previews.
#[utoipa::path(
    get, path = "/api/artifacts", operation_id = "list_artifacts", tag = "artifacts", params(Paging),
    responses(
        (status = 200, description = "Page of artifacts", body = ArtifactPage),
        Refusals
    )
)]
pub(crate) async fn list(
    State(app): State<App>,
    reader: Reader,
    Asked(paging): Asked<Paging>,
) -> Result<Json<ArtifactPage>, ApiError> {
    let limit = listed(paging.limit)?;
    let before =
        paging.before.map(ArtifactId::new).transpose().map_err(|error| ApiError::invalid(error.to_string()))?;
    let records = app.frontend.engine.artifacts(&reader.user, limit, before.as_ref()).await?;
    let usage = app.frontend.engine.artifact_usage(&reader.user).await?;
    let mut artifacts: Vec<_> = records.into_iter().map(ArtifactBody::from).collect();
    let mut texts = Vec::new();
    for artifact in &mut artifacts {
        artifact.add_texts(&mut texts);
    }
    reader.protect(&app, &mut texts).await?;
    Ok(Json(ArtifactPage { artifacts, bytes: usage.bytes, max_bytes: app.frontend.engine.artifact_limit() }))
}

/// Download all artifacts as a zip archive
///
/// Contains the latest version of each artifact. An archive that is broken off has no valid end.
#[utoipa::path(
    get, path = "/api/artifacts/archive", operation_id = "download_artifacts", tag = "artifacts",
    responses(
        (status = 200, description = "Zip archive", content_type = "application/zip"),
        (status = 429, body = Problem, description = "Another export of the user is under way, or too many others"),
        Refusals
    )
)]
pub(crate) async fn archive(State(app): State<App>, Caller(user): Caller) -> Result<Response, ApiError> {
    let turn = app.exports.begin(&user).ok_or_else(download::too_many)?;
    let engine = app.frontend.engine.clone();
    Ok(download::archive("application/zip", "coracle-artifacts.zip", |writer| async move {
        let written = write_archive(engine, user, writer).await;
        drop(turn);
        written
    }))
}

/// Query parameters for downloading a file.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Showing {
    /// Whether to display images and text in the browser (`1`) or download the file (`0`, the default). HTML is
    /// displayed as text.
    #[param(value_type = u8, minimum = 0, maximum = 1)]
    inline: Inline,
}

/// Parses an artifact ID. A malformed ID is reported as not found.
fn known(id: &str) -> Result<ArtifactId, ApiError> {
    ArtifactId::new(id).map_err(|_| ApiError::missing("there is no such artifact"))
}

/// Get an artifact and its versions
///
/// Where personal data is hidden from models, API keys without the scope `approve` get tokens instead of it in the name and
/// in previews.
#[utoipa::path(
    get, path = "/api/artifacts/{id}", operation_id = "show_artifact", tag = "artifacts",
    params(("id" = String, Path, description = "Artifact ID")),
    responses(
        (status = 200, description = "Artifact with its versions", body = ArtifactBody),
        Refusals
    )
)]
pub(crate) async fn one(
    State(app): State<App>,
    reader: Reader,
    At(id): At<String>,
) -> Result<Json<ArtifactBody>, ApiError> {
    let record = app.frontend.engine.artifact_versions(&reader.user, &known(&id)?).await?;
    let mut artifact = ArtifactBody::from(record);
    let mut texts = Vec::new();
    artifact.add_texts(&mut texts);
    reader.protect(&app, &mut texts).await?;
    Ok(Json(artifact))
}

async fn sent(
    app: &App,
    user: &UserId,
    id: &str,
    version: Option<u64>,
    showing: &Showing,
    headers: &HeaderMap,
) -> Result<Response, ApiError> {
    let (record, version, file) = app.frontend.engine.open_artifact(user, &known(id)?, version).await?;
    let ArtifactVersion { mime, bytes, sha256, .. } = version;
    let etag = format!("\"{sha256}\"");
    Ok(send(Content { file, bytes, mime, name: record.name, etag, inline: showing.inline.0 }, headers))
}

/// Download the latest version of an artifact
///
/// Supports single byte ranges (`Range`, `If-Range`) and conditional requests (`If-None-Match`).
#[utoipa::path(
    get, path = "/api/artifacts/{id}/content", operation_id = "download_artifact", tag = "artifacts",
    params(("id" = String, Path, description = "Artifact ID"), Showing),
    responses(
        (status = 200, description = "File content", content_type = "*/*"),
        (status = 206, description = "Requested byte range", content_type = "*/*"),
        (status = 304, description = "Content not modified"),
        (status = 416, description = "Byte range outside the file", body = Problem),
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

/// Download one version of an artifact
///
/// Supports single byte ranges (`Range`, `If-Range`) and conditional requests (`If-None-Match`).
#[utoipa::path(
    get, path = "/api/artifacts/{id}/versions/{version}/content", operation_id = "download_artifact_version",
    tag = "artifacts",
    params(
        ("id" = String, Path, description = "Artifact ID"),
        ("version" = u64, Path, description = "Version number"),
        Showing,
    ),
    responses(
        (status = 200, description = "File content", content_type = "*/*"),
        (status = 206, description = "Requested byte range", content_type = "*/*"),
        (status = 304, description = "Content not modified"),
        (status = 416, description = "Byte range outside the file", body = Problem),
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

/// Delete an artifact and all its versions
#[utoipa::path(
    delete, path = "/api/artifacts/{id}", operation_id = "delete_artifact", tag = "artifacts",
    params(("id" = String, Path, description = "Artifact ID")),
    responses(
        (status = 204, description = "Artifact deleted"),
        Refusals
    )
)]
pub(crate) async fn remove(
    State(app): State<App>,
    Caller(user): Caller,
    At(id): At<String>,
) -> Result<StatusCode, ApiError> {
    app.frontend.engine.delete_artifact(&user, &known(&id)?, None).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Delete one version of an artifact
///
/// Deleting the last remaining version deletes the artifact.
#[utoipa::path(
    delete, path = "/api/artifacts/{id}/versions/{version}", operation_id = "delete_artifact_version",
    tag = "artifacts",
    params(
        ("id" = String, Path, description = "Artifact ID"),
        ("version" = u64, Path, description = "Version number"),
    ),
    responses(
        (status = 204, description = "Version deleted"),
        Refusals
    )
)]
pub(crate) async fn remove_version(
    State(app): State<App>,
    Caller(user): Caller,
    At((id, version)): At<(String, u64)>,
) -> Result<StatusCode, ApiError> {
    app.frontend.engine.delete_artifact(&user, &known(&id)?, Some(version)).await?;
    Ok(StatusCode::NO_CONTENT)
}
