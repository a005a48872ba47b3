//! The order of messages that Chat Completions accepts.

use serde_json::Value;

use crate::conversation::{Item, content_text};
use crate::fault::Fault;
use crate::seal;

/// Calls that have no result yet, and the message that made them.
struct Waiting {
    ids: Vec<String>,
    message: usize,
}

/// Checks the messages, and turns them into items.
pub(super) fn items(messages: &[Value]) -> Result<Vec<Item>, Fault> {
    let mut items = Vec::new();
    let mut waiting = Waiting { ids: Vec::new(), message: 0 };
    let mut accepts_results = false;
    for (number, message) in messages.iter().enumerate() {
        let param = format!("messages[{number}]");
        let role =
            message.get("role").and_then(Value::as_str).ok_or_else(|| Fault::missing(&format!("{param}.role")))?;
        if role != "tool" {
            none_waits(&waiting)?;
            accepts_results = false;
        }
        match role {
            "system" | "developer" => {
                content(message, &param)?;
                items.push(Item::System);
            }
            "user" => items.push(Item::User(content(message, &param)?)),
            "assistant" => {
                let calls = calls(message, &param)?;
                waiting = Waiting { ids: calls.iter().filter_map(call_id).collect(), message: number };
                accepts_results = !calls.is_empty();
                if message.get("content").is_some_and(|content| !content_text(content).is_empty()) || calls.is_empty() {
                    if calls.is_empty() {
                        content(message, &param)?;
                    }
                    items.push(Item::Said);
                }
                items.extend(calls);
            }
            "tool" => {
                let id = message.get("tool_call_id").and_then(Value::as_str);
                let id = id.ok_or_else(|| Fault::missing(&format!("{param}.tool_call_id")))?;
                let position = waiting.ids.iter().position(|waiting| waiting == id);
                match position {
                    Some(position) => drop(waiting.ids.remove(position)),
                    None => return Err(without_call(number, accepts_results, id)),
                }
                items.push(Item::Result(content(message, &param)?));
            }
            other => {
                return Err(Fault::invalid(format!(
                    "Invalid value: '{other}'. Supported values are: 'system', 'assistant', 'user', 'function', \
                     'tool', and 'developer'."
                ))
                .param(format!("{param}.role"))
                .code("invalid_value"));
            }
        }
    }
    none_waits(&waiting)?;
    Ok(items)
}

fn call_id(item: &Item) -> Option<String> {
    if let Item::Called { id, .. } = item { Some(id.clone()) } else { None }
}

fn without_call(number: usize, accepts_results: bool, id: &str) -> Fault {
    let message = if accepts_results {
        format!("Invalid parameter: 'tool_call_id' of '{id}' not found in 'tool_calls' of previous message.")
    } else {
        "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
            .to_owned()
    };
    Fault::invalid(message).param(format!("messages.[{number}].role"))
}

fn none_waits(waiting: &Waiting) -> Result<(), Fault> {
    if waiting.ids.is_empty() {
        return Ok(());
    }
    Err(Fault::invalid(format!(
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. \
         The following tool_call_ids did not have response messages: {}",
        waiting.ids.join(", ")
    ))
    .param(format!("messages.[{}].role", waiting.message)))
}

fn content(message: &Value, param: &str) -> Result<String, Fault> {
    let param = format!("{param}.content");
    match message.get("content") {
        None => Err(Fault::missing(&param)),
        Some(Value::Null) => {
            Err(Fault::wrong_type(&param, "one of a string or array of objects, but got null instead"))
        }
        Some(Value::String(text)) => Ok(text.clone()),
        Some(content @ Value::Array(parts)) => {
            for (number, part) in parts.iter().enumerate() {
                part.get("type")
                    .and_then(Value::as_str)
                    .ok_or_else(|| Fault::missing(&format!("{param}[{number}].type")))?;
            }
            Ok(content_text(content))
        }
        Some(_) => Err(Fault::wrong_type(&param, "one of a string or array of objects")),
    }
}

fn calls(message: &Value, param: &str) -> Result<Vec<Item>, Fault> {
    let Some(calls) = message.get("tool_calls").filter(|calls| !calls.is_null()) else { return Ok(Vec::new()) };
    let param = format!("{param}.tool_calls");
    let Some(calls) = calls.as_array() else { return Err(Fault::wrong_type(&param, "an array of objects")) };
    if calls.is_empty() {
        return Err(Fault::invalid(format!(
            "Invalid '{param}': empty array. Expected an array with minimum length 1, but got an empty array instead."
        ))
        .param(param)
        .code("empty_array"));
    }
    calls
        .iter()
        .enumerate()
        .map(|(number, call)| {
            let text = |pointer: &str| {
                let path = format!("{param}[{number}]{}", pointer.replace('/', "."));
                call.pointer(pointer).and_then(Value::as_str).map(str::to_owned).ok_or_else(|| Fault::missing(&path))
            };
            text("/type")?;
            text("/function/arguments")?;
            let name = text("/function/name")?;
            let signature = call.pointer("/extra_content/google/thought_signature").and_then(Value::as_str);
            let is_signed = signature.and_then(seal::open).is_some_and(|signed| signed == name);
            Ok(Item::Called { id: text("/id")?, name, is_signed })
        })
        .collect()
}
