//! Reads the input of a run: items as clients of the Responses API write them.

use crate::error::RunError;
use crate::wire::items::unsealed;
use coracle_models::{Call, CallResult, Item, Native, Part};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of items in one request.
const MAX_INPUT_ITEMS: usize = 10_000;
/// Maximum length of an ID of a client that an error repeats, in characters.
const MAX_SHOWN_ID: usize = 80;
/// Media types of images.
const IMAGE_TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// Items that an input refers to, by their IDs.
pub(crate) type Referenced = BTreeMap<String, Vec<Item>>;

/// What an input may contain.
#[derive(Clone, Copy, Debug, Default)]
pub struct InputOptions {
    /// Whether images may be given by an address, which the provider fetches.
    pub allows_image_urls: bool,
}

/// Reads an input: a text, or a list of items, of which some may be references to known ones.
pub(crate) fn read_with(input: &Value, options: InputOptions, known: &Referenced) -> Result<Vec<Item>, RunError> {
    match input {
        Value::String(text) if !text.is_empty() => Ok(vec![Item::User { parts: vec![Part::text(text)] }]),
        Value::Array(items) if items.len() <= MAX_INPUT_ITEMS => {
            let (mut read, mut references) = (Vec::with_capacity(items.len()), BTreeSet::new());
            for (place, item) in items.iter().enumerate() {
                let items = match item.get("type").and_then(Value::as_str) {
                    Some("item_reference") => referenced(item, known, &mut references),
                    _ => read_item(item, options),
                };
                let invalid = |message| RunError::invalid("input", format!("input[{place}]: {message}"));
                read.extend(items.map_err(invalid)?);
            }
            Ok(read)
        }
        Value::Array(_) => Err(RunError::invalid("input", format!("more than {MAX_INPUT_ITEMS} items"))),
        _ => Err(RunError::invalid("input", "must be a text that is not empty, or a list of items")),
    }
}

/// The items that a reference stands for. Clients refer to a call and to its result, which may be the same item.
fn referenced<'a>(item: &'a Value, known: &Referenced, seen: &mut BTreeSet<&'a str>) -> Result<Vec<Item>, String> {
    let id = item.get("id").and_then(Value::as_str).ok_or("`id` is missing")?;
    let items = known.get(id).ok_or_else(|| {
        let id: String = id.chars().take(MAX_SHOWN_ID).collect();
        format!("item `{id}` not found: items of responses with `store: false` are not kept, so send them in full")
    })?;
    Ok(if seen.insert(id) { items.clone() } else { Vec::new() })
}

/// The items of the conversation that an item of the input stands for.
fn read_item(item: &Value, options: InputOptions) -> Result<Vec<Item>, String> {
    let text = |name: &str| item.get(name).and_then(Value::as_str);
    let required = |name: &str| text(name).map(str::to_owned).ok_or_else(|| format!("`{name}` is missing"));
    let kind = text("type").unwrap_or("message");
    Ok(match kind {
        "message" => vec![message(item, options)?],
        "function_call" => vec![Item::Call(Call {
            id: required("call_id")?,
            name: required("name")?,
            arguments: text("arguments").unwrap_or("{}").to_owned(),
            native: None,
        })],
        "function_call_output" => {
            let parts = parts(item.get("output"), options)?;
            vec![Item::Result(CallResult { call_id: required("call_id")?, parts, is_error: false })]
        }
        "reasoning" => {
            let native: Option<Native> = text("encrypted_content").and_then(unsealed);
            let summary = item.get("summary").and_then(Value::as_array).cloned().unwrap_or_default();
            let texts = summary.iter().filter_map(|part| part.get("text")?.as_str());
            vec![Item::Reasoning { text: texts.collect::<Vec<_>>().join("\n"), native }]
        }
        "compaction" => {
            let content = text("encrypted_content").and_then(unsealed::<Vec<Item>>);
            content.ok_or("the compaction was not made by this server")?
        }
        // Items of earlier responses, which clients without stored conversations send back.
        "code_interpreter_call" => {
            let code = text("code").unwrap_or_default();
            executed(&required("id")?, &json!({ "code": code }), &outputs(item))
        }
        "shell_call" => {
            let commands = item.pointer("/action/commands").and_then(Value::as_array).cloned().unwrap_or_default();
            let code = commands.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("\n");
            let arguments = json!({"code": code, "language": "bash"}).to_string();
            vec![Item::Call(Call {
                id: required("call_id")?,
                name: "execute_code".to_owned(),
                arguments,
                native: None,
            })]
        }
        "shell_call_output" => {
            let output = item.get("output").map(Value::to_string).unwrap_or_default();
            let parts = vec![Part::text(output)];
            vec![Item::Result(CallResult { call_id: required("call_id")?, parts, is_error: false })]
        }
        "mcp_call" => {
            let id = required("id")?;
            let error = item.get("error").filter(|error| !error.is_null()).map(failure);
            let call = Call {
                id: id.clone(),
                name: required("name")?,
                arguments: text("arguments").unwrap_or("{}").to_owned(),
                native: None,
            };
            let is_error = error.is_some();
            let parts = vec![Part::text(error.as_deref().or(text("output")).unwrap_or_default())];
            let result = CallResult { call_id: id, parts, is_error };
            vec![Item::Call(call), Item::Result(result)]
        }
        "mcp_list_tools" | "mcp_approval_request" => Vec::new(),
        "mcp_approval_response" => return Err("approvals are answered in `POST /v1/responses` only".to_owned()),
        other => return Err(format!("items of type `{}` are not supported", head(other))),
    })
}

fn executed(id: &str, arguments: &Value, output: &str) -> Vec<Item> {
    let call =
        Call { id: id.to_owned(), name: "execute_code".to_owned(), arguments: arguments.to_string(), native: None };
    let result = CallResult { call_id: id.to_owned(), parts: vec![Part::text(output)], is_error: false };
    vec![Item::Call(call), Item::Result(result)]
}

/// The text of the error of an `mcp_call`: a text, an object with a message, or one with the content that the tool sent.
fn failure(error: &Value) -> String {
    let content = error.get("content").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let texts: Vec<&str> = content.iter().filter_map(|part| part.get("text")?.as_str()).collect();
    match error.as_str().or_else(|| error.get("message")?.as_str()) {
        Some(text) => text.to_owned(),
        None if texts.is_empty() => error.to_string(),
        None => texts.join("\n"),
    }
}

/// The logs of a code interpreter call.
fn outputs(item: &Value) -> String {
    let outputs = item.get("outputs").and_then(Value::as_array).cloned().unwrap_or_default();
    outputs.iter().filter_map(|output| output.get("logs")?.as_str()).collect::<Vec<_>>().join("\n")
}

fn message(item: &Value, options: InputOptions) -> Result<Item, String> {
    let role = item.get("role").and_then(Value::as_str).ok_or("`role` is missing")?;
    let content = parts(item.get("content"), options)?;
    let text = || {
        let texts = content.iter().map(|part| match part {
            Part::Text { text } => Ok(text.as_str()),
            Part::Image { .. } | Part::ImageUrl { .. } => Err(format!("a message of `{role}` can only have text")),
        });
        Ok::<_, String>(texts.collect::<Result<Vec<_>, _>>()?.concat())
    };
    match role {
        "user" if content.is_empty() => Err("the message is empty".to_owned()),
        "user" => Ok(Item::User { parts: content }),
        "system" | "developer" => Ok(Item::System { text: text()? }),
        "assistant" => Ok(Item::Assistant { text: text()?, native: None }),
        other => Err(format!("unknown role `{}`", head(other))),
    }
}

fn parts(content: Option<&Value>, options: InputOptions) -> Result<Vec<Part>, String> {
    match content {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::String(text)) => Ok(vec![Part::text(text)]),
        Some(Value::Array(parts)) => parts.iter().map(|part_| part(part_, options)).collect(),
        Some(_) => Err("must be a text or a list of parts".to_owned()),
    }
}

fn part(part: &Value, options: InputOptions) -> Result<Part, String> {
    let text = |name: &str| part.get(name).and_then(Value::as_str);
    match text("type") {
        Some("input_text" | "output_text" | "text") => Ok(Part::text(text("text").unwrap_or_default())),
        Some("refusal") => Ok(Part::text(text("refusal").unwrap_or_default())),
        Some("input_image") => image(text("image_url").unwrap_or_default(), options),
        Some(other) => Err(format!("content parts of type `{}` are not supported", head(other))),
        None => Err("a content part has no `type`".to_owned()),
    }
}

fn image(url: &str, options: InputOptions) -> Result<Part, String> {
    if let Some((mime, data)) = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,")) {
        if !IMAGE_TYPES.contains(&mime) {
            return Err(format!("images must be of one of these types: {}", IMAGE_TYPES.join(", ")));
        }
        return Ok(Part::Image { mime: mime.to_owned(), data: data.to_owned() });
    }
    if !url.starts_with("https://") && !url.starts_with("http://") {
        return Err("`image_url` must be a data URL with base64, or an https URL".to_owned());
    }
    if !options.allows_image_urls {
        let message = "image addresses are not allowed on this server: send the image as a data URL with base64";
        return Err(message.to_owned());
    }
    Ok(Part::ImageUrl { url: url.to_owned() })
}

/// The beginning of a text of a client, for an error.
fn head(text: &str) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(input: &Value) -> Result<Vec<Item>, String> {
        read_with(input, InputOptions::default(), &Referenced::new()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_text_is_a_message_of_the_user() {
        assert_eq!(read(&json!("Hello")).unwrap(), [Item::User { parts: vec![Part::text("Hello")] }]);
        assert!(read(&json!("")).is_err());
    }

    #[test]
    fn items_are_read_and_unknown_ones_are_refused() {
        let items = read(&json!([
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": [{"type": "input_text", "text": "Weather?"}]},
            {"type": "function_call", "call_id": "c1", "name": "get_weather", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "sunny"},
            {"type": "code_interpreter_call", "id": "ci_1", "code": "1", "outputs": [{"type": "logs", "logs": "1"}]},
        ]));
        assert_eq!(items.unwrap().len(), 6);
        for error in [
            json!("no"),
            json!({"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": "no"}]}),
            json!({"type": "mcp_protocol_error", "code": -32603, "message": "no"}),
        ] {
            let call = json!([{"type": "mcp_call", "id": "m1", "name": "f", "arguments": "{}", "error": error}]);
            let failed = CallResult { call_id: "m1".to_owned(), parts: vec![Part::text("no")], is_error: true };
            assert_eq!(read(&call).unwrap()[1], Item::Result(failed));
        }
        for (input, reason) in [
            (json!([{"type": "web_search_call"}]), "input[0]: items of type `web_search_call` are not supported"),
            (json!([{"role": "user", "content": []}]), "the message is empty"),
            (json!([{"role": "king", "content": "x"}]), "unknown role"),
            (json!([{"type": "function_call_output", "output": "x"}]), "`call_id` is missing"),
            (json!([{"type": "compaction", "encrypted_content": "x"}]), "not made by this server"),
            (
                json!([{"role": "user", "content": [{"type": "input_image", "image_url": "http://h/i.png"}]}]),
                "not allowed",
            ),
            (json!({}), "must be a text"),
        ] {
            let error = read(&input).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn images_by_address_need_permission() {
        let input = json!([{"role": "user", "content": [{"type": "input_image", "image_url": "https://h/i.png"}]}]);
        let items = read_with(&input, InputOptions { allows_image_urls: true }, &Referenced::new()).unwrap();
        assert_eq!(items, [Item::User { parts: vec![Part::ImageUrl { url: "https://h/i.png".to_owned() }] }]);
    }
}
