//! `GET /skills` and `GET /skills/{id}` in the format of earlier servers of this kind. `/api/skills` returns more.

use super::App;
use super::reader::Reader;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Json, Router};
use coracle_engine::{SkillError, SkillFolder};
use coracle_privacy::Item;
use serde_json::{Map, Value, json};

/// Version of skills that do not name one, because these clients expect one.
const FIRST_VERSION: &str = "1.0.0";

pub(super) fn router() -> Router<App> {
    Router::new().route("/skills", get(list)).route("/skills/{id}", get(show))
}

/// Fields of a skill folder; its ID is the name of the folder.
fn told(skill: &SkillFolder) -> Value {
    json!({
        "skill_id": skill.folder, "name": skill.name, "description": skill.description,
        "version": skill.version.as_deref().unwrap_or(FIRST_VERSION),
    })
}

/// Lists all skills: instructions, and the caller's saved code.
async fn list(State(app): State<App>, reader: Reader) -> Response {
    let folders = app.frontend.engine.library().read().await;
    let saved = match app.frontend.engine.list_skills(&reader.user).await {
        Ok(saved) => saved,
        Err(error) => return failed(&error),
    };
    let mut skills: Vec<Value> = folders.skills.iter().map(told).collect();
    skills.extend(saved.into_iter().map(|listed| {
        let skill = listed.skill;
        json!({
            "skill_id": skill.name, "name": skill.name, "description": skill.description,
            "version": skill.version.to_string(),
        })
    }));
    answer(&app, &reader, json!({ "count": skills.len(), "skills": skills })).await
}

/// Returns one skill with its content.
async fn show(State(app): State<App>, reader: Reader, Path(id): Path<String>) -> Response {
    let engine = &app.frontend.engine;
    let folders = engine.library().read().await;
    let found = folders.skills.iter().find(|skill| skill.folder == id || skill.name == id);
    if let Some(skill) = found {
        return match engine.library().get(&skill.name, None).await {
            Ok(file) => {
                let mut all = told(skill);
                all["dependencies"] = skill.dependencies.join(", ").into();
                all["content"] = file.content.into();
                answer(&app, &reader, all).await
            }
            Err(error) => failed(&error),
        };
    }
    let mut params = Map::new();
    params.insert("name".to_owned(), id.into());
    match engine.skill_request(&reader.user, "load", params).await {
        Ok(saved) => {
            let about = &saved["metadata"];
            let all = json!({
                "skill_id": saved["name"], "name": saved["name"], "description": about["description"],
                "version": about["version"].to_string(), "dependencies": "", "content": saved["code"],
            });
            answer(&app, &reader, all).await
        }
        Err(error) => failed(&error),
    }
}

/// Replaces personal data in descriptions and contents by tokens, unless a person reads them.
async fn answer(app: &App, reader: &Reader, mut all: Value) -> Response {
    let mut texts = Vec::new();
    add_texts(&mut all, &mut texts);
    match reader.protect(app, &mut texts).await {
        Ok(()) => Json(all).into_response(),
        Err(error) => error.into_response(),
    }
}

fn add_texts<'a>(answer: &'a mut Value, texts: &mut Vec<Item<'a>>) {
    match answer {
        Value::Object(members) => {
            for (name, member) in members {
                match name.as_str() {
                    "description" | "content" => texts.push(Item::Json(member)),
                    _ => add_texts(member, texts),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| add_texts(item, texts)),
        _ => {}
    }
}

fn failed(error: &SkillError) -> Response {
    let status = match error.code() {
        "skill_files" | "internal" => StatusCode::INTERNAL_SERVER_ERROR,
        "unavailable" => StatusCode::SERVICE_UNAVAILABLE,
        // The skill does not exist, or the name is invalid.
        _ => StatusCode::NOT_FOUND,
    };
    (status, Json(json!({ "error": error.to_string() }))).into_response()
}
