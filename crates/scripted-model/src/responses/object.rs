//! The response object, and the items in it.

use serde_json::{Map, Value, json};

use crate::output::{Output, Part, Usage};
use crate::script::FinishReason;

/// The parts of a response that do not change while it is played.
pub(super) struct Template {
    pub(super) nonce: String,
    pub(super) created: u64,
    pub(super) include_encrypted: bool,
    pub(super) request: Value,
}

impl Template {
    /// The response so far.
    pub(super) fn response(&self, output: &Output, status: &str) -> Value {
        let (reason, usage) = match output.finish {
            Some((reason, usage)) => (Some(reason), usage_figures(usage)),
            None => (None, Value::Null),
        };
        let incomplete = match reason {
            Some(FinishReason::Length) => json!({"reason": "max_output_tokens"}),
            Some(FinishReason::ContentFilter) => json!({"reason": "content_filter"}),
            _ => Value::Null,
        };
        let items: Vec<Value> = match status {
            "in_progress" => Vec::new(),
            _ => (0..output.parts.len()).filter_map(|part| self.item(output, part, "completed")).collect(),
        };
        let error = output
            .fault
            .as_ref()
            .map(|fault| json!({"code": fault.code.as_deref().unwrap_or("server_error"), "message": fault.message}));
        let mut response = json!({
            "id": format!("resp_{}", self.nonce),
            "object": "response",
            "created_at": self.created,
            "completed_at": (status == "completed").then_some(self.created),
            "status": status,
            "error": error,
            "incomplete_details": incomplete,
            "output": items,
            "usage": usage,
        });
        if let Some(fields) = response.as_object_mut() {
            self.add_settings(fields);
        }
        response
    }

    /// The settings of the request, which a response repeats with the defaults filled in.
    fn add_settings(&self, response: &mut Map<String, Value>) {
        let defaults = json!({
            "background": false,
            "frequency_penalty": 0.0,
            "instructions": null,
            "max_output_tokens": null,
            "max_tool_calls": null,
            "metadata": {},
            "model": null,
            "parallel_tool_calls": true,
            "presence_penalty": 0.0,
            "previous_response_id": null,
            "prompt_cache_key": null,
            "reasoning": {"effort": null, "summary": null},
            "safety_identifier": null,
            "service_tier": "default",
            "store": true,
            "temperature": 1.0,
            "text": {"format": {"type": "text"}},
            "tool_choice": "auto",
            "tools": [],
            "top_logprobs": 0,
            "top_p": 1.0,
            "truncation": "disabled",
            "user": null,
        });
        let Value::Object(defaults) = defaults else { return };
        for (name, default) in defaults {
            let given = self.request.get(&name).filter(|value| !value.is_null()).cloned();
            let value = match (name.as_str(), given) {
                ("tools", Some(Value::Array(tools))) => tools.into_iter().map(full_tool).collect(),
                ("text", Some(mut text)) => {
                    if text.get("format").is_none_or(Value::is_null) {
                        text["format"] = json!({"type": "text"});
                    }
                    text
                }
                ("service_tier", _) | (_, None) => default,
                (_, Some(given)) => given,
            };
            response.insert(name, value);
        }
    }

    /// One item of the output.
    pub(super) fn item(&self, output: &Output, index: usize, status: &str) -> Option<Value> {
        let is_done = status == "completed";
        Some(match output.parts.get(index)? {
            Part::Reasoning { text, sealed, is_encrypted, .. } => {
                let summary = if is_done && !text.is_empty() { json!([summary(text)]) } else { json!([]) };
                let mut item = json!({"id": self.item_id("rs", index), "type": "reasoning", "summary": summary});
                if *is_encrypted && self.include_encrypted && is_done {
                    item["encrypted_content"] = sealed.clone().into();
                }
                item
            }
            Part::Text(text) => {
                let content = if is_done { json!([text_part(text)]) } else { json!([]) };
                json!({
                    "id": self.item_id("msg", index),
                    "type": "message",
                    "status": status,
                    "role": "assistant",
                    "content": content,
                })
            }
            Part::Call { start, arguments } => json!({
                "id": self.item_id("fc", index),
                "type": "function_call",
                "status": status,
                "call_id": start.id,
                "name": start.name,
                "arguments": if is_done { arguments } else { "" },
            }),
        })
    }

    pub(super) fn item_id(&self, prefix: &str, index: usize) -> String {
        format!("{prefix}_{}{index:02}", self.nonce)
    }
}

pub(super) fn text_part(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []})
}

pub(super) fn summary(text: &str) -> Value {
    json!({"type": "summary_text", "text": text})
}

fn full_tool(mut tool: Value) -> Value {
    if tool.get("type").and_then(Value::as_str) == Some("function") {
        for (field, default) in [("description", Value::Null), ("parameters", json!({})), ("strict", json!(true))] {
            if tool.get(field).is_none() {
                tool[field] = default;
            }
        }
    }
    tool
}

fn usage_figures(usage: Usage) -> Value {
    json!({
        "input_tokens": usage.input,
        "input_tokens_details": {"cached_tokens": usage.cached, "cache_write_tokens": usage.written},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.input + usage.output,
    })
}
