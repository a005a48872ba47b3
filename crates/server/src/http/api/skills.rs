//! Skills: code that was saved, and instructions.

use super::extract::{Asked, At, Body, Caller};
use super::problem::{ApiError, Refusals};
use crate::http::App;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use coracle_engine::SkillError;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(save, load, delete))
}

fn refused(error: SkillError) -> ApiError {
    let code = error.code();
    let status = match code {
        "no_such_skill" => StatusCode::NOT_FOUND,
        "too_large" => StatusCode::PAYLOAD_TOO_LARGE,
        "denied" => StatusCode::FORBIDDEN,
        "unavailable" => StatusCode::SERVICE_UNAVAILABLE,
        "skill_files" | "internal" => return ApiError::internal("work with skills", error),
        _ => StatusCode::BAD_REQUEST,
    };
    ApiError::new(status, code, error.to_string())
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map.into_iter().filter(|(_, value)| !value.is_null()).collect(),
        _ => Map::new(),
    }
}

/// Which skills.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct Which {
    /// What they are to be good for; without it, all.
    query: Option<String>,
}

/// The caller's saved skills and the operator's instructions, or those that fit a query.
#[utoipa::path(
    get, path = "/api/skills", operation_id = "list_skills", tag = "skills", params(Which),
    responses((status = 200, body = Object, description = "`count` and `skills`"), Refusals)
)]
async fn list(
    State(app): State<App>,
    Caller(user): Caller,
    Asked(which): Asked<Which>,
) -> Result<Json<Value>, ApiError> {
    let (act, params) = match which.query {
        None => ("list", Map::new()),
        Some(query) => ("search", object(json!({ "query": query }))),
    };
    app.face.engine.skill_request(&user, act, params).await.map(Json).map_err(refused)
}

/// Code to save.
#[derive(Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Draft {
    /// The source.
    code: String,
    /// `python` or `typescript`; Python if it is missing.
    #[serde(default)]
    language: Option<String>,
    /// What it does.
    #[serde(default)]
    description: Option<String>,
    /// Words to find it by.
    #[serde(default)]
    tags: Option<Vec<String>>,
    /// The tools that it calls, as `server.tool`; those that its imports name, if nothing is said.
    #[serde(default)]
    tools: Option<Vec<String>>,
    /// A program that uses it: run in a sandbox first, and if it fails nothing is saved.
    #[serde(default)]
    example: Option<String>,
    /// Who wrote it.
    #[serde(default)]
    author: Option<String>,
}

/// Saves code under a name: a further version, if it is there already.
#[utoipa::path(
    put, path = "/api/skills/{name}", operation_id = "save_skill", tag = "skills", request_body = Draft,
    params(("name" = String, Path, description = "What code imports it by", max_length = 64, pattern = "^[A-Za-z][A-Za-z0-9_]*$")),
    responses(
        (status = 200, body = Object, description = "`name`, `version`, `import`, `metadata`"),
        (status = 503, body = super::problem::Problem, description = "Its example could not be tried"),
        Refusals
    )
)]
async fn save(
    State(app): State<App>,
    Caller(user): Caller,
    At(name): At<String>,
    Body(draft): Body<Draft>,
) -> Result<Json<Value>, ApiError> {
    let mut params = object(serde_json::to_value(draft).unwrap_or_default());
    params.insert("name".to_owned(), name.into());
    app.face.engine.skill_request(&user, "save", params).await.map(Json).map_err(refused)
}

/// Which version.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct Version {
    /// Without it, the newest.
    #[param(minimum = 1)]
    version: Option<u32>,
}

/// The source of a saved skill.
#[utoipa::path(
    get, path = "/api/skills/{name}", operation_id = "load_skill", tag = "skills",
    params(("name" = String, Path, description = "What code imports it by", max_length = 64, pattern = "^[A-Za-z][A-Za-z0-9_]*$"), Version),
    responses((status = 200, body = Object, description = "`name`, `code`, `metadata`, `versions`"), Refusals)
)]
async fn load(
    State(app): State<App>,
    Caller(user): Caller,
    At(name): At<String>,
    Asked(Version { version }): Asked<Version>,
) -> Result<Json<Value>, ApiError> {
    if version == Some(0) {
        return Err(ApiError::invalid("versions count from 1"));
    }
    let params = object(json!({ "name": name, "version": version }));
    app.face.engine.skill_request(&user, "load", params).await.map(Json).map_err(refused)
}

/// Deletes a saved skill with all its versions.
#[utoipa::path(
    delete, path = "/api/skills/{name}", operation_id = "delete_skill", tag = "skills",
    params(("name" = String, Path, description = "What code imports it by", max_length = 64, pattern = "^[A-Za-z][A-Za-z0-9_]*$")),
    responses((status = 200, body = Object, description = "It is gone"), Refusals)
)]
async fn delete(State(app): State<App>, Caller(user): Caller, At(name): At<String>) -> Result<Json<Value>, ApiError> {
    let params = object(json!({ "name": name }));
    app.face.engine.skill_request(&user, "delete", params).await.map(Json).map_err(refused)
}
