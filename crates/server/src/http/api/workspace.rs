//! `/api/workspace`: the files in the caller's workspace.

use super::content::{Content, Inline, send};
use crate::http::App;
use crate::http::extract::{Asked, Body, Caller};
use crate::http::problem::{ApiError, Problem, Refusals};
use crate::http::upload::{self, Upload};
use crate::mcp::Frontend;
use crate::mcp::with_files;
use crate::timestamp::Timestamp;
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use coracle_engine::{Existing, FileError, FileInfo, FileKind, FileVersion, Listed, content_type};
use coracle_types::UserId;
use futures::TryStreamExt as _;
use serde::{Deserialize, Serialize};
use std::io::{Read as _, Seek as _};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(usage))
        .routes(routes!(list))
        .routes(routes!(download, upload, remove))
        .routes(routes!(rename))
        .routes(routes!(make_folder))
}

/// Returns the front end for this user's workspace.
fn frontend(app: &App, user: &UserId) -> Frontend {
    app.frontend.of_user(user)
}

impl From<FileError> for ApiError {
    fn from(error: FileError) -> Self {
        let status = match &error {
            FileError::Path { .. } | FileError::Kind { .. } => StatusCode::BAD_REQUEST,
            FileError::Missing { .. } => StatusCode::NOT_FOUND,
            FileError::Exists { .. } => StatusCode::CONFLICT,
            FileError::Changed { .. } => StatusCode::PRECONDITION_FAILED,
            FileError::Full { .. } | FileError::DiskFull { .. } => StatusCode::INSUFFICIENT_STORAGE,
            FileError::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            FileError::Failed { .. } => return Self::internal("use the workspace", error),
        };
        let text = match error.hint() {
            Some(hint) => format!("{error}; {hint}"),
            None => error.to_string(),
        };
        Self::new(status, error.code(), text)
    }
}

/// Disk usage and quota of a workspace
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WorkspaceUsage {
    /// Disk space used, in bytes
    pub(super) bytes: u64,
    /// Number of files, folders and links
    files: u64,
    /// Maximum disk space, in bytes
    pub(super) max_bytes: u64,
    /// Maximum number of files, folders and links
    max_files: u64,
}

impl WorkspaceUsage {
    /// The disk usage and the quota of a user's workspace.
    pub(super) async fn of(app: &App, user: &UserId) -> Result<Self, ApiError> {
        let (usage, quota) = with_files(&frontend(app, user), |files| Ok((files.usage()?, files.quota()))).await?;
        let (bytes, files) = (usage.bytes, usage.files);
        Ok(Self { bytes, files, max_bytes: quota.bytes, max_files: quota.files })
    }
}

/// Get the disk usage and quota of the workspace
#[utoipa::path(
    get, path = "/api/workspace", operation_id = "show_workspace", tag = "workspace",
    responses(
        (status = 200, description = "Disk usage and quota", body = WorkspaceUsage),
        Refusals
    )
)]
pub(crate) async fn usage(State(app): State<App>, Caller(user): Caller) -> Result<Json<WorkspaceUsage>, ApiError> {
    WorkspaceUsage::of(&app, &user).await.map(Json)
}

/// Entry in the workspace: a file, a folder or a link
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Entry {
    /// Path relative to the workspace
    path: String,
    /// Entry type: `file`, `folder`, `link` (a symbolic link, never followed) or `other` (a pipe, socket or device)
    kind: &'static str,
    /// File size in bytes; 0 for other entry types
    bytes: u64,
    /// Last modification time
    #[schema(value_type = String, format = DateTime)]
    modified_at: Timestamp,
}

impl From<FileInfo> for Entry {
    fn from(info: FileInfo) -> Self {
        let kind = match info.kind {
            FileKind::File => "file",
            FileKind::Folder => "folder",
            FileKind::Link => "link",
            FileKind::Other => "other",
        };
        Self { modified_at: info.modified().into(), path: info.path, kind, bytes: info.bytes }
    }
}

/// Contents of a folder
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Entries {
    /// Folder path relative to the workspace
    path: String,
    /// Entries of the folder, sorted by path
    files: Vec<Entry>,
    /// Whether entries are missing from the list, for example because there are more than 1000
    truncated: bool,
}

/// Query parameters for listing a folder.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Listing {
    /// Folder path relative to the workspace; defaults to the root of the workspace
    path: String,
    /// Whether to include the contents of subfolders; defaults to `false`
    recursive: bool,
}

/// List a folder in the workspace
///
/// Returns at most 1000 entries.
#[utoipa::path(
    get, path = "/api/workspace/files", operation_id = "list_files", tag = "workspace", params(Listing),
    responses(
        (status = 200, description = "Contents of the folder, sorted by path", body = Entries),
        Refusals
    )
)]
pub(crate) async fn list(
    State(app): State<App>,
    Caller(user): Caller,
    Asked(listing): Asked<Listing>,
) -> Result<Json<Entries>, ApiError> {
    let frontend = frontend(&app, &user);
    let listed = if listing.recursive { Listed::Below } else { Listed::Here };
    let list = with_files(&frontend, move |files| files.list(&listing.path, listed)).await?;
    let files = list.files.into_iter().map(Entry::from).collect();
    Ok(Json(Entries { path: list.path, files, truncated: list.truncated }))
}

/// Query parameters for downloading a file.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Reading {
    /// File path relative to the workspace
    path: String,
    /// Whether to display images, text and sandboxed HTML in the browser (`1`) or download the file (`0`, the default)
    #[serde(default)]
    #[param(value_type = u8, minimum = 0, maximum = 1)]
    inline: Inline,
}

/// Download a file from the workspace
///
/// Supports single byte ranges (`Range`, `If-Range`) and conditional requests (`If-None-Match`).
#[utoipa::path(
    get, path = "/api/workspace/file", operation_id = "read_file", tag = "workspace",
    params(Reading),
    responses(
        (status = 200, description = "File content", content_type = "*/*"),
        (status = 206, description = "Requested byte range", content_type = "*/*"),
        (status = 304, description = "Content not modified"),
        (status = 416, description = "Byte range outside the file", body = Problem),
        Refusals
    )
)]
pub(crate) async fn download(
    State(app): State<App>,
    Caller(user): Caller,
    Asked(reading): Asked<Reading>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    /// Number of bytes that are read to detect the MIME type.
    const HEAD: u64 = 16 << 10;
    let frontend = frontend(&app, &user);
    let (info, file, mime) = with_files(&frontend, move |files| {
        let (info, mut file) = files.open_file(&reading.path)?;
        let mut head = Vec::new();
        let looked = (&file).take(HEAD).read_to_end(&mut head).and_then(|_| file.rewind());
        let failed = |error: std::io::Error| FileError::Failed {
            path: info.path.clone(),
            doing: "read",
            reason: error.to_string(),
        };
        looked.map_err(failed)?;
        let mime = content_type(&info.path, &head, head.len() as u64 == info.bytes);
        Ok((info, file, mime))
    })
    .await?;
    let etag = format!("\"{}\"", info.version());
    let content =
        Content { file, bytes: info.bytes, mime: mime.to_owned(), name: info.path, etag, inline: reading.inline.0 };
    Ok(send(content, &headers))
}

/// Query parameters for writing a file.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Writing {
    /// File path relative to the workspace. Missing folders are created.
    path: String,
    /// Whether to replace an existing file; defaults to `true`
    overwrite: Option<bool>,
}

/// Write a file to the workspace
///
/// The request body is the content of the file. The write is atomic: concurrent readers see either the old or the new
/// file. With `If-Match`, the file is replaced only if it still has the `ETag` that it was downloaded with.
#[utoipa::path(
    put, path = "/api/workspace/file", operation_id = "write_file", tag = "workspace",
    params(Writing, ("If-Match" = Option<String>, Header, description = "`ETag` of the file to replace")),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses(
        (status = 200, description = "File written and flushed to disk", body = Entry),
        (status = 409, description = "File already exists", body = Problem),
        (status = 412, description = "File has changed since it was downloaded", body = Problem),
        (status = 507, description = "Workspace quota exceeded or disk full", body = Problem),
        Refusals
    )
)]
pub(crate) async fn upload(
    State(app): State<App>,
    Caller(user): Caller,
    Asked(writing): Asked<Writing>,
    headers: HeaderMap,
    body: axum::body::Body,
) -> Result<Json<Entry>, ApiError> {
    let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    let existing = match headers.get(header::IF_MATCH) {
        Some(tag) if tag != "*" => Existing::Unchanged(version(tag)?),
        _ if writing.overwrite.unwrap_or(true) => Existing::Replace,
        _ => Existing::Keep,
    };
    let unreadable = |error: axum::Error| ApiError::invalid(format!("the body cannot be read: {error}"));
    let content = body.into_data_stream().map_err(unreadable);
    let upload = Upload { path: writing.path, length, existing };
    let info = upload::write(&frontend(&app, &user), upload, content).await?;
    Ok(Json(info.into()))
}

/// The version of a file that an `ETag` names.
fn version(tag: &HeaderValue) -> Result<FileVersion, ApiError> {
    let text = tag.to_str().ok().and_then(|tag| tag.strip_prefix('"')?.strip_suffix('"'));
    let version = text.and_then(|text| text.parse().ok());
    version.ok_or_else(|| ApiError::invalid("If-Match must be the ETag of a file in the workspace"))
}

/// Query parameters for deleting an entry.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Removing {
    /// Path relative to the workspace
    path: String,
    /// Whether to delete a folder together with its contents; without it, a folder must be empty
    #[serde(default)]
    recursive: bool,
}

/// Delete a file, link or folder
#[utoipa::path(
    delete, path = "/api/workspace/file", operation_id = "delete_file", tag = "workspace",
    params(Removing),
    responses(
        (status = 204, description = "File, link or folder deleted"),
        Refusals
    )
)]
pub(crate) async fn remove(
    State(app): State<App>,
    Caller(user): Caller,
    Asked(removing): Asked<Removing>,
) -> Result<StatusCode, ApiError> {
    let frontend = frontend(&app, &user);
    let below = if removing.recursive { Listed::Below } else { Listed::Here };
    with_files(&frontend, move |files| files.delete(&removing.path, below)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Folder to create
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewFolder {
    /// Path relative to the workspace. Missing folders around it are created.
    path: String,
}

/// Create a folder in the workspace
#[utoipa::path(
    post, path = "/api/workspace/folder", operation_id = "create_folder", tag = "workspace", request_body = NewFolder,
    responses(
        (status = 201, description = "New folder", body = Entry),
        (status = 409, description = "Path already exists", body = Problem),
        (status = 507, description = "Workspace quota exceeded or disk full", body = Problem),
        Refusals
    )
)]
pub(crate) async fn make_folder(
    State(app): State<App>,
    Caller(user): Caller,
    Body(NewFolder { path }): Body<NewFolder>,
) -> Result<(StatusCode, Json<Entry>), ApiError> {
    let info = with_files(&frontend(&app, &user), move |files| files.make_folder(&path)).await?;
    Ok((StatusCode::CREATED, Json(info.into())))
}

/// Source and destination of a move
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Move {
    /// Current path, relative to the workspace
    from: String,
    /// New path, relative to the workspace. Missing folders are created.
    to: String,
    /// Whether to replace an existing file at the new path; defaults to `false`
    #[serde(default)]
    overwrite: bool,
}

/// Move or rename a file or folder
#[utoipa::path(
    post, path = "/api/workspace/move", operation_id = "move_file", tag = "workspace", request_body = Move,
    responses(
        (status = 200, description = "Entry at its new path", body = Entry),
        (status = 409, description = "New path already exists", body = Problem),
        (status = 507, description = "Workspace quota exceeded or disk full", body = Problem),
        Refusals
    )
)]
pub(crate) async fn rename(
    State(app): State<App>,
    Caller(user): Caller,
    Body(Move { from, to, overwrite }): Body<Move>,
) -> Result<Json<Entry>, ApiError> {
    let frontend = frontend(&app, &user);
    let existing = if overwrite { Existing::Replace } else { Existing::Keep };
    let info = with_files(&frontend, move |files| files.rename(&from, &to, existing)).await?;
    Ok(Json(info.into()))
}
