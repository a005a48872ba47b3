//! The routes that list models.

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde_json::{Value, json};

use super::{ScriptedModel, fault_response, json_response, unknown_model};
use crate::conversation::Wire;

/// The model that is listed if every name is accepted.
const ANY_MODEL: &str = "scripted";

/// Clients of Anthropic name the version that they speak, and others do not.
fn wire_of(headers: &HeaderMap) -> Wire {
    if headers.contains_key("anthropic-version") { Wire::Messages } else { Wire::Chat }
}

fn model_object(wire: Wire, id: &str) -> Value {
    match wire {
        Wire::Messages => json!({
            "type": "model",
            "id": id,
            "display_name": id,
            "created_at": "2026-01-01T00:00:00Z",
            "lifecycle": "active",
        }),
        Wire::Chat | Wire::Responses => {
            json!({"id": id, "object": "model", "created": 1_767_225_600, "owned_by": "coracle"})
        }
    }
}

fn ids(model: &ScriptedModel) -> Vec<&str> {
    let ids: Vec<&str> = model.inner.library.models.iter().map(String::as_str).collect();
    if ids.is_empty() { vec![ANY_MODEL] } else { ids }
}

/// Ollama's own list.
pub(super) async fn tags(State(model): State<ScriptedModel>) -> Response {
    let models: Vec<Value> = ids(&model)
        .iter()
        .map(|id| json!({"name": id, "model": id, "details": {"format": "gguf", "family": "scripted"}}))
        .collect();
    json_response(StatusCode::OK, &json!({"models": models}))
}

pub(super) async fn list(State(model): State<ScriptedModel>, headers: HeaderMap) -> Response {
    let wire = wire_of(&headers);
    if let Err(fault) = model.check_key(wire, &headers) {
        return fault_response(wire, &fault);
    }
    let ids = ids(&model);
    let models: Vec<Value> = ids.iter().map(|id| model_object(wire, id)).collect();
    let body = match wire {
        Wire::Messages => json!({"data": models, "has_more": false, "first_id": ids.first(), "last_id": ids.last()}),
        Wire::Chat | Wire::Responses => json!({"object": "list", "data": models}),
    };
    json_response(StatusCode::OK, &body)
}

pub(super) async fn one(State(model): State<ScriptedModel>, Path(id): Path<String>, headers: HeaderMap) -> Response {
    let wire = wire_of(&headers);
    let models = &model.inner.library.models;
    if let Err(fault) = model.check_key(wire, &headers) {
        return fault_response(wire, &fault);
    }
    if models.is_empty() || models.contains(&id) {
        return json_response(StatusCode::OK, &model_object(wire, &id));
    }
    fault_response(wire, &unknown_model(wire, &id))
}
