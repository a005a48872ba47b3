//! Writes a conversation as messages with blocks.

use super::generation::{Model, Reasoning};
use crate::conversation::{
    Call, CallResult, Effort, Item, ModelRequest, Native, Part, ResponseFormat, ToolChoice, ToolDefinition,
};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use std::fmt::Write as _;

/// The limit on output tokens, which the format demands, if the request has none. The smallest limit of a model since
/// Claude 4.
const DEFAULT_MAX_TOKENS: u64 = 32_000;
/// The smallest budget for reasoning that the API accepts.
const MIN_BUDGET: u64 = 1_024;
/// Number of user messages with a cache mark: the last, and the last of the request before, whose cache is read.
const MARKED_MESSAGES: usize = 2;
/// Media types of images that the API accepts. With any other, it rejects the whole conversation.
const IMAGE_TYPES: [&str; 4] = ["image/gif", "image/jpeg", "image/png", "image/webp"];
/// The field of an input that carries arguments which are not a JSON object. The API only accepts objects.
const RAW_ARGUMENTS: &str = "raw_arguments";
/// The format has no mode for arbitrary JSON.
const JSON_OBJECT: &str = "Answer with one JSON object and nothing else: no other text and no Markdown.";

/// The body of a request. Maps are sorted, so equal beginnings of conversations give equal bytes, apart from the cache
/// marks. This matters for more than the cache: newer models reject their own signed reasoning if anything before it has
/// changed.
#[derive(Debug, Serialize)]
pub(super) struct Body {
    messages: Vec<Message>,
    #[serde(flatten)]
    fields: Map<String, Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Role {
    User,
    Assistant,
}

#[derive(Debug, Serialize)]
struct Message {
    content: Vec<Block>,
    role: Role,
    /// Number of blocks at the beginning that are results of tools.
    #[serde(skip)]
    results: usize,
}

#[derive(Debug, Default, Serialize)]
struct Block {
    #[serde(flatten)]
    fields: Map<String, Value>,
    /// The arguments of a call, in the order of the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<Box<RawValue>>,
}

pub(super) fn body(request: &ModelRequest, origin: &str) -> Body {
    let model = Model::named(&request.model);
    let max_tokens = request.max_output_tokens.unwrap_or(DEFAULT_MAX_TOKENS);
    let mut messages = messages(request, origin);
    let mut system = system(request);
    let mut tools: Vec<Value> = request.tools.iter().map(tool).collect();
    if let Some(last) = system.last_mut().or(tools.last_mut()) {
        last["cache_control"] = cache_mark();
    }
    let users = messages.iter_mut().rev().filter(|message| message.role == Role::User);
    for block in users.take(MARKED_MESSAGES).filter_map(|message| message.content.last_mut()) {
        block.fields.insert("cache_control".to_owned(), cache_mark());
    }

    let (thinking, effort) = reasoning(request, model, max_tokens, &messages);
    let mut output = Map::new();
    if let Some(effort) = effort {
        output.insert("effort".to_owned(), effort.into());
    }
    if let Some(ResponseFormat::JsonSchema { schema, .. }) = &request.format {
        output.insert("format".to_owned(), json!({"type": "json_schema", "schema": closed(schema)}));
    }

    let mut fields = Map::new();
    let mut set = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            fields.insert(name.to_owned(), value);
        }
    };
    set("model", Some(request.model.as_str().into()));
    set("max_tokens", Some(max_tokens.into()));
    set("stream", Some(true.into()));
    set("system", (!system.is_empty()).then(|| system.into()));
    set("stop_sequences", (!request.stop.is_empty()).then(|| json!(request.stop)));
    // A model that reasons takes no temperature.
    if model.takes_sampling() && thinking.as_ref().is_none_or(|thinking| thinking["type"] == "disabled") {
        let temperature = request.temperature.map(|temperature| temperature.min(1.0));
        set("temperature", temperature.map(Value::from));
        if temperature.is_none() || model.takes_both_samplings() {
            set("top_p", request.top_p.map(Value::from));
        }
    }
    set("thinking", thinking);
    set("output_config", (!output.is_empty()).then(|| output.into()));
    if !tools.is_empty() {
        set("tools", Some(tools.into()));
        set("tool_choice", tool_choice(request));
    }
    Body { messages, fields }
}

fn cache_mark() -> Value {
    json!({"type": "ephemeral"})
}

fn system(request: &ModelRequest) -> Vec<Value> {
    let json = matches!(request.format, Some(ResponseFormat::JsonObject)).then_some(JSON_OBJECT);
    let texts = [Some(request.instructions.as_str()), json].into_iter().flatten();
    texts.filter(|text| !text.trim().is_empty()).map(|text| json!({"type": "text", "text": text})).collect()
}

/// How much the model reasons: the field `thinking`, and the level of effort for models that take it.
///
/// Models that reason by effort are asked for summaries of what they think, which newer ones otherwise leave out, along
/// with their remarks between calls. A call cannot be forced of a model that is told to reason.
fn reasoning(
    request: &ModelRequest,
    model: Model,
    max_tokens: u64,
    messages: &[Message],
) -> (Option<Value>, Option<&'static str>) {
    let is_forced =
        !request.tools.is_empty() && matches!(request.tool_choice, ToolChoice::Required | ToolChoice::Tool(_));
    let off = model.off().map(|kind| json!({"type": kind}));
    match (model.reasoning(), request.effort) {
        (Reasoning::Absent, _) | (Reasoning::Budget, None) => (None, None),
        (_, Some(Effort::None)) if off.is_some() || !model.reasons_by_default() => (off, None),
        (Reasoning::Budget, Some(effort)) => {
            let budget = budget(effort).min(max_tokens / 4 * 3);
            let is_possible = budget >= MIN_BUDGET && !is_forced && !continues_without_reasoning(messages);
            (is_possible.then(|| json!({"type": "enabled", "budget_tokens": budget})), None)
        }
        (Reasoning::Effort, effort) => {
            let is_on = effort.is_some() || model.reasons_by_default();
            let thinking = (is_on && !is_forced).then(|| json!({"type": "adaptive", "display": "summarized"}));
            (thinking, effort.map(|effort| level(effort, model)))
        }
    }
}

fn budget(effort: Effort) -> u64 {
    match effort {
        Effort::None | Effort::Minimal => MIN_BUDGET,
        Effort::Low => 4_096,
        Effort::Medium => 8_192,
        Effort::High => 16_384,
        Effort::ExtraHigh => 24_000,
        Effort::Max => 32_000,
    }
}

fn level(effort: Effort, model: Model) -> &'static str {
    match effort {
        Effort::None | Effort::Minimal | Effort::Low => "low",
        Effort::Medium => "medium",
        Effort::High => "high",
        Effort::ExtraHigh => model.highest_effort(),
        Effort::Max => "max",
    }
}

/// Whether the model goes on after calls that it made without reasoning, for example as another model. With a budget,
/// the API then demands reasoning before the calls.
fn continues_without_reasoning(messages: &[Message]) -> bool {
    let [.., calls, results] = messages else { return false };
    let first = calls.content.first().and_then(|block| block.fields.get("type"));
    results.results > 0 && !first.is_some_and(|kind| *kind == "thinking" || *kind == "redacted_thinking")
}

fn tool(tool: &ToolDefinition) -> Value {
    let mut schema = tool.parameters.clone();
    schema.entry("type").or_insert_with(|| "object".into());
    let mut written = json!({"name": tool.name, "description": tool.description, "input_schema": schema});
    if tool.strict == Some(true) {
        written["strict"] = true.into();
    }
    written
}

fn tool_choice(request: &ModelRequest) -> Option<Value> {
    let is_serial = request.parallel_calls == Some(false);
    let mut choice = match &request.tool_choice {
        ToolChoice::Auto if !is_serial => return None,
        ToolChoice::Auto => json!({"type": "auto"}),
        ToolChoice::None => return Some(json!({"type": "none"})),
        ToolChoice::Required => json!({"type": "any"}),
        ToolChoice::Tool(name) => json!({"type": "tool", "name": name}),
    };
    if is_serial {
        choice["disable_parallel_tool_use"] = true.into();
    }
    Some(choice)
}

/// The schema with objects that allow no other properties, which the API demands.
fn closed(schema: &Value) -> Value {
    let Value::Object(fields) = schema else { return schema.clone() };
    let mut fields = fields.clone();
    for (name, value) in &mut fields {
        match (name.as_str(), value) {
            ("properties" | "$defs" | "definitions", Value::Object(schemas)) => {
                for schema in schemas.values_mut() {
                    *schema = closed(schema);
                }
            }
            ("anyOf" | "allOf" | "oneOf" | "prefixItems", Value::Array(schemas)) => {
                for schema in schemas {
                    *schema = closed(schema);
                }
            }
            ("items", schema) => *schema = closed(schema),
            _ => {}
        }
    }
    if fields.get("type").is_some_and(|kind| *kind == "object") {
        fields.entry("additionalProperties").or_insert(Value::Bool(false));
    }
    fields.into()
}

fn messages(request: &ModelRequest, origin: &str) -> Vec<Message> {
    let mut messages = Messages { origin, done: Vec::new() };
    for item in &request.items {
        messages.add(item);
    }
    messages.done
}

/// Messages that are being written. Adjacent items of one role are one message.
struct Messages<'a> {
    origin: &'a str,
    done: Vec<Message>,
}

impl Messages<'_> {
    fn add(&mut self, item: &Item) {
        match item {
            Item::System { text } if !text.trim().is_empty() => {
                let text = format!("<system_instruction>\n{text}\n</system_instruction>");
                self.push(Role::User, text_block(&text));
            }
            Item::User { parts } => {
                for part in parts {
                    self.part(part);
                }
            }
            Item::Assistant { text, native } if !text.trim().is_empty() => {
                let mut block = self.known_fields(native.as_ref());
                block.extend([("type".to_owned(), "text".into()), ("text".to_owned(), text.as_str().into())]);
                self.push(Role::Assistant, block);
            }
            Item::Reasoning { native, .. } => {
                let block = self.known_fields(native.as_ref());
                if block.contains_key("type") {
                    self.push(Role::Assistant, block);
                }
            }
            Item::Call(call) => self.call(call),
            Item::Result(result) => self.result(result),
            // The API rejects blocks without text.
            Item::System { .. } | Item::Assistant { .. } => {}
        }
    }

    /// What this provider sent along with an item.
    fn known_fields(&self, native: Option<&Native>) -> Map<String, Value> {
        match Native::of(native, self.origin) {
            Some(Value::Object(fields)) => fields.clone(),
            _ => Map::new(),
        }
    }

    fn push(&mut self, role: Role, fields: Map<String, Value>) {
        self.message(role).content.push(Block { fields, input: None });
    }

    /// The message that a block of this role belongs to.
    fn message(&mut self, role: Role) -> &mut Message {
        // Conversations begin with the user.
        if self.done.is_empty() && role == Role::Assistant {
            self.push(Role::User, text_block("[The beginning of the conversation is omitted.]"));
        }
        if self.done.last().is_none_or(|last| last.role != role) {
            self.done.push(Message { role, content: Vec::new(), results: 0 });
        }
        let last = self.done.len() - 1;
        &mut self.done[last]
    }

    fn part(&mut self, part: &Part) {
        if let Some(block) = written_part(part) {
            self.push(Role::User, block);
        }
    }

    fn call(&mut self, call: &Call) {
        let mut fields = self.known_fields(call.native.as_ref());
        fields.insert("type".to_owned(), "tool_use".into());
        fields.insert("id".to_owned(), written_id(&call.id).into());
        fields.insert("name".to_owned(), call.name.as_str().into());
        fields.remove("input");
        let input = input(&call.arguments);
        if input.is_none() {
            let raw = if call.arguments.trim().is_empty() { json!({}) } else { json!({RAW_ARGUMENTS: call.arguments}) };
            fields.insert("input".to_owned(), raw);
        }
        self.message(Role::Assistant).content.push(Block { fields, input });
    }

    /// Results come first in a message. A failed call may only have text.
    fn result(&mut self, result: &CallResult) {
        let (content, apart): (Vec<&Part>, Vec<&Part>) =
            result.parts.iter().partition(|part| !result.is_error || matches!(part, Part::Text { .. }));
        let mut content: Vec<Value> = content.into_iter().filter_map(written_part).map(Value::from).collect();
        if result.is_error && content.is_empty() {
            content.push(text_block("The call failed.").into());
        }
        let Value::Object(mut fields) = json!({"type": "tool_result", "tool_use_id": written_id(&result.call_id)})
        else {
            return;
        };
        if !content.is_empty() {
            fields.insert("content".to_owned(), content.into());
        }
        if result.is_error {
            fields.insert("is_error".to_owned(), true.into());
        }
        let message = self.message(Role::User);
        message.content.insert(message.results, Block { fields, input: None });
        message.results += 1;
        for part in apart {
            self.part(part);
        }
    }
}

/// The arguments as the model wrote them, if they are an object.
fn input(arguments: &str) -> Option<Box<RawValue>> {
    serde_json::from_str::<Map<String, Value>>(arguments).ok()?;
    RawValue::from_string(arguments.to_owned()).ok()
}

/// The ID of a call with only the characters that the API accepts, because it may come from another provider.
fn written_id(id: &str) -> String {
    let mut written = String::new();
    for c in id.chars() {
        match c {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '-' => written.push(c),
            c => {
                let _ = write!(written, "_{:x}", u32::from(c));
            }
        }
    }
    written
}

fn text_block(text: &str) -> Map<String, Value> {
    Map::from_iter([("type".to_owned(), "text".into()), ("text".to_owned(), text.into())])
}

/// A part of a message, unless it is empty.
fn written_part(part: &Part) -> Option<Map<String, Value>> {
    let source = match part {
        Part::Text { text } => return (!text.trim().is_empty()).then(|| text_block(text)),
        Part::Image { mime, data } => image_source(mime, data),
        Part::ImageUrl { url } => match url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,")) {
            Some((mime, data)) => image_source(mime, data),
            None => Ok(json!({"type": "url", "url": url})),
        },
    };
    Some(match source {
        Ok(source) => Map::from_iter([("type".to_owned(), "image".into()), ("source".to_owned(), source)]),
        Err(text) => text_block(&text),
    })
}

/// The source of an image, or a text in its place.
fn image_source(mime: &str, data: &str) -> Result<Value, String> {
    let mime = mime.trim().to_lowercase();
    let mime = if mime == "image/jpg" { "image/jpeg" } else { &mime };
    if IMAGE_TYPES.contains(&mime) {
        Ok(json!({"type": "base64", "media_type": mime, "data": data}))
    } else {
        Err(format!("[An image is omitted: its type, {mime}, is not supported.]"))
    }
}

#[cfg(test)]
mod tests;
