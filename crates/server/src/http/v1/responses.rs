//! `/v1/responses`: runs of the agent, which can outlive their clients.

use super::approvals;
use super::chat::check_names;
use super::error::OpenAiError;
use super::event_stream::{self, Wanted};
use super::file_references::InlineFiles;
use super::responses_request::ResponsesRequest;
use crate::http::App;
use crate::http::extract::{Asked, Body as JsonBody, Caller};
use crate::http::problem::ApiError;
use crate::identity::Identity;
use crate::mcp::{FrontendTools, count_tokens};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use coracle_agent::{AgentTools as _, compact};
use coracle_models::{CallResult, Item, Part, Usage};
use coracle_policy::NobodyToAsk;
use coracle_runs::{Before, Events, InputOptions, ItemList, RunError, take_answers};
use coracle_types::{RunId, UserId};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// Default and maximum number of items in one list.
const LIST: (usize, usize) = (20, 100);
/// Estimated number of tokens of an image. Providers charge from about 250 to 1,600, depending on its size.
const IMAGE_TOKENS: usize = 1_000;

pub(super) fn router() -> Router<App> {
    Router::new()
        .route("/v1/responses", post(create))
        .route("/v1/responses/compact", post(compact_input))
        .route("/v1/responses/input_tokens", post(input_tokens))
        .route("/v1/responses/{id}", get(show).delete(delete))
        .route("/v1/responses/{id}/cancel", post(cancel))
        .route("/v1/responses/{id}/input_items", get(input_items))
}

async fn create(
    State(app): State<App>,
    caller: Result<Identity, ApiError>,
    body: Result<JsonBody<ResponsesRequest>, ApiError>,
) -> Result<Response, OpenAiError> {
    let (caller, JsonBody(mut request)) = (caller?, body?);
    let user = caller.user.clone();
    let chosen = app.model(&user, request.model.as_deref()).await??;
    let before = if request.has_thread() { Before::Stored } else { Before::Sent };
    let answers = take_answers(&mut request.input, before)?;
    if let Value::Array(items) = &mut request.input {
        let inline = if request.store == Some(false) { InlineFiles::Refused } else { InlineFiles::Kept };
        app.resolve_files(&user, items, inline).await?;
    }
    let options = InputOptions { allows_image_urls: app.agent.allows_image_urls };
    let input = app.runs.read_input(&user, &request.input, options).await?;
    let streams = request.stream.unwrap_or_default();
    let wanted = if request.coracle.events { Wanted::WithExtensions } else { Wanted::Standard };
    let spec = request.into_spec(chosen.name())?;
    check_names(&spec.options.tools)?;
    if input.is_empty() && answers.is_empty() && spec.conversation.is_none() && spec.previous.is_none() {
        return Err(OpenAiError::parameter("input", "is empty"));
    }
    let (outlives, is_background) = (spec.outlives_client(), spec.is_background);
    let run = if answers.is_empty() {
        app.runs.start(&user, spec, input).await?
    } else {
        approvals::continue_run(&app, &caller, spec, input, answers).await?
    };
    let guard = (!outlives).then(|| run.stop_on_drop());
    if streams {
        return Ok(event_stream::response(Events::Live(run.listen(None)), wanted, guard));
    }
    if is_background {
        let response = app.runs.response(&user, &run.id).await?;
        return response.map(|response| Json(response).into_response()).ok_or_else(|| missing(&run.id));
    }
    let response = run.ended().await.ok_or_else(stopping)?;
    drop(guard);
    match failure(&response) {
        Some(error) => Err(error),
        None => Ok(Json(&*response).into_response()),
    }
}

/// An error of the model before it answered anything is an error of the request.
fn failure(response: &Value) -> Option<OpenAiError> {
    let is_empty = response["output"].as_array().is_none_or(Vec::is_empty);
    if response["status"] != "failed" || !is_empty {
        return None;
    }
    let code = response["coracle"]["ended"].as_str().unwrap_or_default();
    let message = response["error"]["message"].as_str().unwrap_or_default();
    let status = match code {
        "model_rate_limited" => StatusCode::TOO_MANY_REQUESTS,
        "context_length_exceeded" | "model_rejected_request" => StatusCode::BAD_REQUEST,
        "model_unreachable" => StatusCode::SERVICE_UNAVAILABLE,
        "not_recorded" => StatusCode::INTERNAL_SERVER_ERROR,
        _ => StatusCode::BAD_GATEWAY,
    };
    Some(OpenAiError::of_problem(status, code, message))
}

#[derive(Debug, Deserialize)]
struct ShowQuery {
    #[serde(default)]
    stream: Option<bool>,
    #[serde(default)]
    starting_after: Option<u64>,
    /// Whether events are sent that only Coracle has.
    #[serde(default)]
    coracle_events: Option<bool>,
}

async fn show(
    State(app): State<App>,
    caller: Result<Caller, ApiError>,
    Path(id): Path<String>,
    query: Result<Asked<ShowQuery>, ApiError>,
    headers: HeaderMap,
) -> Result<Response, OpenAiError> {
    let (Caller(user), Asked(query), id) = (caller?, query?, run_id(&id)?);
    if query.stream.unwrap_or_default() {
        let wanted = if query.coracle_events.unwrap_or_default() { Wanted::WithExtensions } else { Wanted::Standard };
        // Browsers send the last ID when they reconnect, which is later than the one in the address.
        let last = headers.get("last-event-id").and_then(|last| last.to_str().ok()?.parse().ok());
        let events = app.runs.events(&user, &id, last.or(query.starting_after)).await?;
        return Ok(event_stream::response(events.ok_or_else(|| missing(&id))?, wanted, None));
    }
    let response = app.runs.response(&user, &id).await?.ok_or_else(|| missing(&id))?;
    Ok(Json(response).into_response())
}

async fn delete(
    State(app): State<App>,
    caller: Result<Caller, ApiError>,
    Path(id): Path<String>,
) -> Result<Json<Value>, OpenAiError> {
    let (Caller(user), id) = (caller?, run_id(&id)?);
    if !app.runs.delete(&user, &id).await? {
        return Err(missing(&id));
    }
    Ok(Json(json!({"id": id.as_str(), "object": "response", "deleted": true})))
}

async fn cancel(
    State(app): State<App>,
    caller: Result<Caller, ApiError>,
    Path(id): Path<String>,
) -> Result<Json<Value>, OpenAiError> {
    let (Caller(user), id) = (caller?, run_id(&id)?);
    app.runs.stop(&user, &id).await?.map(Json).ok_or_else(|| missing(&id))
}

/// Which part of a list is wanted.
#[derive(Debug, Deserialize)]
pub(super) struct ListQuery {
    #[serde(default)]
    after: Option<String>,
    #[serde(default)]
    limit: Option<usize>,
    #[serde(default)]
    order: Option<String>,
}

impl ListQuery {
    pub(super) fn read(self) -> Result<ItemList, OpenAiError> {
        let (default, most) = LIST;
        let oldest_first = match self.order.as_deref() {
            None | Some("desc") => false,
            Some("asc") => true,
            Some(_) => return Err(OpenAiError::parameter("order", "must be `asc` or `desc`")),
        };
        Ok(ItemList { after: self.after, limit: self.limit.unwrap_or(default).clamp(1, most), oldest_first })
    }
}

async fn input_items(
    State(app): State<App>,
    caller: Result<Caller, ApiError>,
    Path(id): Path<String>,
    query: Result<Asked<ListQuery>, ApiError>,
) -> Result<Json<Value>, OpenAiError> {
    let (Caller(user), Asked(query), id) = (caller?, query?, run_id(&id)?);
    let items = app.runs.input_items(&user, &id, &query.read()?).await?;
    items.map(Json).ok_or_else(|| missing(&id))
}

/// `POST /v1/responses/compact`: the input as a shorter conversation, which the client sends from then on.
async fn compact_input(
    State(app): State<App>,
    caller: Result<Caller, ApiError>,
    body: Result<JsonBody<ResponsesRequest>, ApiError>,
) -> Result<Json<Value>, OpenAiError> {
    let (Caller(user), JsonBody(request)) = (caller?, body?);
    let chosen = app.model(&user, request.model.as_deref()).await??;
    let items = app.whole_input(&user, request).await?;
    let compacted = compact(&*chosen.provider, &chosen.model, &items).await?;
    let (items, usage) = compacted.map_or((items, Usage::default()), |shorter| (shorter.items, shorter.usage));
    Ok(Json(app.runs.compaction(&items, &usage)?))
}

/// `POST /v1/responses/input_tokens`: how many tokens a request has, as an estimate.
async fn input_tokens(
    State(app): State<App>,
    caller: Result<Caller, ApiError>,
    body: Result<JsonBody<ResponsesRequest>, ApiError>,
) -> Result<Json<Value>, OpenAiError> {
    let (Caller(user), JsonBody(request)) = (caller?, body?);
    app.model(&user, request.model.as_deref()).await??;
    let tools = FrontendTools::new(app.frontend.of_user(&user), Arc::new(NobodyToAsk));
    let instructions = app.agent.instructions(&tools.instructions().await, request.instructions());
    let definitions = [tools.definitions(), request.functions()?].concat();
    let mut items = app.whole_input(&user, request).await?;
    let images = take_images(&mut items);
    let counted = [Some(instructions), serde_json::to_string(&definitions).ok(), serde_json::to_string(&items).ok()];
    let tokens: usize = counted.iter().flatten().map(|text| count_tokens(text)).sum();
    let tokens = tokens + images * IMAGE_TOKENS;
    Ok(Json(json!({"object": "response.input_tokens", "input_tokens": tokens})))
}

/// Removes the content of images, which providers do not count as text, and returns their number.
fn take_images(items: &mut [Item]) -> usize {
    let parts = items.iter_mut().flat_map(|item| match item {
        Item::User { parts } | Item::Result(CallResult { parts, .. }) => parts.as_mut_slice(),
        Item::System { .. } | Item::Assistant { .. } | Item::Reasoning { .. } | Item::Call(_) => &mut [],
    });
    let mut images = 0;
    for part in parts {
        match part {
            Part::Image { data: content, .. } | Part::ImageUrl { url: content } => {
                content.clear();
                images += 1;
            }
            Part::Text { .. } => {}
        }
    }
    images
}

impl App {
    /// The input of a request, after the conversation that it continues.
    async fn whole_input(&self, user: &UserId, mut request: ResponsesRequest) -> Result<Vec<Item>, OpenAiError> {
        let mut input = std::mem::take(&mut request.input);
        if let Value::Array(items) = &mut input {
            self.resolve_files(user, items, InlineFiles::Refused).await?;
        }
        let mut items = if input.is_null() {
            Vec::new()
        } else {
            let options = InputOptions { allows_image_urls: self.agent.allows_image_urls };
            self.runs.read_input(user, &input, options).await?
        };
        let spec = request.into_spec(String::new())?;
        items.splice(..0, self.runs.before(user, &spec).await?);
        if items.is_empty() {
            return Err(OpenAiError::parameter("input", "is empty"));
        }
        Ok(items)
    }
}

/// An ID that cannot exist is treated like one that does not.
fn run_id(id: &str) -> Result<RunId, OpenAiError> {
    RunId::new(id).map_err(|_| ApiError::missing("there is no such response").into())
}

fn missing(id: &RunId) -> OpenAiError {
    ApiError::missing(format!("response `{id}` not found")).into()
}

fn stopping() -> OpenAiError {
    let message = "the server is stopping; the run goes on when it starts again, if it belongs to a conversation";
    ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "stopping", message).into()
}

impl From<RunError> for OpenAiError {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Invalid { parameter, message } => Self::parameter(parameter, message),
            other => ApiError::from(other).into(),
        }
    }
}
