//! The response object.

use crate::spec::RunSpec;
use coracle_models::Usage;
use coracle_store::{RunRecord, RunState};
use coracle_types::RunId;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::time::SystemTime;

/// The outcome of a run, as it is stored.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct StoredOutcome {
    /// Why the run ended, as a stable code.
    pub(crate) ended: String,
    /// The reason for people, if the run did not complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<String>,
    /// The tokens of all steps.
    #[serde(default)]
    pub(crate) usage: Usage,
    /// The sequence number of the last event.
    #[serde(default)]
    pub(crate) sequence: u64,
}

/// What a response object is made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parts<'a> {
    pub(crate) id: &'a RunId,
    pub(crate) spec: &'a RunSpec,
    pub(crate) created_at: SystemTime,
    pub(crate) state: RunState,
    pub(crate) ended_at: Option<SystemTime>,
    pub(crate) outcome: Option<&'a StoredOutcome>,
    pub(crate) output: &'a [Value],
}

/// The response object of a run.
pub(crate) fn object(parts: Parts<'_>) -> Value {
    let Parts { id, spec, created_at, state, ended_at, outcome, output } = parts;
    let failed = (state == RunState::Failed).then(|| {
        let message = outcome.and_then(|outcome| outcome.message.as_deref()).unwrap_or("the run failed");
        json!({"code": "server_error", "message": message})
    });
    let incomplete = (state == RunState::Incomplete).then(|| {
        let reason = match outcome.map(|outcome| outcome.ended.as_str()) {
            Some("refused") => "content_filter",
            _ => "max_output_tokens",
        };
        json!({"reason": reason})
    });
    let request = &spec.options;
    let asked = |name: &str, default: Value| match spec.echo.get(name) {
        Some(value) if !value.is_null() => value.clone(),
        _ => default,
    };
    json!({
        "id": id.as_str(),
        "object": "response",
        "created_at": seconds(created_at),
        "completed_at": ended_at.filter(|_| state == RunState::Completed).map(seconds),
        "status": status(state),
        "background": spec.is_background,
        "conversation": spec.conversation.as_ref().map(|id| json!({"id": id.as_str()})),
        "error": failed,
        "incomplete_details": incomplete,
        "instructions": spec.instructions,
        "max_output_tokens": request.max_output_tokens,
        "max_tool_calls": spec.max_tool_calls,
        "metadata": spec.metadata,
        "model": spec.model,
        "output": output,
        "parallel_tool_calls": request.parallel_calls.unwrap_or(true),
        "previous_response_id": spec.previous.as_ref().map(RunId::as_str),
        "prompt_cache_key": request.cache_key,
        "reasoning": asked("reasoning", json!({"effort": null, "summary": null})),
        "safety_identifier": asked("safety_identifier", Value::Null),
        "service_tier": "default",
        "store": spec.is_stored,
        "temperature": request.temperature,
        "text": asked("text", json!({"format": {"type": "text"}})),
        "tool_choice": asked("tool_choice", json!("auto")),
        "tools": asked("tools", json!([])),
        "top_logprobs": 0,
        "top_p": request.top_p,
        "truncation": "disabled",
        "usage": outcome.map(|outcome| usage(&outcome.usage)),
        "user": asked("user", Value::Null),
        "coracle": outcome.filter(|_| state != RunState::Completed).map(|outcome| json!({
            "ended": outcome.ended, "message": outcome.message,
        })),
    })
}

/// The spec and the outcome of a stored run.
pub(crate) fn read(record: &RunRecord) -> Result<(RunSpec, Option<StoredOutcome>), serde_json::Error> {
    let spec = serde_json::from_value(record.request.clone())?;
    let outcome = record.outcome.clone().map(serde_json::from_value).transpose()?;
    Ok((spec, outcome))
}

fn status(state: RunState) -> &'static str {
    match state {
        RunState::Running => "in_progress",
        other => other.as_str(),
    }
}

pub(crate) fn usage(usage: &Usage) -> Value {
    json!({
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": usage.cache_write_tokens},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.input_tokens.saturating_add(usage.output_tokens),
    })
}

pub(crate) fn seconds(at: SystemTime) -> u64 {
    at.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_secs())
}
