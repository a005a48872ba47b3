//! Writes a conversation as input items.

use crate::conversation::{
    Call, CallResult, Effort, Item, ModelRequest, Native, Part, ResponseFormat, ToolChoice, ToolDefinition,
};
use serde_json::{Map, Value, json};

/// The body of a request. Maps are sorted, so equal beginnings of conversations give equal bytes.
pub(super) fn body(request: &ModelRequest, origin: &str) -> Value {
    let mut body = json!({
        "model": request.model,
        "input": request.items.iter().filter_map(|item| written(item, origin)).collect::<Vec<_>>(),
        "stream": true,
        "store": false,
        "include": ["reasoning.encrypted_content"],
    });
    let mut set = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            body[name] = value;
        }
    };
    set("instructions", (!request.instructions.is_empty()).then(|| request.instructions.as_str().into()));
    set("max_output_tokens", request.max_output_tokens.map(Value::from));
    set("temperature", request.temperature.map(Value::from));
    set("top_p", request.top_p.map(Value::from));
    set("reasoning", request.effort.map(reasoning));
    set("text", request.format.as_ref().map(|form| json!({"format": format(form)})));
    set("prompt_cache_key", request.cache_key.as_deref().map(Value::from));
    if !request.tools.is_empty() {
        set("tools", Some(request.tools.iter().map(tool).collect()));
        set("tool_choice", tool_choice(&request.tool_choice));
        set("parallel_tool_calls", request.parallel_calls.map(Value::from));
    }
    body
}

/// Models without reasoning reject this, so it is only sent if an effort is asked for.
fn reasoning(effort: Effort) -> Value {
    match effort {
        Effort::None => json!({"effort": effort.name()}),
        _ => json!({"effort": effort.name(), "summary": "auto"}),
    }
}

fn tool(tool: &ToolDefinition) -> Value {
    json!({
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        // Without this field, the schema would have to be a strict one.
        "strict": tool.strict.unwrap_or(false),
    })
}

fn tool_choice(choice: &ToolChoice) -> Option<Value> {
    match choice {
        ToolChoice::Auto => None,
        ToolChoice::None => Some("none".into()),
        ToolChoice::Required => Some("required".into()),
        ToolChoice::Tool(name) => Some(json!({"type": "function", "name": name})),
    }
}

fn format(format: &ResponseFormat) -> Value {
    match format {
        ResponseFormat::JsonObject => json!({"type": "json_object"}),
        ResponseFormat::JsonSchema { name, schema, strict } => {
            let mut written = json!({"type": "json_schema", "name": name, "schema": schema});
            if let Some(strict) = strict {
                written["strict"] = (*strict).into();
            }
            written
        }
    }
}

fn written(item: &Item, origin: &str) -> Option<Value> {
    match item {
        Item::System { text } => {
            Some(json!({"type": "message", "role": "system", "content": [{"type": "input_text", "text": text}]}))
        }
        Item::User { parts } => Some(json!({"type": "message", "role": "user", "content": content(parts)})),
        Item::Assistant { text, native } => match Native::of(native.as_ref(), origin) {
            Some(item) => Some(item.clone()),
            None if text.is_empty() => None,
            // A list of parts would need the ID that a server gave the message.
            None => Some(json!({"type": "message", "role": "assistant", "content": text})),
        },
        Item::Reasoning { native, .. } => {
            Native::of(native.as_ref(), origin).filter(|item| is_self_contained(item)).cloned()
        }
        Item::Call(call) => Some(written_call(call, origin)),
        Item::Result(result) => Some(written_result(result)),
    }
}

/// Reasoning without content refers to what the server stored, and it stored nothing.
fn is_self_contained(item: &Value) -> bool {
    let has = |name: &str| match item.get(name) {
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Array(parts)) => !parts.is_empty(),
        _ => false,
    };
    item.get("type").and_then(Value::as_str) != Some("reasoning") || has("encrypted_content") || has("content")
}

fn written_call(call: &Call, origin: &str) -> Value {
    let mut written = match Native::of(call.native.as_ref(), origin) {
        Some(Value::Object(fields)) => fields.clone(),
        _ => Map::new(),
    };
    written.insert("type".to_owned(), "function_call".into());
    written.insert("call_id".to_owned(), call.id.as_str().into());
    written.insert("name".to_owned(), call.name.as_str().into());
    written.insert("arguments".to_owned(), call.arguments.as_str().into());
    written.into()
}

fn written_result(result: &CallResult) -> Value {
    let mut texts = Vec::new();
    for part in &result.parts {
        if let Part::Text { text } = part {
            texts.push(text.as_str());
        }
    }
    let output = if texts.len() == result.parts.len() { texts.concat().into() } else { content(&result.parts) };
    json!({"type": "function_call_output", "call_id": result.call_id, "output": output})
}

fn content(parts: &[Part]) -> Value {
    parts.iter().map(written_part).collect()
}

fn written_part(part: &Part) -> Value {
    let image = |url: &str| json!({"type": "input_image", "detail": "auto", "image_url": url});
    match part {
        Part::Text { text } => json!({"type": "input_text", "text": text}),
        Part::Image { mime, data } => image(&format!("data:{mime};base64,{data}")),
        Part::ImageUrl { url } => image(url),
    }
}

#[cfg(test)]
mod tests;
