//! `/v1/conversations`: conversations and their items.

use super::error::OpenAiError;
use super::file_references::InlineFiles;
use super::responses::ListQuery;
use super::responses_request::metadata;
use crate::http::App;
use crate::http::extract::{Asked, Body as JsonBody, Caller};
use crate::http::problem::ApiError;
use axum::extract::{Path, State};
use axum::routing::get;
use axum::{Json, Router};
use coracle_runs::{InputOptions, ItemList};
use coracle_types::{ConversationId, ItemId, UserId};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// Maximum number of items that can be added at once.
const MAX_NEW_ITEMS: usize = 20;

pub(super) fn router() -> Router<App> {
    Router::new()
        .route("/v1/conversations", axum::routing::post(create))
        .route("/v1/conversations/{id}", get(show).post(update).delete(delete))
        .route("/v1/conversations/{id}/items", get(list_items).post(add_items))
        .route("/v1/conversations/{id}/items/{item}", get(show_item).delete(delete_item))
}

#[derive(Debug, Deserialize)]
struct NewConversation {
    #[serde(default)]
    items: Value,
    #[serde(default)]
    metadata: Option<Map<String, Value>>,
}

async fn create(
    State(app): State<App>,
    caller: Result<Caller, ApiError>,
    body: Result<JsonBody<NewConversation>, ApiError>,
) -> Result<Json<Value>, OpenAiError> {
    let (Caller(user), JsonBody(new)) = (caller?, body?);
    let items = new_items(&app, &user, new.items).await?;
    Ok(Json(app.runs.create_conversation(&user, metadata(new.metadata)?, items).await?))
}

async fn new_items(app: &App, user: &UserId, mut items: Value) -> Result<Vec<coracle_models::Item>, OpenAiError> {
    match &mut items {
        Value::Null => return Ok(Vec::new()),
        Value::Array(list) if list.len() > MAX_NEW_ITEMS => {
            return Err(OpenAiError::parameter("items", format!("more than {MAX_NEW_ITEMS} items")));
        }
        Value::Array(list) => app.resolve_files(user, list, InlineFiles::Kept).await?,
        _ => {}
    }
    let options = InputOptions { allows_image_urls: app.agent.allows_image_urls };
    Ok(app.runs.read_input(user, &items, options).await?)
}

async fn show(
    State(app): State<App>,
    caller: Result<Caller, ApiError>,
    Path(id): Path<String>,
) -> Result<Json<Value>, OpenAiError> {
    let (Caller(user), id) = (caller?, conversation_id(&id)?);
    app.runs.conversation(&user, &id).await?.map(Json).ok_or_else(|| missing(&id))
}

#[derive(Debug, Deserialize)]
struct Update {
    #[serde(default)]
    metadata: Option<Map<String, Value>>,
}

async fn update(
    State(app): State<App>,
    caller: Result<Caller, ApiError>,
    Path(id): Path<String>,
    body: Result<JsonBody<Update>, ApiError>,
) -> Result<Json<Value>, OpenAiError> {
    let (Caller(user), JsonBody(change), id) = (caller?, body?, conversation_id(&id)?);
    let updated = app.runs.update_conversation(&user, &id, &metadata(change.metadata)?).await?;
    updated.map(Json).ok_or_else(|| missing(&id))
}

async fn delete(
    State(app): State<App>,
    caller: Result<Caller, ApiError>,
    Path(id): Path<String>,
) -> Result<Json<Value>, OpenAiError> {
    let (Caller(user), id) = (caller?, conversation_id(&id)?);
    if !app.runs.delete_conversation(&user, &id).await? {
        return Err(missing(&id));
    }
    Ok(Json(json!({"id": id.as_str(), "object": "conversation.deleted", "deleted": true})))
}

async fn list_items(
    State(app): State<App>,
    caller: Result<Caller, ApiError>,
    Path(id): Path<String>,
    query: Result<Asked<ListQuery>, ApiError>,
) -> Result<Json<Value>, OpenAiError> {
    let (Caller(user), Asked(query), id) = (caller?, query?, conversation_id(&id)?);
    let items = app.runs.conversation_items(&user, &id, &query.read()?).await?;
    items.map(Json).ok_or_else(|| missing(&id))
}

#[derive(Debug, Deserialize)]
struct AddedItems {
    items: Value,
}

async fn add_items(
    State(app): State<App>,
    caller: Result<Caller, ApiError>,
    Path(id): Path<String>,
    body: Result<JsonBody<AddedItems>, ApiError>,
) -> Result<Json<Value>, OpenAiError> {
    let (Caller(user), JsonBody(added), id) = (caller?, body?, conversation_id(&id)?);
    let items = new_items(&app, &user, added.items).await?;
    let items = app.runs.add_items(&user, &id, items).await?;
    let ends = |item: Option<&Value>| item.map(|item| item["id"].clone());
    let (first, last) = (ends(items.first()), ends(items.last()));
    Ok(Json(json!({"object": "list", "data": items, "first_id": first, "last_id": last, "has_more": false})))
}

async fn show_item(
    State(app): State<App>,
    caller: Result<Caller, ApiError>,
    Path((id, item)): Path<(String, String)>,
) -> Result<Json<Value>, OpenAiError> {
    let (Caller(user), id) = (caller?, conversation_id(&id)?);
    let all = ItemList { after: None, limit: usize::MAX, oldest_first: true };
    let list = app.runs.conversation_items(&user, &id, &all).await?.ok_or_else(|| missing(&id))?;
    let found = list["data"].as_array().and_then(|items| items.iter().find(|found| found["id"] == item.as_str()));
    found.cloned().map(Json).ok_or_else(|| ApiError::missing("there is no such item").into())
}

async fn delete_item(
    State(app): State<App>,
    caller: Result<Caller, ApiError>,
    Path((id, item)): Path<(String, String)>,
) -> Result<Json<Value>, OpenAiError> {
    let (Caller(user), id) = (caller?, conversation_id(&id)?);
    let item = ItemId::new(item).map_err(|_| OpenAiError::from(ApiError::missing("there is no such item")))?;
    if !app.runs.delete_item(&user, &id, &item).await? {
        return Err(ApiError::missing("there is no such item").into());
    }
    app.runs.conversation(&user, &id).await?.map(Json).ok_or_else(|| missing(&id))
}

/// An ID that cannot exist is treated like one that does not.
fn conversation_id(id: &str) -> Result<ConversationId, OpenAiError> {
    ConversationId::new(id).map_err(|_| ApiError::missing("there is no such conversation").into())
}

fn missing(id: &ConversationId) -> OpenAiError {
    ApiError::missing(format!("conversation `{id}` not found")).into()
}
