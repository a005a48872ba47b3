//! `/api/conversations`: conversations with the agent, and the runs in them.

use crate::http::App;
use crate::http::extract::{Asked, At, Body, Caller, listed};
use crate::http::problem::{ApiError, Problem, Refusals};
use crate::views::{ConversationView, RunView};
use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use coracle_models::Part;
use coracle_runs::{ExportFormat, ItemList, RunSummary};
use coracle_types::{ConversationId, ItemId, RunId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Maximum length of a message for a run that is under way, in bytes.
const MAX_STEER_BYTES: usize = 64 << 10;
/// Maximum number of files in such a message.
const MAX_STEER_FILES: usize = 20;
/// Maximum length of a title, in bytes.
const MAX_TITLE_BYTES: usize = 256;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list, create))
        .routes(routes!(show, rename, delete))
        .routes(routes!(fork))
        .routes(routes!(export))
        .routes(routes!(items))
        .routes(routes!(runs))
        .routes(routes!(all_runs))
        .routes(routes!(steer))
        .routes(routes!(stop))
}

/// Query parameters for listing conversations.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct Page {
    /// Maximum number of conversations to return; defaults to 50
    #[param(minimum = 1, maximum = 100)]
    limit: Option<usize>,
    /// Return conversations after this one. Pass the last ID of the previous page.
    before: Option<String>,
    /// Return only conversations whose title or text contains this, at most 1024 bytes; case is ignored for ASCII
    /// letters
    #[param(min_length = 1, max_length = 1024)]
    query: Option<String>,
}

/// List of conversations
#[derive(Debug, Serialize, ToSchema)]
struct Conversations {
    /// Conversations, last changed first
    conversations: Vec<ConversationView>,
}

/// List conversations
///
/// Returns the current user's conversations, last changed first.
#[utoipa::path(
    get, path = "/api/conversations", operation_id = "list_conversations", tag = "conversations", params(Page),
    responses((status = 200, body = Conversations, description = "Conversations, last changed first"), Refusals)
)]
async fn list(
    State(app): State<App>,
    Caller(user): Caller,
    Asked(page): Asked<Page>,
) -> Result<Json<Conversations>, ApiError> {
    let limit = listed(page.limit)?;
    let before = page.before.map(ConversationId::new).transpose();
    let before = before.map_err(|error| ApiError::invalid(error.to_string()))?;
    let found = app.runs.list_conversations(&user, page.query.as_deref(), limit, before.as_ref()).await?;
    Ok(Json(Conversations { conversations: found.into_iter().map(ConversationView::from).collect() }))
}

/// Conversation to create
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewConversation {
    /// Title of the conversation
    #[serde(default)]
    #[schema(min_length = 1, max_length = 256)]
    title: Option<String>,
}

/// Create a conversation
///
/// `POST /v1/responses` with its ID in `conversation` starts a run in it.
#[utoipa::path(
    post, path = "/api/conversations", operation_id = "create_conversation", tag = "conversations",
    request_body = NewConversation,
    responses((status = 201, body = ConversationView, description = "Conversation created"), Refusals)
)]
async fn create(
    State(app): State<App>,
    Caller(user): Caller,
    Body(new): Body<NewConversation>,
) -> Result<(StatusCode, Json<ConversationView>), ApiError> {
    let created = app.runs.add_conversation(&user, new.title.map(title).transpose()?).await?;
    Ok((StatusCode::CREATED, Json(created.into())))
}

/// Checks a title, which is one line.
fn title(text: String) -> Result<String, ApiError> {
    if text.trim().is_empty() || text.len() > MAX_TITLE_BYTES || text.contains(char::is_control) {
        let message = format!("title must have from 1 to {MAX_TITLE_BYTES} bytes, and no control characters");
        return Err(ApiError::invalid(message));
    }
    Ok(text)
}

/// Get a conversation
#[utoipa::path(
    get, path = "/api/conversations/{id}", operation_id = "show_conversation", tag = "conversations",
    params(("id" = String, Path, description = "Conversation ID")),
    responses((status = 200, body = ConversationView, description = "Conversation without its items"), Refusals)
)]
async fn show(
    State(app): State<App>,
    Caller(user): Caller,
    At(id): At<String>,
) -> Result<Json<ConversationView>, ApiError> {
    let found = app.runs.find_conversation(&user, &conversation_id(&id)?).await?;
    found.map(|found| Json(found.into())).ok_or_else(missing)
}

/// Changes to a conversation
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Change {
    /// New title; null removes the title
    // With a function, the field must be there: otherwise an empty object would remove the title.
    #[serde(deserialize_with = "Option::deserialize")]
    #[schema(required, min_length = 1, max_length = 256)]
    title: Option<String>,
}

/// Rename a conversation
#[utoipa::path(
    patch, path = "/api/conversations/{id}", operation_id = "rename_conversation", tag = "conversations",
    params(("id" = String, Path, description = "Conversation ID")),
    request_body = Change,
    responses((status = 200, body = ConversationView, description = "Renamed conversation"), Refusals)
)]
async fn rename(
    State(app): State<App>,
    Caller(user): Caller,
    At(id): At<String>,
    Body(change): Body<Change>,
) -> Result<Json<ConversationView>, ApiError> {
    let title = change.title.map(title).transpose()?;
    let renamed = app.runs.rename_conversation(&user, &conversation_id(&id)?, title.as_deref()).await?;
    renamed.map(|renamed| Json(renamed.into())).ok_or_else(missing)
}

/// Delete a conversation
///
/// Deletes the conversation with its items and runs. A conversation in which a run is under way cannot be deleted: stop
/// the run first.
#[utoipa::path(
    delete, path = "/api/conversations/{id}", operation_id = "delete_conversation", tag = "conversations",
    params(("id" = String, Path, description = "Conversation ID")),
    responses(
        (status = 204, description = "Conversation deleted"),
        (status = 409, body = Problem, description = "Run under way in the conversation"),
        Refusals
    )
)]
async fn delete(State(app): State<App>, Caller(user): Caller, At(id): At<String>) -> Result<StatusCode, ApiError> {
    let is_deleted = app.runs.delete_conversation(&user, &conversation_id(&id)?).await?;
    if is_deleted { Ok(StatusCode::NO_CONTENT) } else { Err(missing()) }
}

/// Conversation to create from another one
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Fork {
    /// ID of the last item to copy, whose results are copied too; without it, all items are copied
    #[serde(default)]
    item: Option<String>,
    /// Title of the new conversation; defaults to that of the original
    #[serde(default)]
    #[schema(min_length = 1, max_length = 256)]
    title: Option<String>,
}

/// Fork a conversation
///
/// Creates a conversation with copies of the items of another one, which stays unchanged. The copies have new IDs.
#[utoipa::path(
    post, path = "/api/conversations/{id}/fork", operation_id = "fork_conversation", tag = "conversations",
    params(("id" = String, Path, description = "ID of the original conversation")),
    request_body = Fork,
    responses((status = 201, body = ConversationView, description = "New conversation"), Refusals)
)]
async fn fork(
    State(app): State<App>,
    Caller(user): Caller,
    At(id): At<String>,
    Body(fork): Body<Fork>,
) -> Result<(StatusCode, Json<ConversationView>), ApiError> {
    let (id, title) = (conversation_id(&id)?, fork.title.map(title).transpose()?);
    let item = fork.item.map(ItemId::new).transpose().map_err(|_| ApiError::missing("there is no such item"))?;
    let forked = app.runs.fork(&user, &id, item.as_ref(), title).await?.ok_or_else(missing)?;
    Ok((StatusCode::CREATED, Json(forked.into())))
}

/// Query parameters for exporting a conversation.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct Format {
    /// File format: `markdown` (the default), `json` or `ipynb` (a Jupyter notebook)
    #[param(pattern = "^(markdown|json|ipynb)$")]
    format: Option<String>,
}

/// Export a conversation as a file
#[utoipa::path(
    get, path = "/api/conversations/{id}/export", operation_id = "export_conversation", tag = "conversations",
    params(("id" = String, Path, description = "Conversation ID"), Format),
    responses(
        (status = 200, description = "Conversation in the requested format", content(
            (String = "text/markdown"), (Object = "application/json"), (Object = "application/x-ipynb+json")
        )),
        Refusals
    )
)]
async fn export(
    State(app): State<App>,
    Caller(user): Caller,
    At(id): At<String>,
    Asked(Format { format }): Asked<Format>,
) -> Result<Response, ApiError> {
    let id = conversation_id(&id)?;
    let (format, kind, ending) = match format.as_deref().unwrap_or("markdown") {
        "markdown" => (ExportFormat::Markdown, "text/markdown; charset=utf-8", "md"),
        "json" => (ExportFormat::Json, "application/json", "json"),
        "ipynb" => (ExportFormat::Notebook, "application/x-ipynb+json", "ipynb"),
        _ => return Err(ApiError::invalid("format must be markdown, json or ipynb")),
    };
    let file = app.runs.export(&user, &id, format).await?.ok_or_else(missing)?;
    let headers = [
        (header::CONTENT_TYPE, kind.to_owned()),
        (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{id}.{ending}\"")),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
    ];
    Ok((headers, file).into_response())
}

/// Query parameters for listing items.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct ItemPage {
    /// Maximum number of items to return; defaults to 50
    #[param(minimum = 1, maximum = 100)]
    limit: Option<usize>,
    /// Return items after this one. Pass the last ID of the previous page.
    after: Option<String>,
    /// Order: `asc` (oldest first, the default) or `desc`
    #[param(pattern = "^(asc|desc)$")]
    order: Option<String>,
}

/// List of items
#[derive(Debug, Serialize, ToSchema)]
struct Items {
    /// Items in the format of `/v1/conversations/{id}/items`
    #[schema(value_type = Vec<Object>)]
    items: Value,
    /// Whether there are more items after these
    has_more: bool,
}

/// List the items of a conversation
#[utoipa::path(
    get, path = "/api/conversations/{id}/items", operation_id = "list_conversation_items", tag = "conversations",
    params(("id" = String, Path, description = "Conversation ID"), ItemPage),
    responses((status = 200, body = Items, description = "Messages, calls with their results, and reasoning"), Refusals)
)]
async fn items(
    State(app): State<App>,
    Caller(user): Caller,
    At(id): At<String>,
    Asked(page): Asked<ItemPage>,
) -> Result<Json<Items>, ApiError> {
    let oldest_first = match page.order.as_deref() {
        None | Some("asc") => true,
        Some("desc") => false,
        Some(_) => return Err(ApiError::invalid("order must be asc or desc")),
    };
    let wanted = ItemList { after: page.after, limit: listed(page.limit)?, oldest_first };
    let found = app.runs.conversation_items(&user, &conversation_id(&id)?, &wanted).await?;
    let mut found = found.ok_or_else(missing)?;
    let has_more = found["has_more"] == true;
    Ok(Json(Items { items: found["data"].take(), has_more }))
}

/// Query parameters for listing runs.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct RunPage {
    /// Maximum number of runs to return; defaults to 50
    #[param(minimum = 1, maximum = 100)]
    limit: Option<usize>,
    /// Return runs older than this one. Pass the last ID of the previous page.
    before: Option<String>,
}

impl RunPage {
    fn bounds(self) -> Result<(usize, Option<RunId>), ApiError> {
        let before = self.before.map(RunId::new).transpose();
        Ok((listed(self.limit)?, before.map_err(|error| ApiError::invalid(error.to_string()))?))
    }
}

/// List of runs
#[derive(Debug, Serialize, ToSchema)]
struct Runs {
    /// Runs, newest first
    runs: Vec<RunView>,
}

impl From<Vec<RunSummary>> for Runs {
    fn from(runs: Vec<RunSummary>) -> Self {
        Self { runs: runs.into_iter().map(RunView::from).collect() }
    }
}

/// List the runs of a conversation
#[utoipa::path(
    get, path = "/api/conversations/{id}/runs", operation_id = "list_conversation_runs", tag = "conversations",
    params(("id" = String, Path, description = "Conversation ID"), RunPage),
    responses((status = 200, body = Runs, description = "Runs with their states, newest first"), Refusals)
)]
async fn runs(
    State(app): State<App>,
    Caller(user): Caller,
    At(id): At<String>,
    Asked(page): Asked<RunPage>,
) -> Result<Json<Runs>, ApiError> {
    let (limit, before) = page.bounds()?;
    let found = app.runs.runs_of(&user, &conversation_id(&id)?, limit, before.as_ref()).await?;
    Ok(Json(found.ok_or_else(missing)?.into()))
}

/// List the runs of the current user
///
/// Returns the runs of all conversations, and those that belong to none.
#[utoipa::path(
    get, path = "/api/runs", operation_id = "list_runs", tag = "conversations", params(RunPage),
    responses((status = 200, body = Runs, description = "Runs with their states, newest first"), Refusals)
)]
async fn all_runs(
    State(app): State<App>,
    Caller(user): Caller,
    Asked(page): Asked<RunPage>,
) -> Result<Json<Runs>, ApiError> {
    let (limit, before) = page.bounds()?;
    Ok(Json(app.runs.list_runs(&user, limit, before.as_ref()).await?.into()))
}

/// Message for a run that is under way
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct SteeringMessage {
    /// Text of the message, at most 65536 bytes; may be empty if there are files
    #[schema(max_length = 65536)]
    text: String,
    /// Uploaded files
    #[serde(default)]
    #[schema(max_items = 20)]
    files: Vec<SteeringFile>,
}

/// Uploaded file in a message for a run
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct SteeringFile {
    /// ID of the upload; the model is told where code can read the file
    id: String,
    /// Whether the model also gets the file as an image; defaults to `false`
    #[serde(default)]
    is_shown: bool,
}

/// Run that got a message
#[derive(Debug, Serialize, ToSchema)]
struct Steered {
    /// Run ID
    run: String,
}

/// Send a message to the run that is under way
///
/// The model gets the message before its next answer; running code is not interrupted. If the run is stopped or fails
/// before that, the message stays in the conversation for the next run.
#[utoipa::path(
    post, path = "/api/conversations/{id}/steer", operation_id = "steer_conversation", tag = "conversations",
    params(("id" = String, Path, description = "Conversation ID")),
    request_body = SteeringMessage,
    responses(
        (status = 202, body = Steered, description = "Message accepted"),
        (status = 409, body = Problem, description = "No run under way: start one with the message"),
        (status = 429, body = Problem, description = "Too many messages are waiting"),
        Refusals
    )
)]
async fn steer(
    State(app): State<App>,
    Caller(user): Caller,
    At(id): At<String>,
    Body(SteeringMessage { text, files }): Body<SteeringMessage>,
) -> Result<(StatusCode, Json<Steered>), ApiError> {
    let id = conversation_id(&id)?;
    let is_empty = text.trim().is_empty();
    if is_empty && files.is_empty() || text.len() > MAX_STEER_BYTES {
        return Err(ApiError::invalid(format!("text must have from 1 to {MAX_STEER_BYTES} bytes")));
    }
    if files.len() > MAX_STEER_FILES {
        return Err(ApiError::invalid(format!("a message has at most {MAX_STEER_FILES} files")));
    }
    let mut parts = if is_empty { Vec::new() } else { vec![Part::text(text)] };
    if !files.is_empty() {
        let files: Vec<(&str, bool)> = files.iter().map(|file| (file.id.as_str(), file.is_shown)).collect();
        parts.extend(app.file_parts(&user, &files).await?);
    }
    let run = app.runs.steer(&user, &id, parts).await?;
    Ok((StatusCode::ACCEPTED, Json(Steered { run: run.to_string() })))
}

/// Result of stopping a run
#[derive(Debug, Serialize, ToSchema)]
struct Stopped {
    /// Run that was stopped; null if none was under way
    run: Option<RunView>,
}

/// Stop the run that is under way
///
/// Stops the model, running code and its calls. The conversation can be continued.
#[utoipa::path(
    post, path = "/api/conversations/{id}/stop", operation_id = "stop_conversation", tag = "conversations",
    params(("id" = String, Path, description = "Conversation ID")),
    responses((status = 200, body = Stopped, description = "Run has ended, or none was under way"), Refusals)
)]
async fn stop(State(app): State<App>, Caller(user): Caller, At(id): At<String>) -> Result<Json<Stopped>, ApiError> {
    let run = app.runs.stop_in(&user, &conversation_id(&id)?).await?;
    Ok(Json(Stopped { run: run.map(RunView::from) }))
}

/// An ID that cannot exist is treated like one that does not.
pub(super) fn conversation_id(id: &str) -> Result<ConversationId, ApiError> {
    ConversationId::new(id).map_err(|_| missing())
}

pub(super) fn missing() -> ApiError {
    ApiError::missing("there is no such conversation")
}
