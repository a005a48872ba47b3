//! `/api/skills`: saved code and instructions.

use crate::http::App;
use crate::http::extract::{Asked, At, Body, Caller};
use crate::http::problem::{ApiError, Refusals};
use crate::http::reader::Reader;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use coracle_engine::SkillError;
use coracle_privacy::Item;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(save, load, delete)).routes(routes!(test))
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

/// Members of answers with texts that people and models have written, or what code has returned. The others are names, which
/// would be taken for names of people, and numbers.
const TEXTS: [&str; 7] = ["code", "description", "example", "tags", "author", "query", "execution"];

fn add_texts<'a>(answer: &'a mut Value, texts: &mut Vec<Item<'a>>) {
    match answer {
        Value::Object(members) => {
            for (name, member) in members {
                if TEXTS.contains(&name.as_str()) {
                    texts.push(Item::Json(member));
                } else {
                    add_texts(member, texts);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| add_texts(item, texts)),
        _ => {}
    }
}

/// Handles a request about skills for this reader.
async fn request(app: &App, reader: &Reader, act: &str, params: Map<String, Value>) -> Result<Json<Value>, ApiError> {
    let mut answer = match app.frontend.engine.skill_request(&reader.user, act, params).await {
        Ok(answer) => answer,
        Err(error) => return Err(refused_for(app, reader, error).await),
    };
    hide(app, reader, &mut answer).await?;
    Ok(Json(answer))
}

/// Replaces personal data in an answer by tokens, unless a person reads it.
async fn hide(app: &App, reader: &Reader, answer: &mut Value) -> Result<(), ApiError> {
    let mut texts = Vec::new();
    add_texts(answer, &mut texts);
    reader.protect(app, &mut texts).await
}

/// The same for an error, which may quote what code has printed.
async fn refused_for(app: &App, reader: &Reader, error: SkillError) -> ApiError {
    let mut refused = refused(error);
    match reader.protect(app, &mut [Item::Text(&mut refused.error)]).await {
        Ok(()) => refused,
        Err(withheld) => withheld,
    }
}

/// Query parameters for listing skills.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct Which {
    /// Search terms; without them, all skills are returned
    query: Option<String>,
}

/// List or search skills
///
/// Without `query`, returns all of the current user's saved skills and the operator's instructions. With `query`,
/// returns up to 10 of both that match, best match first.
#[utoipa::path(
    get, path = "/api/skills", operation_id = "list_skills", tag = "skills", params(Which),
    responses(
        (
            status = 200, body = Object,
            description = "Object with `count` and `skills`, and either `instructions` or the `query`"
        ),
        Refusals
    )
)]
async fn list(State(app): State<App>, reader: Reader, Asked(which): Asked<Which>) -> Result<Json<Value>, ApiError> {
    let (act, params) = match which.query {
        None => ("list", Map::new()),
        Some(query) => ("search", object(json!({ "query": query }))),
    };
    request(&app, &reader, act, params).await
}

/// Skill to save
#[derive(Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Draft {
    /// Source code
    code: String,
    /// Programming language: `python` (the default) or `typescript`
    #[serde(default)]
    language: Option<String>,
    /// Description of the skill; defaults to the previous version's
    #[serde(default)]
    description: Option<String>,
    /// Tags for finding the skill; default to the previous version's
    #[serde(default)]
    tags: Option<Vec<String>>,
    /// Tools that the skill calls, as `server.tool`; default to the tools that the code imports
    #[serde(default)]
    tools: Option<Vec<String>>,
    /// Example program that uses the skill. The server runs it in a sandbox first and saves nothing if it fails.
    /// Defaults to the previous version's example; an empty string removes it.
    #[serde(default)]
    example: Option<String>,
    /// Author of the skill; defaults to the current user
    #[serde(default)]
    author: Option<String>,
}

/// Save a skill
///
/// Saving under an existing name adds a new version.
#[utoipa::path(
    put, path = "/api/skills/{name}", operation_id = "save_skill", tag = "skills", request_body = Draft,
    params((
        "name" = String, Path, description = "Skill name, as used in imports", max_length = 64,
        pattern = "^[A-Za-z][A-Za-z0-9_]*$"
    )),
    responses(
        (status = 200, body = Object, description = "Object with `name`, `version`, `import`, `tested` and `metadata`"),
        (status = 503, body = crate::http::problem::Problem, description = "Skill not saved because it could not be tested"),
        Refusals
    )
)]
async fn save(
    State(app): State<App>,
    reader: Reader,
    At(name): At<String>,
    Body(draft): Body<Draft>,
) -> Result<Json<Value>, ApiError> {
    let mut params = object(serde_json::to_value(draft).unwrap_or_default());
    params.insert("name".to_owned(), name.into());
    request(&app, &reader, "save", params).await
}

/// Query parameters for loading a skill.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct Version {
    /// Version number; defaults to the latest version
    #[param(minimum = 1)]
    version: Option<u32>,
}

/// Get the source code of a saved skill
#[utoipa::path(
    get, path = "/api/skills/{name}", operation_id = "load_skill", tag = "skills",
    params(
        (
            "name" = String, Path, description = "Skill name, as used in imports", max_length = 64,
            pattern = "^[A-Za-z][A-Za-z0-9_]*$"
        ),
        Version,
    ),
    responses(
        (status = 200, body = Object, description = "Object with `name`, `code`, `metadata` and `versions`"),
        Refusals
    )
)]
async fn load(
    State(app): State<App>,
    reader: Reader,
    At(name): At<String>,
    Asked(Version { version }): Asked<Version>,
) -> Result<Json<Value>, ApiError> {
    if version == Some(0) {
        return Err(ApiError::invalid("version must be at least 1"));
    }
    let params = object(json!({ "name": name, "version": version }));
    request(&app, &reader, "load", params).await
}

/// Delete a saved skill and all its versions
#[utoipa::path(
    delete, path = "/api/skills/{name}", operation_id = "delete_skill", tag = "skills",
    params((
        "name" = String, Path, description = "Skill name, as used in imports", max_length = 64,
        pattern = "^[A-Za-z][A-Za-z0-9_]*$"
    )),
    responses((status = 200, body = Object, description = "Skill deleted"), Refusals)
)]
async fn delete(State(app): State<App>, Caller(user): Caller, At(name): At<String>) -> Result<Json<Value>, ApiError> {
    let params = object(json!({ "name": name }));
    app.frontend.engine.skill_request(&user, "delete", params).await.map(Json).map_err(refused)
}

/// Run the example of a saved skill
///
/// Runs the example of the latest version in a sandbox. An example that fails is reported with status 200, as an
/// execution with `success: false`.
#[utoipa::path(
    post, path = "/api/skills/{name}/test", operation_id = "test_skill", tag = "skills",
    params((
        "name" = String, Path, description = "Skill name, as used in imports", max_length = 64,
        pattern = "^[A-Za-z][A-Za-z0-9_]*$"
    )),
    responses(
        (
            status = 200, body = Object,
            description = "Object with `tested` (false if the skill has no example) and `execution`"
        ),
        Refusals
    )
)]
async fn test(State(app): State<App>, reader: Reader, At(name): At<String>) -> Result<Json<Value>, ApiError> {
    let execution = match app.frontend.engine.test_skill(&reader.user, &name).await {
        Ok(execution) => execution,
        Err(error) => return Err(refused_for(&app, &reader, error).await),
    };
    let mut answer = json!({ "tested": execution.is_some(), "execution": execution });
    hide(&app, &reader, &mut answer).await?;
    Ok(Json(answer))
}
