//! `/api/tools/select`: tools for a task, and a program to start with.

use super::tools::inventory;
use crate::http::App;
use crate::http::extract::{Asked, Caller};
use crate::http::problem::{ApiError, Refusals};
use axum::Json;
use axum::extract::State;
use coracle_catalog::{Entry, Query, StarterLanguage};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Maximum number of selected tools.
const MAX_TOP: u64 = 100;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(select))
}

/// Query parameters for selecting tools.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct Selecting {
    /// Description of the task
    task: String,
    /// Language of the program: `python` (the default) or `typescript`
    #[param(pattern = "^(python|typescript)$")]
    language: Option<String>,
    /// Maximum number of tools; defaults to the setting `search.select_top`
    #[param(minimum = 1, maximum = 100)]
    top: Option<u64>,
}

/// Tools for a task
#[derive(Debug, Serialize, ToSchema)]
struct Selection {
    /// Tools, best match first, each with `server`, `package`, `name`, `function` and `summary`
    #[schema(value_type = Vec<Object>)]
    tools: Vec<Value>,
    /// Program to start with, which calls the tools; empty without tools
    program: String,
}

/// Select tools for a task
///
/// Returns the tools that fit a task best, and a program to start with.
#[utoipa::path(
    get, path = "/api/tools/select", operation_id = "select_tools", tag = "tools", params(Selecting),
    responses((status = 200, body = Selection, description = "Tools and a program"), Refusals)
)]
async fn select(
    State(app): State<App>,
    Caller(user): Caller,
    Asked(wanted): Asked<Selecting>,
) -> Result<Json<Selection>, ApiError> {
    let language = match wanted.language.as_deref() {
        None | Some("python") => StarterLanguage::Python,
        Some("typescript") => StarterLanguage::Typescript,
        Some(_) => return Err(ApiError::invalid("language must be python or typescript")),
    };
    let search = &app.frontend.options.settings.search;
    let top = wanted.top.unwrap_or(search.select_top);
    if !(1..=MAX_TOP).contains(&top) {
        return Err(ApiError::invalid(format!("top must be from 1 to {MAX_TOP}")));
    }
    #[expect(clippy::cast_precision_loss, reason = "at most 100")]
    let share = search.select_threshold as f32 / 100.0;
    let Some((toolbox, inventory)) = inventory(&app, &user, None).await? else {
        return Ok(Json(Selection { tools: Vec::new(), program: String::new() }));
    };
    let foreign = toolbox.meaning(&inventory, &wanted.task).await;
    // A search in a large catalogue takes a while.
    let selected = tokio::task::spawn_blocking(move || {
        let query = Query { foreign: foreign.as_ref(), ..Query::new(&wanted.task) };
        let hits = inventory.catalog.select(&query, usize::try_from(top).unwrap_or(usize::MAX), share);
        let chosen: Vec<&Entry> = hits.iter().map(|hit| hit.entry).collect();
        let program = match chosen.as_slice() {
            [] => String::new(),
            chosen => inventory.catalog.starter(&wanted.task, chosen, language),
        };
        let tools = chosen.iter().map(|entry| serde_json::to_value(entry).unwrap_or_default()).collect();
        Selection { tools, program }
    });
    selected.await.map(Json).map_err(|error| ApiError::internal("select tools", error))
}
