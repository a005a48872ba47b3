//! `/api/workspace`: the caller's files.

use super::content::{Content, Inline, send};
use super::extract::{Asked, Body, Caller};
use super::problem::{ApiError, Problem, Refusals};
use crate::face::Face;
use crate::http::App;
use crate::mcp::with_files;
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use coracle_engine::{Existing, FileError, FileInfo, FileKind, Listed, content_type};
use coracle_types::UserId;
use futures::StreamExt as _;
use serde::{Deserialize, Serialize};
use std::io::{Read as _, Seek as _};
use std::time::Duration;
use tokio::sync::mpsc;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// An upload of which so long nothing comes is given up.
const PATIENCE: Duration = Duration::from_secs(30);
/// So many pieces of an upload wait for the disk.
const QUEUE: usize = 16;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(usage))
        .routes(routes!(list))
        .routes(routes!(download, upload, remove))
        .routes(routes!(rename))
}

/// The face for this user, whose files they are.
fn face(app: &App, user: &UserId) -> Face {
    app.face.of_user(user)
}

impl From<FileError> for ApiError {
    fn from(error: FileError) -> Self {
        let status = match &error {
            FileError::Path { .. } | FileError::Kind { .. } => StatusCode::BAD_REQUEST,
            FileError::Missing { .. } => StatusCode::NOT_FOUND,
            FileError::Exists { .. } => StatusCode::CONFLICT,
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

/// How full a workspace is.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WorkspaceUsage {
    /// What it takes on the disk.
    bytes: u64,
    /// Files, folders and links.
    files: u64,
    /// The most bytes.
    max_bytes: u64,
    /// The most files, folders and links.
    max_files: u64,
}

/// How full is the workspace?
#[utoipa::path(
    get, path = "/api/workspace", operation_id = "show_workspace", tag = "workspace",
    responses(
        (status = 200, description = "How full it is", body = WorkspaceUsage),
        Refusals
    )
)]
pub(crate) async fn usage(State(app): State<App>, Caller(user): Caller) -> Result<Json<WorkspaceUsage>, ApiError> {
    let face = face(&app, &user);
    let (usage, quota) = with_files(&face, |files| Ok((files.usage()?, files.quota()))).await?;
    let (bytes, files) = (usage.bytes, usage.files);
    Ok(Json(WorkspaceUsage { bytes, files, max_bytes: quota.bytes, max_files: quota.files }))
}

/// Something in the workspace.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Entry {
    /// Relative to the workspace.
    path: String,
    /// `file`, `folder`, `link` or `other`. Links are never followed.
    kind: &'static str,
    /// The length of a file.
    bytes: u64,
    /// When it was last written, in milliseconds since 1970.
    modified_ms: u64,
}

impl From<FileInfo> for Entry {
    fn from(info: FileInfo) -> Self {
        let kind = match info.kind {
            FileKind::File => "file",
            FileKind::Folder => "folder",
            FileKind::Link => "link",
            FileKind::Other => "other",
        };
        Self { path: info.path, kind, bytes: info.bytes, modified_ms: info.modified_ms }
    }
}

/// What is in a folder.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Entries {
    /// The folder, relative to the workspace.
    path: String,
    /// By name.
    files: Vec<Entry>,
    /// There is more.
    truncated: bool,
}

/// Which folder is listed.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Listing {
    /// Relative to the workspace; all of it without.
    path: String,
    /// Folders below, too.
    recursive: bool,
}

/// What is in a folder of the workspace; at most 1000 entries.
#[utoipa::path(
    get, path = "/api/workspace/files", operation_id = "list_files", tag = "workspace", params(Listing),
    responses(
        (status = 200, description = "By name", body = Entries),
        Refusals
    )
)]
pub(crate) async fn list(
    State(app): State<App>,
    Caller(user): Caller,
    Asked(listing): Asked<Listing>,
) -> Result<Json<Entries>, ApiError> {
    let face = face(&app, &user);
    let listed = if listing.recursive { Listed::Below } else { Listed::Here };
    let list = with_files(&face, move |files| files.list(&listing.path, listed)).await?;
    let files = list.files.into_iter().map(Entry::from).collect();
    Ok(Json(Entries { path: list.path, files, truncated: list.truncated }))
}

/// Which file is sent, and how.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Reading {
    /// Relative to the workspace.
    path: String,
    /// 1 shows images, texts and isolated pages in the browser instead of saving them.
    #[serde(default)]
    #[param(value_type = u8, minimum = 0, maximum = 1)]
    inline: Inline,
}

/// A file of the workspace, or a range of it.
#[utoipa::path(
    get, path = "/api/workspace/file", operation_id = "read_file", tag = "workspace",
    params(Reading),
    responses(
        (status = 200, description = "The file", content_type = "*/*"),
        (status = 206, description = "A range of it", content_type = "*/*"),
        (status = 304, description = "It is what the caller has"),
        (status = 416, description = "The range is beyond its end", body = Problem),
        Refusals
    )
)]
pub(crate) async fn download(
    State(app): State<App>,
    Caller(user): Caller,
    Asked(reading): Asked<Reading>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    /// So much is looked at to say what it is.
    const HEAD: u64 = 16 << 10;
    let face = face(&app, &user);
    let (info, file, mime) = with_files(&face, move |files| {
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
    let etag = format!("\"{:x}-{:x}\"", info.modified_ms, info.bytes);
    let content =
        Content { file, bytes: info.bytes, mime: mime.to_owned(), name: info.path, etag, inline: reading.inline.0 };
    Ok(send(content, &headers))
}

/// Which file is written, and how.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Writing {
    /// Relative to the workspace; folders are made.
    path: String,
    /// Whether a file that is there is replaced; it is, without.
    overwrite: Option<bool>,
}

/// Write a file of the workspace: the body, as it is. Whoever reads it meanwhile sees the old or the new one.
#[utoipa::path(
    put, path = "/api/workspace/file", operation_id = "write_file", tag = "workspace",
    params(Writing),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses(
        (status = 200, description = "It is there, on the disk", body = Entry),
        (status = 409, description = "It is there already", body = Problem),
        (status = 507, description = "The workspace would be too full", body = Problem),
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
    let face = face(&app, &user);
    let most = face.options.settings.limits().file_mb.saturating_mul(1_000_000);
    let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    let too_large = || {
        let text = format!("a file may have {most} bytes (execution.limits.file_mb)");
        ApiError::too_large(text)
    };
    if length.is_some_and(|length| length > most) {
        return Err(too_large());
    }
    let existing = if writing.overwrite.unwrap_or(true) { Existing::Replace } else { Existing::Keep };
    let (pieces, mut arriving) = mpsc::channel::<Option<Bytes>>(QUEUE);
    let writer = with_files(&face, move |files| {
        let mut unfinished = files.begin(&writing.path, length, existing)?;
        while let Some(piece) = arriving.blocking_recv() {
            match piece {
                Some(bytes) => unfinished.push(&bytes)?,
                None => return unfinished.finish().map(Some),
            }
        }
        // Whoever was sending has given up.
        Ok(None)
    });
    let sender = async move {
        let mut body = body.into_data_stream();
        let mut sent: u64 = 0;
        loop {
            let piece = match tokio::time::timeout(PATIENCE, body.next()).await {
                Err(_) => {
                    let text = format!("nothing came for {} seconds", PATIENCE.as_secs());
                    return Err(ApiError::invalid(text));
                }
                Ok(Some(Err(error))) => return Err(ApiError::invalid(format!("the body cannot be read: {error}"))),
                Ok(Some(Ok(piece))) => Some(piece),
                Ok(None) => None,
            };
            let is_last = piece.is_none();
            sent += piece.as_ref().map_or(0, |piece| piece.len() as u64);
            if sent > most {
                return Err(too_large());
            }
            // A writer that has failed listens no more, and says why.
            if pieces.send(piece).await.is_err() || is_last {
                return Ok(());
            }
        }
    };
    let (written, sent) = tokio::join!(writer, sender);
    let written = written?;
    sent?;
    let info = written.ok_or_else(|| ApiError::invalid("the body did not come to its end"))?;
    Ok(Json(info.into()))
}

/// What is deleted.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Removing {
    /// Relative to the workspace.
    path: String,
    /// A folder with all that is in it.
    #[serde(default)]
    recursive: bool,
}

/// Delete a file, a link or a folder.
#[utoipa::path(
    delete, path = "/api/workspace/file", operation_id = "delete_file", tag = "workspace",
    params(Removing),
    responses(
        (status = 204, description = "It is gone"),
        Refusals
    )
)]
pub(crate) async fn remove(
    State(app): State<App>,
    Caller(user): Caller,
    Asked(removing): Asked<Removing>,
) -> Result<StatusCode, ApiError> {
    let face = face(&app, &user);
    let below = if removing.recursive { Listed::Below } else { Listed::Here };
    with_files(&face, move |files| files.delete(&removing.path, below)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// What is moved where to.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Move {
    /// Relative to the workspace.
    from: String,
    /// Relative to the workspace; folders are made.
    to: String,
    /// Whether a file that is there is replaced.
    #[serde(default)]
    overwrite: bool,
}

/// Give a file or a folder another name or place.
#[utoipa::path(
    post, path = "/api/workspace/move", operation_id = "move_file", tag = "workspace", request_body = Move,
    responses(
        (status = 200, description = "Where it is now", body = Entry),
        (status = 409, description = "Something is there already", body = Problem),
        (status = 507, description = "The workspace would be too full", body = Problem),
        Refusals
    )
)]
pub(crate) async fn rename(
    State(app): State<App>,
    Caller(user): Caller,
    Body(Move { from, to, overwrite }): Body<Move>,
) -> Result<Json<Entry>, ApiError> {
    let face = face(&app, &user);
    let existing = if overwrite { Existing::Replace } else { Existing::Keep };
    let info = with_files(&face, move |files| files.rename(&from, &to, existing)).await?;
    Ok(Json(info.into()))
}
