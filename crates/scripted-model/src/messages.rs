//! Anthropic Messages: what requests must look like.

mod answer;
mod history;

use std::collections::BTreeSet;

use serde_json::Value;

pub(crate) use answer::MessagesEncoder;

use crate::conversation::{Choice, Conversation, Format, Tool, Wire};
use crate::fault::Fault;
use crate::select::Missing;
use crate::tokens::Prompt;

/// Longest name of a tool.
const MAX_NAME: usize = 128;

/// Checks a request.
pub(crate) fn parse(request: Value) -> Result<Conversation, Fault> {
    let model = match request.get("model") {
        Some(Value::String(model)) if !model.is_empty() => model.clone(),
        None => return Err(required("model")),
        Some(Value::String(_)) => return Err(Fault::invalid("model: String should have at least 1 character")),
        Some(_) => return Err(Fault::invalid("model: Input should be a valid string")),
    };
    match request.get("max_tokens") {
        None => return Err(required("max_tokens")),
        Some(Value::Number(number)) if number.as_u64().is_some_and(|number| number > 0) => {}
        Some(Value::Number(_)) => return Err(Fault::invalid("max_tokens: must be greater than or equal to 1")),
        Some(_) => return Err(Fault::invalid("max_tokens: Input should be a valid integer")),
    }
    let messages = match request.get("messages") {
        None => return Err(required("messages")),
        Some(Value::Array(messages)) if messages.is_empty() => {
            return Err(Fault::invalid("messages: at least one message is required"));
        }
        Some(Value::Array(messages)) => messages,
        Some(_) => return Err(Fault::invalid("messages: Input should be a valid list")),
    };
    let tools = tools(&request)?;
    let choice = choice(&request, &tools)?;
    let items = history::items(messages)?;
    let format = match request.pointer("/output_config/format").filter(|format| !format.is_null()) {
        Some(format) => {
            Format::Schema(format.get("schema").cloned().ok_or_else(|| required("output_config.format.schema"))?)
        }
        None => Format::Text,
    };
    let stream = request.get("stream").and_then(Value::as_bool).unwrap_or(false);
    let prompt = prompt(&request, messages);
    Ok(Conversation {
        wire: Wire::Messages,
        model,
        items,
        tools,
        choice,
        format,
        stream,
        include_usage: true,
        include_encrypted: false,
        cache_key: None,
        prompt,
        request,
    })
}

/// The error for thinking that the script has sent and that did not come back.
pub(crate) fn missing_fault(_missing: &Missing) -> Fault {
    Fault::invalid(
        "messages: Expected `thinking` or `redacted_thinking`, but found `tool_use`. When `thinking` is enabled, a \
         final `assistant` message must start with a thinking block (preceeding the lastmost set of `tool_use` and \
         `tool_result` blocks).",
    )
}

fn required(field: &str) -> Fault {
    Fault::invalid(format!("{field}: Field required"))
}

fn tools(request: &Value) -> Result<Vec<Tool>, Fault> {
    let Some(tools) = request.get("tools") else { return Ok(Vec::new()) };
    let Some(tools) = tools.as_array() else { return Err(Fault::invalid("tools: Input should be a valid list")) };
    let mut names = BTreeSet::new();
    let mut functions = Vec::new();
    for (number, tool) in tools.iter().enumerate() {
        let Some(name) = tool.get("name").and_then(Value::as_str) else {
            return Err(required(&format!("tools.{number}.name")));
        };
        let is_valid = (1..=MAX_NAME).contains(&name.len())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
        if !is_valid {
            return Err(Fault::invalid(format!(
                "tools.{number}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
            )));
        }
        if !names.insert(name) {
            return Err(Fault::invalid("tools: Tool names must be unique."));
        }
        let is_custom = tool.get("type").is_none_or(|kind| kind.is_null() || kind == "custom");
        if is_custom {
            let schema =
                tool.get("input_schema").ok_or_else(|| required(&format!("tools.{number}.custom.input_schema")))?;
            if schema.get("type").and_then(Value::as_str) != Some("object") {
                return Err(Fault::invalid(format!(
                    "tools.{number}.custom.input_schema.type: Input should be 'object'"
                )));
            }
            functions.push(Tool { name: name.to_owned(), parameters: schema.clone() });
        }
    }
    Ok(functions)
}

fn choice(request: &Value, tools: &[Tool]) -> Result<Choice, Fault> {
    let Some(choice) = request.get("tool_choice").filter(|choice| !choice.is_null()) else { return Ok(Choice::Auto) };
    if tools.is_empty() && request.get("tools").is_none() {
        return Err(Fault::invalid("tool_choice: tool_choice may only be specified while providing tools."));
    }
    match choice.get("type").and_then(Value::as_str) {
        Some("auto") => Ok(Choice::Auto),
        Some("none") => Ok(Choice::None),
        Some("any") => Ok(Choice::Required),
        Some("tool") => {
            let name = choice.get("name").and_then(Value::as_str).ok_or_else(|| required("tool_choice.tool.name"))?;
            if !tools.iter().any(|tool| tool.name == name) {
                return Err(Fault::invalid(format!("tool_choice.name: Tool '{name}' not found in provided tools")));
            }
            Ok(Choice::Named(name.to_owned()))
        }
        _ => Err(Fault::invalid(
            "tool_choice: Input tag does not match any of the expected tags: 'any', 'auto', 'none', 'tool'",
        )),
    }
}

/// What the model reads. Only what comes before the last `cache_control` can be cached, and moving the mark does not
/// change what is read.
fn prompt(request: &Value, messages: &[Value]) -> Prompt {
    let mut prompt = Prompt::default();
    let blocks = |field: &str| match request.get(field) {
        Some(Value::Array(blocks)) => blocks.clone(),
        Some(Value::Null) | None => Vec::new(),
        Some(other) => vec![other.clone()],
    };
    let mut parts = blocks("tools");
    parts.extend(blocks("system"));
    for message in messages {
        parts.push(message.get("role").cloned().unwrap_or_default());
        match message.get("content") {
            Some(Value::Array(blocks)) => parts.extend(blocks.iter().cloned()),
            Some(text) => parts.push(serde_json::json!({"type": "text", "text": text})),
            None => {}
        }
    }
    for mut part in parts {
        let mark = part.as_object_mut().and_then(|part| part.remove("cache_control"));
        prompt.add(&part);
        if mark.is_some_and(|mark| !mark.is_null()) {
            prompt.mark_cacheable();
        }
    }
    if request.get("cache_control").is_some_and(|mark| !mark.is_null()) {
        prompt.mark_cacheable();
    }
    prompt
}
