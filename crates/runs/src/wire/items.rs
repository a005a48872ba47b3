//! Items as clients see them.

use crate::item::StoredItem;
use crate::surroundings::file_id;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use coracle_models::{Call, CallResult, Item, Part};
use coracle_store::ItemRecord;
use coracle_types::{ArtifactId, ItemId};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The tool that runs code.
const EXECUTE_CODE: &str = "execute_code";
/// The label of Coracle's own tools in `mcp_call` items.
const SERVER_LABEL: &str = "coracle";
/// The type of the error of a tool in `mcp_call` items.
const TOOL_ERROR: &str = "mcp_tool_execution_error";
/// Maximum length of the logs of one call, in bytes.
const MAX_LOG_BYTES: usize = 256 << 10;

/// Maximum size of the images of one run that are part of its items, in bytes. Others are links.
const MAX_IMAGE_BYTES: usize = 8 << 20;

/// Types and maximum size of the artifacts that a model sees as images.
const SHOWN_IMAGES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];
const MAX_SHOWN_IMAGE_BYTES: u64 = 1 << 20;

/// How much of the images of a run may still be part of its items.
#[derive(Debug)]
pub(crate) struct ImageRoom(usize);

impl Default for ImageRoom {
    fn default() -> Self {
        Self(MAX_IMAGE_BYTES)
    }
}

impl ImageRoom {
    fn take(&mut self, bytes: usize) -> bool {
        let left = self.0.checked_sub(bytes);
        self.0 = left.unwrap_or(self.0);
        left.is_some()
    }
}

/// The state of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    InProgress,
    Completed,
    Incomplete,
}

impl Status {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
            Self::Incomplete => "incomplete",
        }
    }
}

/// How a call is shown to clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// A function of the client.
    Function,
    /// Code, in any language unless it is shown as commands of a shell.
    Code,
    /// Commands of a shell.
    Shell,
    /// Another tool of the agent.
    Tool,
}

/// What belongs to all items of a response.
#[derive(Clone, Debug)]
pub(crate) struct Place<'a> {
    /// The container that code runs in.
    pub(crate) container: &'a str,
    /// The names of the client's functions.
    pub(crate) functions: &'a [String],
    /// Whether the client knows `shell_call`. Otherwise, it would take one for a call that it has to run itself.
    pub(crate) has_shell: bool,
}

impl Place<'_> {
    pub(crate) fn is_own(&self, call: &Call) -> bool {
        !self.functions.contains(&call.name)
    }

    /// How a call is shown.
    pub(crate) fn shown(&self, call: &Call) -> Shown {
        if !self.is_own(call) {
            return Shown::Function;
        }
        if call.name != EXECUTE_CODE {
            return Shown::Tool;
        }
        let language = argument(call, "language").unwrap_or_default();
        let is_shell = matches!(language.as_str(), "bash" | "sh" | "shell");
        if is_shell && self.has_shell { Shown::Shell } else { Shown::Code }
    }
}

/// The items of a conversation as clients see them. Calls of the agent's tools are one item with their results.
pub(crate) fn all(records: &[ItemRecord], place: &Place<'_>) -> Vec<Value> {
    let stored: Vec<(&ItemId, StoredItem)> =
        records.iter().filter_map(|record| Some((&record.id, StoredItem::of(record)?))).collect();
    let mut results: BTreeMap<&str, Vec<(&CallResult, Option<&Value>)>> = BTreeMap::new();
    for (_, item) in stored.iter().rev() {
        match item {
            StoredItem::Result { result, structured, .. } => {
                results.entry(&result.call_id).or_default().push((result, structured.as_ref()));
            }
            StoredItem::Item(Item::Result(result)) => {
                results.entry(&result.call_id).or_default().push((result, None));
            }
            StoredItem::Item(_) | StoredItem::Compaction(_) | StoredItem::Asked(_) | StoredItem::Answer(_) => {}
        }
    }
    let has_call =
        |call: &Call| stored.iter().any(|(_, item)| matches!(item, StoredItem::Item(Item::Call(c)) if c == call));
    let mut views = Vec::new();
    let mut artifacts = Vec::new();
    let mut images = ImageRoom::default();
    // Outputs of calls whose result has not come yet.
    let mut outputs: Vec<(&str, Value)> = Vec::new();
    for (id, item) in &stored {
        match item {
            StoredItem::Item(Item::Call(call)) if place.is_own(call) => {
                let result = results.get_mut(call.id.as_str()).and_then(Vec::pop);
                let status = if result.is_some() { Status::Completed } else { Status::Incomplete };
                artifacts.extend(result.and_then(|(_, structured)| structured).into_iter().flat_map(artifacts_of));
                let mut shown = own_call(id.as_str(), call, result, status, place, &mut images).into_iter();
                views.extend(shown.next());
                outputs.extend(shown.map(|output| (call.id.as_str(), output)));
            }
            StoredItem::Item(Item::Assistant { text, .. }) => {
                let annotations = citations(text, &std::mem::take(&mut artifacts), place.container);
                views.push(message(id.as_str(), text, &annotations, Status::Completed));
            }
            StoredItem::Item(item) => views.push(plain(id.as_str(), item)),
            // A call that an earlier run has parked.
            StoredItem::Result { result, structured, call: Some(call) } if !has_call(call) => {
                artifacts.extend(structured.iter().flat_map(artifacts_of));
                let shown = Some((result, structured.as_ref()));
                let id = id.as_str().replacen("res_", "call_", 1);
                views.extend(own_call(&id, call, shown, Status::Completed, place, &mut images));
            }
            // Shown with its call, unless the output has an item of its own.
            StoredItem::Result { result, .. } => {
                let place = outputs.iter().position(|(call, _)| *call == result.call_id);
                views.extend(place.map(|place| outputs.remove(place).1));
            }
            StoredItem::Compaction(items) => views.push(compaction(id.as_str(), items)),
            StoredItem::Asked(asked) => {
                views.push(approval_request(id.as_str(), &asked.server, &asked.tool, &asked.arguments));
            }
            StoredItem::Answer(answer) => views.push(json!({
                "type": "mcp_approval_response", "id": id.as_str(), "approval_request_id": answer.question,
                "approve": answer.approve, "reason": answer.reason,
            })),
        }
    }
    views.extend(outputs.into_iter().map(|(_, output)| output));
    views
}

/// A question whether a call may be made.
pub(crate) fn approval_request(id: &str, server: &str, tool: &str, arguments: &str) -> Value {
    json!({"type": "mcp_approval_request", "id": id, "server_label": server, "name": tool, "arguments": arguments})
}

/// An item that is shown as it is.
fn plain(id: &str, item: &Item) -> Value {
    match item {
        Item::System { text } => json!({
            "type": "message", "id": id, "role": "developer", "status": "completed",
            "content": [{"type": "input_text", "text": text}],
        }),
        Item::User { parts } => json!({
            "type": "message", "id": id, "role": "user", "status": "completed",
            "content": parts.iter().map(input_part).collect::<Vec<_>>(),
        }),
        Item::Assistant { text, .. } => message(id, text, &[], Status::Completed),
        Item::Reasoning { .. } => reasoning(id, item, Status::Completed),
        Item::Call(call) => function_call(id, call, Status::Completed),
        Item::Result(result) => json!({
            "type": "function_call_output", "id": id, "call_id": result.call_id, "status": "completed",
            "output": text_of(&result.parts),
        }),
    }
}

pub(crate) fn input_part(part: &Part) -> Value {
    match part {
        Part::Text { text } => json!({"type": "input_text", "text": text}),
        Part::Image { mime, data } => json!({
            "type": "input_image", "detail": "auto", "file_id": null, "image_url": format!("data:{mime};base64,{data}"),
        }),
        Part::ImageUrl { url } => {
            json!({"type": "input_image", "detail": "auto", "file_id": null, "image_url": url})
        }
    }
}

/// A message of the model.
pub(crate) fn message(id: &str, text: &str, annotations: &[Value], status: Status) -> Value {
    json!({
        "type": "message", "id": id, "role": "assistant", "status": status.as_str(),
        "content": [text_part(text, annotations)],
    })
}

pub(crate) fn text_part(text: &str, annotations: &[Value]) -> Value {
    json!({"type": "output_text", "text": text, "annotations": annotations, "logprobs": []})
}

/// Reasoning of the model. Clients without stored conversations send the opaque part back.
pub(crate) fn reasoning(id: &str, item: &Item, status: Status) -> Value {
    let (text, native) =
        if let Item::Reasoning { text, native } = item { (text.as_str(), native.as_ref()) } else { ("", None) };
    let summary = if text.is_empty() { json!([]) } else { json!([{"type": "summary_text", "text": text}]) };
    json!({
        "type": "reasoning", "id": id, "summary": summary, "status": status.as_str(),
        "encrypted_content": native.map(sealed),
    })
}

/// Data that clients send back unchanged. It is opaque, but not encrypted.
fn sealed(value: &impl serde::Serialize) -> String {
    // Serializing plain data cannot fail.
    STANDARD.encode(serde_json::to_vec(value).unwrap_or_default())
}

/// Reads what [`sealed`] wrote. The text comes from a client.
pub(crate) fn unsealed<T: serde::de::DeserializeOwned>(text: &str) -> Option<T> {
    serde_json::from_slice(&STANDARD.decode(text).ok()?).ok()
}

pub(crate) fn function_call(id: &str, call: &Call, status: Status) -> Value {
    json!({
        "type": "function_call", "id": id, "call_id": call.id, "name": call.name, "arguments": call.arguments,
        "status": status.as_str(),
    })
}

/// A call of one of the agent's tools, with its result if there is one.
pub(crate) fn own_call(
    id: &str,
    call: &Call,
    result: Option<(&CallResult, Option<&Value>)>,
    status: Status,
    place: &Place<'_>,
    images: &mut ImageRoom,
) -> Vec<Value> {
    match place.shown(call) {
        Shown::Code => vec![code_call(id, call, result, status, place.container, images)],
        Shown::Shell => {
            let structured = result.and_then(|(_, structured)| structured);
            let mut views = vec![shell_call(id, call, structured, status, place.container)];
            views.extend(result.map(|(result, structured)| shell_output(id, call, result, structured)));
            views
        }
        Shown::Tool | Shown::Function => vec![tool_call(id, call, result.map(|(result, _)| result), status)],
    }
}

fn code_call(
    id: &str,
    call: &Call,
    result: Option<(&CallResult, Option<&Value>)>,
    status: Status,
    container: &str,
    images: &mut ImageRoom,
) -> Value {
    let outputs = result.map(|(result, structured)| {
        let mut outputs = Vec::new();
        let logs = logs(result, structured);
        if !logs.is_empty() {
            outputs.push(json!({"type": "logs", "logs": logs}));
        }
        let mut links = structured.map(image_links).unwrap_or_default().into_iter();
        outputs.extend(result.parts.iter().filter_map(|part| match part {
            Part::Image { mime, data } => {
                let link = links.next();
                let url = if images.take(data.len()) { format!("data:{mime};base64,{data}") } else { link? };
                Some(json!({"type": "image", "url": url}))
            }
            Part::ImageUrl { url } => Some(json!({"type": "image", "url": url})),
            Part::Text { .. } => None,
        }));
        outputs
    });
    let failed = result.is_some_and(|(result, _)| result.is_error);
    json!({
        "type": "code_interpreter_call", "id": id, "container_id": container, "code": code_of(call),
        "outputs": outputs, "status": if failed { "failed" } else { status.as_str() },
        "execution_id": execution_of(result.and_then(|(_, structured)| structured)),
        "output_file": output_file(result.and_then(|(_, structured)| structured)),
    })
}

/// Path of the complete output for code, if the model got only a part of it.
fn output_file(structured: Option<&Value>) -> Option<&str> {
    structured?.get("output_file")?.as_str()
}

/// The ID of the execution that has this result.
fn execution_of(structured: Option<&Value>) -> Option<&str> {
    structured?.get("execution_id")?.as_str()
}

/// Links to the images of an execution, in the order in which they were sent to the model.
fn image_links(structured: &Value) -> Vec<String> {
    let artifacts = structured.get("artifacts").and_then(Value::as_array).into_iter().flatten();
    let images = artifacts.filter(|artifact| {
        let mime = artifact.get("mime").and_then(Value::as_str).unwrap_or_default();
        let bytes = artifact.get("bytes").and_then(Value::as_u64).unwrap_or(u64::MAX);
        SHOWN_IMAGES.contains(&mime) && bytes <= MAX_SHOWN_IMAGE_BYTES
    });
    let link = |artifact: &Value| {
        let id = artifact.get("id").and_then(Value::as_str);
        let version = artifact.get("version").and_then(Value::as_u64);
        match id.zip(version) {
            Some((id, version)) => format!("/api/artifacts/{id}/versions/{version}/content"),
            None => artifact.get("uri").and_then(Value::as_str).unwrap_or_default().to_owned(),
        }
    };
    images.map(link).collect()
}

/// The code of a call, in whatever language.
pub(crate) fn code_of(call: &Call) -> String {
    argument(call, "code").unwrap_or_else(|| call.arguments.clone())
}

fn shell_call(id: &str, call: &Call, structured: Option<&Value>, status: Status, container: &str) -> Value {
    json!({
        "type": "shell_call", "id": id, "call_id": call.id, "status": status.as_str(),
        "action": {"commands": [code_of(call)], "timeout_ms": null, "max_output_length": null},
        "environment": {"type": "container_reference", "container_id": container},
        "execution_id": execution_of(structured),
    })
}

/// The ID of the output of a call that has its own item.
pub(crate) fn output_id(call_id: &str) -> String {
    call_id.replacen("call_", "out_", 1)
}

fn shell_output(id: &str, call: &Call, result: &CallResult, structured: Option<&Value>) -> Value {
    let text = |name: &str| structured.and_then(|found| found.get(name)?.as_str()).map(cut).map(str::to_owned);
    let timed_out = structured.and_then(|found| found.get("error_code")?.as_str()) == Some("timeout");
    let exit_code = structured.and_then(|found| found.get("exit_code")?.as_i64());
    let outcome = if timed_out {
        json!({"type": "timeout"})
    } else {
        json!({"type": "exit", "exit_code": exit_code.unwrap_or(i64::from(result.is_error))})
    };
    let stdout = text("stdout").unwrap_or_else(|| text_of(&result.parts));
    json!({
        "type": "shell_call_output", "id": output_id(id), "call_id": call.id, "max_output_length": null,
        "status": "completed", "execution_id": execution_of(structured), "output_file": output_file(structured),
        "output": [{"stdout": stdout, "stderr": text("stderr").unwrap_or_default(), "outcome": outcome}],
    })
}

fn tool_call(id: &str, call: &Call, result: Option<&CallResult>, status: Status) -> Value {
    let text = result.map(|result| text_of(&result.parts));
    let failed = result.is_some_and(|result| result.is_error);
    let failure = |text| json!({"type": TOOL_ERROR, "content": [{"type": "text", "text": text}]});
    let (output, error) = if failed { (None, text.map(failure)) } else { (text, None) };
    json!({
        "type": "mcp_call", "id": id, "server_label": SERVER_LABEL, "name": call.name, "arguments": call.arguments,
        "output": output, "error": error, "approval_request_id": null,
        "status": if failed { "failed" } else { status.as_str() },
    })
}

pub(crate) fn compaction(id: &str, items: &[Item]) -> Value {
    json!({"type": "compaction", "id": id, "encrypted_content": sealed(&items)})
}

/// The output of code as a person reads it.
pub(crate) fn logs(result: &CallResult, structured: Option<&Value>) -> String {
    let Some(found) = structured else { return text_of(&result.parts) };
    let text = |name: &str| found.get(name).and_then(Value::as_str).unwrap_or_default();
    let mut logs = String::new();
    let value = found.get("result").filter(|value| !value.is_null());
    let value = value.map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned)).unwrap_or_default();
    for part in [text("stdout"), text("stderr"), &value, text("error"), text("traceback")] {
        if part.is_empty() {
            continue;
        }
        if !logs.is_empty() && !logs.ends_with('\n') {
            logs.push('\n');
        }
        logs.push_str(cut(part));
    }
    if logs.is_empty() { text_of(&result.parts) } else { cut(&logs).to_owned() }
}

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_LOG_BYTES)]
}

pub(crate) fn text_of(parts: &[Part]) -> String {
    let texts = parts.iter().filter_map(|part| if let Part::Text { text } = part { Some(text.as_str()) } else { None });
    texts.collect::<Vec<_>>().join("\n")
}

pub(crate) fn argument(call: &Call, name: &str) -> Option<String> {
    let arguments: Value = serde_json::from_str(&call.arguments).ok()?;
    arguments.get(name)?.as_str().map(str::to_owned)
}

/// A file that code left for its user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CitedFile {
    name: String,
    id: String,
}

/// The artifacts of an execution.
pub(crate) fn artifacts_of(structured: &Value) -> Vec<CitedFile> {
    let list = structured.get("artifacts").and_then(Value::as_array);
    let text = |artifact: &Value, name: &str| artifact.get(name).and_then(Value::as_str).map(str::to_owned);
    let artifact = |artifact: &Value| {
        let name = text(artifact, "name")?;
        let kept = text(artifact, "id").and_then(|id| ArtifactId::new(id).ok());
        let kept = kept.zip(artifact.get("version").and_then(Value::as_u64));
        let id = kept.map(|(id, version)| file_id(&id, version));
        let id = id.or_else(|| text(artifact, "uri")).unwrap_or_else(|| name.clone());
        Some(CitedFile { name, id })
    };
    list.into_iter().flatten().filter_map(artifact).collect()
}

/// Citations of files in a text. Files that the text does not name are cited at its end.
pub(crate) fn citations(text: &str, files: &[CitedFile], container: &str) -> Vec<Value> {
    let end = text.chars().count();
    let citation = |file: &CitedFile| {
        let place = text.find(&file.name).map(|place| text[..place].chars().count());
        let (start, end) = place.map_or((end, end), |start| (start, start + file.name.chars().count()));
        json!({
            "type": "container_file_citation", "container_id": container, "file_id": file.id, "filename": file.name,
            "start_index": start, "end_index": end,
        })
    };
    files.iter().map(citation).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_beyond_the_room_of_a_run_are_links() {
        let call = Call {
            id: "c".to_owned(),
            name: EXECUTE_CODE.to_owned(),
            arguments: json!({"code": "draw()"}).to_string(),
            native: None,
        };
        let part = |size: usize| Part::Image { mime: "image/png".to_owned(), data: "x".repeat(size) };
        let result = CallResult { call_id: "c".to_owned(), parts: vec![part(60), part(60), part(30)], is_error: false };
        let artifact =
            |number: u64| json!({"mime": "image/png", "bytes": 9, "id": format!("art-{number}"), "version": 1});
        let text = json!({"mime": "text/plain", "bytes": 9, "id": "art-0", "version": 1});
        let structured = json!({"artifacts": [text, artifact(1), artifact(2), artifact(3)], "stdout": "drawn"});
        let mut room = ImageRoom(100);
        let shown = Some((&result, Some(&structured)));
        let place = Place { container: "cntr_1", functions: &[], has_shell: false };
        let views = own_call("call_1", &call, shown, Status::Completed, &place, &mut room);
        let urls: Vec<&str> =
            views[0]["outputs"].as_array().unwrap().iter().filter_map(|o| o["url"].as_str()).collect();
        assert_eq!((urls.len(), urls[1]), (3, "/api/artifacts/art-2/versions/1/content"));
        assert!(urls[0].starts_with("data:image/png;base64,xx") && urls[2].starts_with("data:"), "{urls:?}");
        assert_eq!(room.0, 10);
    }
}
