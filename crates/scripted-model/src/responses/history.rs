//! The order of items that Responses accepts.

use serde_json::Value;

use crate::conversation::{Item, content_text};
use crate::fault::Fault;
use crate::seal;

/// Checks the input, and turns it into items.
pub(super) fn items(input: &[Value], is_stored: bool) -> Result<Vec<Item>, Fault> {
    let mut items = Vec::new();
    let mut called: Vec<String> = Vec::new();
    let mut waiting: Vec<String> = Vec::new();
    let mut reasoning: Option<String> = None;
    for (number, value) in input.iter().enumerate() {
        let param = format!("input[{number}]");
        let text = |field: &str| {
            let found = value.get(field).and_then(Value::as_str).map(str::to_owned);
            found.ok_or_else(|| Fault::missing(&format!("{param}.{field}")))
        };
        let kind = value.get("type").and_then(Value::as_str).unwrap_or("message");
        let item = match kind {
            "message" => message(value, &param)?,
            "reasoning" => {
                let id = text("id")?;
                check_reasoning(value, &id, &param, is_stored)?;
                reasoning = Some(id);
                items.push(Item::Reasoned);
                continue;
            }
            "function_call" => {
                text("arguments")?;
                let id = text("call_id")?;
                called.push(id.clone());
                waiting.push(id.clone());
                Item::Called { id, name: text("name")?, is_signed: false }
            }
            "function_call_output" => {
                let id = text("call_id")?;
                if !called.contains(&id) {
                    return Err(Fault::invalid(format!(
                        "No tool call found for function call output with call_id {id}."
                    ))
                    .param("input"));
                }
                waiting.retain(|waiting| *waiting != id);
                let output = value.get("output").ok_or_else(|| Fault::missing(&format!("{param}.output")))?;
                Item::Result(content_text(output))
            }
            "item_reference" => return Err(not_found(&text("id")?, is_stored)),
            _ if kind.ends_with("_output") => Item::Result(String::new()),
            _ if kind.ends_with("_call") => Item::Said,
            other => {
                return Err(Fault::invalid(format!("Invalid value: '{other}'."))
                    .param(format!("{param}.type"))
                    .code("invalid_value"));
            }
        };
        if let Some(id) = reasoning.take().filter(|_| !item.is_of_model()) {
            return Err(without_follower(&id));
        }
        items.push(item);
    }
    if let Some(id) = reasoning {
        return Err(without_follower(&id));
    }
    match waiting.first() {
        Some(id) => Err(Fault::invalid(format!("No tool output found for function call {id}.")).param("input")),
        None => Ok(items),
    }
}

fn without_follower(id: &str) -> Fault {
    Fault::invalid(format!("Item '{id}' of type 'reasoning' was provided without its required following item."))
        .param("input")
}

fn not_found(id: &str, is_stored: bool) -> Fault {
    let hint = if is_stored {
        ""
    } else {
        " Items are not persisted when `store` is set to false. Try again with `store` set to true, or remove this \
         item from your input."
    };
    Fault::invalid(format!("Item with id '{id}' not found.{hint}")).param("input").status(404)
}

fn check_reasoning(value: &Value, id: &str, param: &str, is_stored: bool) -> Result<(), Fault> {
    if value.get("summary").and_then(Value::as_array).is_none() {
        return Err(Fault::missing(&format!("{param}.summary")));
    }
    match value.get("encrypted_content") {
        Some(Value::String(sealed)) if seal::open(sealed).is_none() => Err(Fault::invalid(format!(
            "The encrypted content for item {id} could not be verified. Reason: Encrypted content could not be \
             decrypted or parsed."
        ))
        .code("invalid_encrypted_content")),
        None | Some(Value::Null) if !is_stored => Err(not_found(id, is_stored)),
        _ => Ok(()),
    }
}

fn message(value: &Value, param: &str) -> Result<Item, Fault> {
    let role = value.get("role").and_then(Value::as_str).ok_or_else(|| Fault::missing(&format!("{param}.role")))?;
    let content = value.get("content").ok_or_else(|| Fault::missing(&format!("{param}.content")))?;
    let kinds: &[&str] = match role {
        "user" | "system" | "developer" => &["input_text", "input_image", "input_file", "input_audio"],
        "assistant" => &["output_text", "refusal"],
        other => {
            return Err(Fault::invalid(format!(
                "Invalid value: '{other}'. Supported values are: 'assistant', 'system', 'developer', and 'user'."
            ))
            .param(format!("{param}.role"))
            .code("invalid_value"));
        }
    };
    match content {
        Value::String(_) => {}
        Value::Array(parts) => {
            for (number, part) in parts.iter().enumerate() {
                let kind = part.get("type").and_then(Value::as_str).unwrap_or("null");
                if !kinds.contains(&kind) {
                    let supported: Vec<String> = kinds.iter().map(|kind| format!("'{kind}'")).collect();
                    return Err(Fault::invalid(format!(
                        "Invalid value: '{kind}'. Supported values are: {}.",
                        supported.join(", ")
                    ))
                    .param(format!("{param}.content[{number}]"))
                    .code("invalid_value"));
                }
            }
        }
        _ => return Err(Fault::wrong_type(&format!("{param}.content"), "one of a string or array of objects")),
    }
    Ok(match role {
        "user" => Item::User(content_text(content)),
        "assistant" => Item::Said,
        _ => Item::System,
    })
}
