//! The order of messages and blocks that Messages accepts.

use serde_json::Value;

use crate::conversation::{Item, content_text};
use crate::fault::Fault;
use crate::seal;

/// Checks the messages, and turns them into items.
pub(super) fn items(messages: &[Value]) -> Result<Vec<Item>, Fault> {
    let mut items = Vec::new();
    // The calls of the message before this one, and its number.
    let mut calls: (Vec<String>, usize) = (Vec::new(), 0);
    for (number, message) in messages.iter().enumerate() {
        let path = format!("messages.{number}");
        let role = message.get("role").and_then(Value::as_str).ok_or_else(|| required(&format!("{path}.role")))?;
        let content = message.get("content").ok_or_else(|| required(&format!("{path}.content")))?;
        let blocks = blocks(content, &path)?;
        match role {
            "user" => user(&blocks, &path, &calls, &mut items)?,
            "assistant" if number == 0 => {
                return Err(Fault::invalid("messages: first message must use the \"user\" role"));
            }
            "assistant" => {
                without_result(&calls)?;
                calls = (assistant(&blocks, &path, &mut items)?, number);
                continue;
            }
            "system" => {
                return Err(Fault::invalid(
                    "messages: Unexpected role \"system\". The Messages API accepts a top-level `system` parameter, \
                     not \"system\" as an input message role.",
                ));
            }
            other => {
                return Err(Fault::invalid(format!(
                    "messages: Unexpected role \"{other}\". Allowed roles are \"user\" or \"assistant\"."
                )));
            }
        }
        calls.0.clear();
    }
    without_result(&calls)?;
    if messages.last().and_then(|message| message.get("role")).and_then(Value::as_str) == Some("assistant") {
        return Err(Fault::invalid(
            "This model does not support assistant message prefill. The conversation must end with a user message.",
        ));
    }
    Ok(items)
}

fn required(field: &str) -> Fault {
    Fault::invalid(format!("{field}: Field required"))
}

fn without_result((ids, number): &(Vec<String>, usize)) -> Result<(), Fault> {
    if ids.is_empty() {
        return Ok(());
    }
    Err(Fault::invalid(format!(
        "messages.{number}: `tool_use` ids were found without `tool_result` blocks immediately after: {}. Each \
         `tool_use` block must have a corresponding `tool_result` block in the next message.",
        ids.join(", ")
    )))
}

/// The blocks of a content. A string is one block of text.
fn blocks(content: &Value, path: &str) -> Result<Vec<Value>, Fault> {
    match content {
        Value::String(text) => Ok(vec![serde_json::json!({"type": "text", "text": text})]),
        Value::Array(blocks) => Ok(blocks.clone()),
        _ => Err(Fault::invalid(format!("{path}.content: Input should be a valid string or list"))),
    }
}

fn field<'a>(block: &'a Value, path: &str, name: &str) -> Result<&'a str, Fault> {
    let kind = block.get("type").and_then(Value::as_str).unwrap_or_default();
    block.get(name).and_then(Value::as_str).ok_or_else(|| required(&format!("{path}.{kind}.{name}")))
}

fn user(blocks: &[Value], path: &str, calls: &(Vec<String>, usize), items: &mut Vec<Item>) -> Result<(), Fault> {
    let mut waiting = calls.0.clone();
    let mut text = None::<String>;
    for (number, block) in blocks.iter().enumerate() {
        let path = format!("{path}.content.{number}");
        match block.get("type").and_then(Value::as_str) {
            Some("tool_result") => {
                let id = field(block, &path, "tool_use_id")?;
                let position = waiting.iter().position(|waiting| waiting == id).filter(|_| text.is_none());
                let Some(position) = position else {
                    return Err(match calls.0.iter().any(|call| call == id) {
                        true if text.is_some() => without_result(calls).err().unwrap_or_else(|| Fault::invalid(path)),
                        true => Fault::invalid(format!(
                            "{path}: each tool_use must have a single result. Found multiple `tool_result` blocks with \
                             id: {id}"
                        )),
                        false => Fault::invalid(format!(
                            "{path}: unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each `tool_result` \
                             block must have a corresponding `tool_use` block in the previous message."
                        )),
                    });
                };
                waiting.remove(position);
                items.push(Item::Result(block.get("content").map(content_text).unwrap_or_default()));
            }
            Some("text") => {
                let piece = field(block, &path, "text")?;
                if piece.is_empty() {
                    return Err(Fault::invalid("messages: text content blocks must be non-empty"));
                }
                let text = text.get_or_insert_default();
                if !text.is_empty() {
                    text.push('\n');
                }
                text.push_str(piece);
            }
            Some("image" | "document" | "search_result" | "container_upload") => drop(text.get_or_insert_default()),
            Some(other) => return Err(unexpected(&path, other)),
            None => return Err(required(&format!("{path}.type"))),
        }
    }
    without_result(&(waiting, calls.1))?;
    items.extend(text.map(Item::User));
    Ok(())
}

fn assistant(blocks: &[Value], path: &str, items: &mut Vec<Item>) -> Result<Vec<String>, Fault> {
    let mut calls = Vec::new();
    if blocks.is_empty() {
        return Err(Fault::invalid(format!(
            "{path}: all messages must have non-empty content except for the optional final assistant message"
        )));
    }
    for (number, block) in blocks.iter().enumerate() {
        let path = format!("{path}.content.{number}");
        items.push(match block.get("type").and_then(Value::as_str) {
            Some("text") if field(block, &path, "text")?.is_empty() => {
                return Err(Fault::invalid("messages: text content blocks must be non-empty"));
            }
            Some("text") => Item::Said,
            Some("thinking") => {
                let thinking = field(block, &path, "thinking")?;
                let signed = seal::open(field(block, &path, "signature")?);
                if signed.as_deref() != Some(thinking) {
                    return Err(Fault::invalid(format!("{path}: Invalid `signature` in `thinking` block")));
                }
                Item::Reasoned
            }
            Some("redacted_thinking") => {
                if seal::open(field(block, &path, "data")?).is_none() {
                    return Err(Fault::invalid(format!("{path}: Invalid `data` in `redacted_thinking` block")));
                }
                Item::Reasoned
            }
            Some("tool_use") => {
                let id = field(block, &path, "id")?.to_owned();
                if id.is_empty() || !id.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-') {
                    return Err(Fault::invalid(format!(
                        "{path}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
                    )));
                }
                if calls.contains(&id) {
                    return Err(Fault::invalid("messages: `tool_use` ids must be unique"));
                }
                if !block.get("input").is_some_and(Value::is_object) {
                    return Err(Fault::invalid(format!("{path}.tool_use.input: Input should be a valid dictionary")));
                }
                let name = field(block, &path, "name")?.to_owned();
                calls.push(id.clone());
                Item::Called { id, name, is_signed: false }
            }
            Some(other) => return Err(unexpected(&path, other)),
            None => return Err(required(&format!("{path}.type"))),
        });
    }
    Ok(calls)
}

fn unexpected(path: &str, kind: &str) -> Fault {
    Fault::invalid(format!("{path}: Input tag '{kind}' found using 'type' does not match any of the expected tags"))
}
