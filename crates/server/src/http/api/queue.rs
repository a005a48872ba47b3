//! `/api/conversations/{id}/queue`: messages that are sent one after the other when the run has ended.

use super::conversations::conversation_id;
use crate::http::App;
use crate::http::extract::{At, Body, Caller};
use crate::http::problem::{ApiError, Refusals};
use crate::timestamp::Timestamp;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use coracle_runs::{NewMessage, Queue, QueueChange, QueuedFile, QueuedMessage, RunSpec};
use coracle_types::{ConversationId, Mode, UserId};
use serde::{Deserialize, Serialize};
use std::time::{Duration, UNIX_EPOCH};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Maximum length of a message, in bytes.
const MAX_TEXT_BYTES: usize = 1 << 20;
/// Maximum number of files in a message.
const MAX_FILES: usize = 20;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(show, add, change, clear)).routes(routes!(edit, remove))
}

/// Queue of a conversation
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Queue)]
struct QueueView {
    /// Messages, the next one first
    messages: Vec<QueuedView>,
    /// Whether the messages wait until the queue is resumed, for example after a run was stopped
    held: bool,
    /// Reason why the next message could not be sent
    problem: Option<String>,
    /// Run that is under way in the conversation
    running: Option<String>,
}

/// Queued message
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = QueuedMessage)]
struct QueuedView {
    /// Message ID
    id: String,
    /// Text of the message
    text: String,
    /// Uploaded files
    files: Vec<QueuedFileView>,
    /// Full name of the model
    model: String,
    /// Treatment of changes by code of the run: `run` or `plan`
    #[schema(value_type = String, pattern = "^(run|plan)$")]
    mode: Mode,
    /// When the message was added
    #[schema(value_type = String, format = DateTime)]
    added_at: Timestamp,
}

/// Uploaded file of a queued message
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = QueuedFile)]
struct QueuedFileView {
    /// ID of the upload
    id: String,
    /// File name
    name: String,
    /// Size in bytes
    bytes: u64,
    /// Whether the model also gets the file as an image
    is_shown: bool,
}

impl From<&QueuedFile> for QueuedFileView {
    fn from(file: &QueuedFile) -> Self {
        let QueuedFile { id, name, bytes, is_shown } = file.clone();
        Self { id, name, bytes, is_shown }
    }
}

impl From<&QueuedMessage> for QueuedView {
    fn from(message: &QueuedMessage) -> Self {
        Self {
            id: message.id.clone(),
            text: message.text.clone(),
            files: message.files.iter().map(QueuedFileView::from).collect(),
            model: message.spec.model.clone(),
            mode: message.spec.mode,
            added_at: (UNIX_EPOCH + Duration::from_millis(message.added_ms)).into(),
        }
    }
}

fn view(app: &App, user: &UserId, id: &ConversationId, queue: &Queue) -> Json<QueueView> {
    Json(QueueView {
        messages: queue.waiting().map(QueuedView::from).collect(),
        held: queue.is_held,
        problem: queue.problem.clone(),
        running: app.runs.running_in(user, id).map(|run| run.to_string()),
    })
}

/// List queued messages
///
/// When a run of the conversation has completed, the next message starts another one, whether or not a client is connected.
/// A run that was stopped or failed holds the queue.
#[utoipa::path(
    get, path = "/api/conversations/{id}/queue", operation_id = "show_queue", tag = "conversations",
    params(("id" = String, Path, description = "Conversation ID")),
    responses((status = 200, body = QueueView, description = "Queued messages, the next one first"), Refusals)
)]
async fn show(State(app): State<App>, Caller(user): Caller, At(id): At<String>) -> Result<Json<QueueView>, ApiError> {
    let id = conversation_id(&id)?;
    let queue = app.runs.queue(&user, &id).await?.ok_or_else(super::conversations::missing)?;
    Ok(view(&app, &user, &id, &queue))
}

/// Message to queue
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct WantedMessage {
    /// Text of the message, at most 1048576 bytes; may be empty if there are files
    #[schema(max_length = 1_048_576)]
    text: String,
    /// Uploaded files
    #[serde(default)]
    #[schema(max_items = 20)]
    files: Vec<WantedFile>,
    /// Full name of the model; defaults to the model that the server uses without a name
    #[serde(default)]
    model: Option<String>,
    /// Treatment of changes by code of the run: they are made (`run`, the default), or collected in a plan (`plan`)
    #[serde(default)]
    #[schema(value_type = String, pattern = "^(run|plan)$")]
    mode: Mode,
    /// Whether the message is sent before all others
    #[serde(default)]
    first: bool,
}

/// Uploaded file of a message to queue
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct WantedFile {
    /// ID of the upload; the model is told where code can read the file
    id: String,
    /// Whether the model also gets the file as an image; defaults to `false`
    #[serde(default)]
    is_shown: bool,
}

/// Queue a message
///
/// The message is sent when the run that is under way and the messages before it have completed, or at once if there are
/// none.
#[utoipa::path(
    post, path = "/api/conversations/{id}/queue", operation_id = "queue_message", tag = "conversations",
    params(("id" = String, Path, description = "Conversation ID")),
    request_body = WantedMessage,
    responses((status = 201, body = QueueView, description = "Message queued or sent; messages that still wait"), Refusals)
)]
async fn add(
    State(app): State<App>,
    Caller(user): Caller,
    At(id): At<String>,
    Body(wanted): Body<WantedMessage>,
) -> Result<(StatusCode, Json<QueueView>), ApiError> {
    let id = conversation_id(&id)?;
    let WantedMessage { text, files, model, mode, first } = wanted;
    if text.trim().is_empty() && files.is_empty() || text.len() > MAX_TEXT_BYTES {
        return Err(ApiError::invalid(format!("text must have from 1 to {MAX_TEXT_BYTES} bytes")));
    }
    if files.len() > MAX_FILES {
        return Err(ApiError::invalid(format!("a message has at most {MAX_FILES} files")));
    }
    let chosen = app.model(&user, model.as_deref()).await?;
    let chosen = chosen.map_err(|error| ApiError::invalid(format!("{error}: {}", error.hint())))?;
    let wanted: Vec<(&str, bool)> = files.iter().map(|file| (file.id.as_str(), file.is_shown)).collect();
    let (parts, files) = if wanted.is_empty() {
        (Vec::new(), Vec::new())
    } else {
        (app.file_parts(&user, &wanted).await?, app.queued_files(&user, &wanted).await?)
    };
    let spec = RunSpec {
        model: chosen.name(),
        conversation: Some(id.clone()),
        is_background: true,
        may_ask: true,
        is_stored: true,
        mode,
        ..RunSpec::default()
    };
    let queue = app.runs.enqueue(&user, &id, NewMessage { text, files, parts, spec, is_first: first }).await?;
    Ok((StatusCode::CREATED, view(&app, &user, &id, &queue)))
}

/// Changes to a queue. Omitted fields stay unchanged.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct QueuePatch {
    /// Whether the messages wait until the queue is resumed with `false`
    held: Option<bool>,
    /// IDs of messages in the wanted order; messages that are not named follow
    order: Option<Vec<String>>,
}

/// Hold, resume or sort a queue
#[utoipa::path(
    patch, path = "/api/conversations/{id}/queue", operation_id = "change_queue", tag = "conversations",
    params(("id" = String, Path, description = "Conversation ID")),
    request_body = QueuePatch,
    responses((status = 200, body = QueueView, description = "Messages that still wait"), Refusals)
)]
async fn change(
    State(app): State<App>,
    Caller(user): Caller,
    At(id): At<String>,
    Body(QueuePatch { held, order }): Body<QueuePatch>,
) -> Result<Json<QueueView>, ApiError> {
    let id = conversation_id(&id)?;
    let order = order.map(QueueChange::Order);
    let changes: Vec<QueueChange> = order.into_iter().chain(held.map(QueueChange::Hold)).collect();
    if changes.is_empty() {
        return Err(ApiError::invalid("nothing to change: pass held or order"));
    }
    changed(&app, &user, &id, &changes).await
}

async fn changed(
    app: &App,
    user: &UserId,
    id: &ConversationId,
    changes: &[QueueChange],
) -> Result<Json<QueueView>, ApiError> {
    let mut queue = Queue::default();
    for change in changes {
        queue = app.runs.change_queue(user, id, change).await?;
    }
    Ok(view(app, user, id, &queue))
}

/// Remove all queued messages
#[utoipa::path(
    delete, path = "/api/conversations/{id}/queue", operation_id = "clear_queue", tag = "conversations",
    params(("id" = String, Path, description = "Conversation ID")),
    responses((status = 200, body = QueueView, description = "Empty queue"), Refusals)
)]
async fn clear(State(app): State<App>, Caller(user): Caller, At(id): At<String>) -> Result<Json<QueueView>, ApiError> {
    changed(&app, &user, &conversation_id(&id)?, &[QueueChange::Clear]).await
}

/// New text of a queued message
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct QueuedText {
    /// Text of the message, at most 1048576 bytes
    #[schema(max_length = 1_048_576)]
    text: String,
}

/// Edit a queued message
#[utoipa::path(
    patch, path = "/api/conversations/{id}/queue/{message}", operation_id = "edit_queued_message", tag = "conversations",
    params(
        ("id" = String, Path, description = "Conversation ID"),
        ("message" = String, Path, description = "Message ID"),
    ),
    request_body = QueuedText,
    responses((status = 200, body = QueueView, description = "Messages that still wait"), Refusals)
)]
async fn edit(
    State(app): State<App>,
    Caller(user): Caller,
    At((id, message)): At<(String, String)>,
    Body(QueuedText { text }): Body<QueuedText>,
) -> Result<Json<QueueView>, ApiError> {
    if text.len() > MAX_TEXT_BYTES {
        return Err(ApiError::invalid(format!("text must have at most {MAX_TEXT_BYTES} bytes")));
    }
    changed(&app, &user, &conversation_id(&id)?, &[QueueChange::Edit { id: message, text }]).await
}

/// Remove a queued message
#[utoipa::path(
    delete, path = "/api/conversations/{id}/queue/{message}", operation_id = "remove_queued_message",
    tag = "conversations",
    params(
        ("id" = String, Path, description = "Conversation ID"),
        ("message" = String, Path, description = "Message ID"),
    ),
    responses((status = 200, body = QueueView, description = "Messages that still wait"), Refusals)
)]
async fn remove(
    State(app): State<App>,
    Caller(user): Caller,
    At((id, message)): At<(String, String)>,
) -> Result<Json<QueueView>, ApiError> {
    changed(&app, &user, &conversation_id(&id)?, &[QueueChange::Remove { id: message }]).await
}
