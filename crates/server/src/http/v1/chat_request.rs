//! Reads the body of a chat completion.

use super::error::OpenAiError;
use coracle_models::{Call, CallResult, Effort, Item, ModelRequest, Part, ResponseFormat, ToolChoice, ToolDefinition};
use coracle_types::Mode;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// Maximum number of messages in a request.
const MAX_MESSAGES: usize = 10_000;
/// Maximum number of tools in a request.
const MAX_TOOLS: usize = 512;
/// Maximum number of stop texts.
const MAX_STOPS: usize = 16;

/// Body of a chat completion. Fields that are not listed have no effect.
#[derive(Debug, Deserialize)]
pub(super) struct ChatRequest {
    #[serde(default)]
    pub(super) model: Option<String>,
    messages: Vec<Message>,
    #[serde(default)]
    pub(super) stream: Option<bool>,
    #[serde(default)]
    stream_options: Option<StreamOptions>,
    #[serde(default)]
    n: Option<u64>,
    #[serde(default)]
    tools: Option<Vec<Tool>>,
    #[serde(default)]
    tool_choice: Option<Value>,
    #[serde(default)]
    parallel_tool_calls: Option<bool>,
    #[serde(default)]
    max_tokens: Option<u64>,
    #[serde(default)]
    max_completion_tokens: Option<u64>,
    #[serde(default)]
    temperature: Option<f64>,
    #[serde(default)]
    top_p: Option<f64>,
    #[serde(default)]
    stop: Option<OneOrMany>,
    #[serde(default)]
    reasoning_effort: Option<Effort>,
    #[serde(default)]
    response_format: Option<Value>,
    #[serde(default)]
    prompt_cache_key: Option<String>,
    /// Coracle's own options.
    #[serde(default)]
    pub(super) coracle: Extension,
}

/// Options that only Coracle has.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Extension {
    /// Where the client sees what the agent does.
    #[serde(default)]
    pub(super) activity: Activity,
    /// Whether code changes something, or its effects are collected as plans that a person approves.
    #[serde(default)]
    pub(super) mode: Mode,
}

/// Where a client sees the code that the agent runs, and its output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Activity {
    /// Nowhere.
    #[default]
    None,
    /// In `reasoning_content`.
    Reasoning,
    /// In the text.
    Text,
}

#[derive(Debug, Deserialize)]
struct StreamOptions {
    #[serde(default)]
    include_usage: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

#[derive(Debug, Deserialize)]
struct Tool {
    #[serde(rename = "type", default)]
    kind: Option<String>,
    #[serde(default)]
    function: Option<Function>,
}

#[derive(Debug, Deserialize)]
struct Function {
    name: String,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    parameters: Option<Map<String, Value>>,
    #[serde(default)]
    strict: Option<bool>,
}

#[derive(Debug, Deserialize)]
struct Message {
    role: String,
    #[serde(default)]
    content: Option<Value>,
    #[serde(default)]
    tool_calls: Option<Vec<ToolCall>>,
    #[serde(default)]
    tool_call_id: Option<String>,
}

#[derive(Debug, Deserialize)]
struct ToolCall {
    id: String,
    function: CalledFunction,
}

#[derive(Debug, Deserialize)]
struct CalledFunction {
    name: String,
    #[serde(default)]
    arguments: String,
}

impl ChatRequest {
    /// The contents of all messages.
    pub(super) fn contents(&mut self) -> Vec<&mut Value> {
        self.messages.iter_mut().filter_map(|message| message.content.as_mut()).collect()
    }

    /// Whether a streamed answer ends with its usage.
    pub(super) fn includes_usage(&self) -> bool {
        self.stream_options.as_ref().and_then(|options| options.include_usage).unwrap_or_default()
    }

    /// The conversation and options for a model. Its name is not set.
    pub(super) fn into_model_request(self, allows_image_urls: bool) -> Result<ModelRequest, OpenAiError> {
        if self.n.is_some_and(|n| n != 1) {
            return Err(OpenAiError::parameter("n", "only one choice is supported"));
        }
        if self.messages.is_empty() || self.messages.len() > MAX_MESSAGES {
            return Err(OpenAiError::parameter("messages", format!("must have from 1 to {MAX_MESSAGES} messages")));
        }
        let mut reader = Reader { allows_image_urls, ..Reader::default() };
        for (place, message) in self.messages.into_iter().enumerate() {
            reader.add(message).map_err(|error| error.in_message(place))?;
        }
        if let Some(id) = reader.open.first() {
            let message = format!("the tool call `{id}` has no result: a message with role `tool` must follow");
            return Err(OpenAiError::parameter("messages", message));
        }
        let stop = match self.stop {
            None => Vec::new(),
            Some(OneOrMany::One(text)) => vec![text],
            Some(OneOrMany::Many(texts)) if texts.len() <= MAX_STOPS => texts,
            Some(OneOrMany::Many(_)) => {
                return Err(OpenAiError::parameter("stop", format!("more than {MAX_STOPS} texts")));
            }
        };
        let tools = tools(self.tools.unwrap_or_default())?;
        Ok(ModelRequest {
            model: String::new(),
            instructions: reader.instructions,
            items: reader.items,
            tool_choice: tool_choice(self.tool_choice, &tools)?,
            tools,
            parallel_calls: self.parallel_tool_calls,
            max_output_tokens: self.max_completion_tokens.or(self.max_tokens),
            temperature: self.temperature,
            top_p: self.top_p,
            stop,
            effort: self.reasoning_effort,
            format: self.response_format.as_ref().map(format).transpose()?.flatten(),
            cache_key: self.prompt_cache_key,
        })
    }
}

/// Reads messages one after the other.
#[derive(Default)]
struct Reader {
    allows_image_urls: bool,
    /// System messages at the beginning.
    instructions: String,
    items: Vec<Item>,
    /// Calls without a result.
    open: BTreeSet<String>,
}

impl Reader {
    fn add(&mut self, message: Message) -> Result<(), OpenAiError> {
        if message.role != "tool"
            && let Some(id) = self.open.first()
        {
            return Err(OpenAiError::invalid(format!("the tool call `{id}` must have its result first")));
        }
        match message.role.as_str() {
            "system" | "developer" => {
                let text = text_only(message.content)?;
                if self.items.is_empty() {
                    if !self.instructions.is_empty() {
                        self.instructions.push_str("\n\n");
                    }
                    self.instructions.push_str(&text);
                } else {
                    self.items.push(Item::System { text });
                }
            }
            "user" => {
                let parts = self.parts(message.content)?;
                if parts.is_empty() {
                    return Err(OpenAiError::invalid("the message is empty"));
                }
                self.items.push(Item::User { parts });
            }
            "assistant" => {
                let text = text_only(message.content)?;
                if !text.is_empty() {
                    self.items.push(Item::Assistant { text, native: None });
                }
                for call in message.tool_calls.unwrap_or_default() {
                    if !self.open.insert(call.id.clone()) {
                        return Err(OpenAiError::invalid(format!("two tool calls have the ID `{}`", call.id)));
                    }
                    let CalledFunction { name, arguments } = call.function;
                    self.items.push(Item::Call(Call { id: call.id, name, arguments, native: None }));
                }
            }
            "tool" => {
                let call_id = message.tool_call_id.ok_or_else(|| OpenAiError::invalid("`tool_call_id` is missing"))?;
                if !self.open.remove(&call_id) {
                    return Err(OpenAiError::invalid(format!(
                        "`{call_id}` is not a tool call that waits for a result"
                    )));
                }
                let parts = self.parts(message.content)?;
                self.items.push(Item::Result(CallResult { call_id, parts, is_error: false }));
            }
            role => {
                return Err(OpenAiError::invalid(format!(
                    "unknown role `{}`",
                    role.chars().take(40).collect::<String>()
                )));
            }
        }
        Ok(())
    }

    fn parts(&self, content: Option<Value>) -> Result<Vec<Part>, OpenAiError> {
        match content {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(Value::String(text)) => Ok(vec![Part::Text { text }]),
            Some(Value::Array(parts)) => parts.iter().map(|part| self.part(part)).collect(),
            Some(_) => Err(OpenAiError::invalid("`content` must be a string or a list of parts")),
        }
    }

    fn part(&self, part: &Value) -> Result<Part, OpenAiError> {
        match part.get("type").and_then(Value::as_str) {
            Some("text") => Ok(Part::text(part.get("text").and_then(Value::as_str).unwrap_or_default())),
            Some("image_url") => {
                let url = part.pointer("/image_url/url").and_then(Value::as_str).unwrap_or_default();
                image(url, self.allows_image_urls)
            }
            Some(kind) => {
                let kind: String = kind.chars().take(40).collect();
                Err(OpenAiError::invalid(format!("content parts of type `{kind}` are not supported")))
            }
            None => Err(OpenAiError::invalid("a content part has no `type`")),
        }
    }
}

/// An image in a request: its content, or an address that the provider fetches.
fn image(url: &str, allows_urls: bool) -> Result<Part, OpenAiError> {
    const TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];
    if let Some((mime, data)) = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,")) {
        if !TYPES.contains(&mime) {
            return Err(OpenAiError::invalid(format!("images must be of one of these types: {}", TYPES.join(", "))));
        }
        return Ok(Part::Image { mime: mime.to_owned(), data: data.to_owned() });
    }
    if !url.starts_with("https://") && !url.starts_with("http://") {
        return Err(OpenAiError::invalid("`image_url.url` must be a data URL with base64, or an https URL"));
    }
    if !allows_urls {
        let message = "image addresses are not allowed on this server: send the image as a data URL with base64";
        return Err(OpenAiError::invalid(message));
    }
    Ok(Part::ImageUrl { url: url.to_owned() })
}

fn text_only(content: Option<Value>) -> Result<String, OpenAiError> {
    match content {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) => Ok(text),
        Some(Value::Array(parts)) => {
            let text = |part: &Value| part.get("text").or_else(|| part.get("refusal"))?.as_str().map(str::to_owned);
            let texts: Option<Vec<String>> = parts.iter().map(text).collect();
            texts
                .map(|texts| texts.concat())
                .ok_or_else(|| OpenAiError::invalid("only text is supported in this message"))
        }
        Some(_) => Err(OpenAiError::invalid("`content` must be a string or a list of parts")),
    }
}

fn tools(tools: Vec<Tool>) -> Result<Vec<ToolDefinition>, OpenAiError> {
    if tools.len() > MAX_TOOLS {
        return Err(OpenAiError::parameter("tools", format!("more than {MAX_TOOLS} tools")));
    }
    let mut names = BTreeSet::new();
    let mut read = Vec::with_capacity(tools.len());
    for tool in tools {
        let (None | Some("function"), Some(function)) = (tool.kind.as_deref(), tool.function) else {
            return Err(OpenAiError::parameter("tools", "only tools of type `function` are supported"));
        };
        if !names.insert(function.name.clone()) {
            return Err(OpenAiError::parameter("tools", format!("two tools have the name `{}`", function.name)));
        }
        read.push(definition(function)?);
    }
    Ok(read)
}

/// A function of a client.
pub(super) fn function_definition(function: Value) -> Result<ToolDefinition, OpenAiError> {
    let function = serde_json::from_value(function).map_err(|error| OpenAiError::parameter("tools", error))?;
    definition(function)
}

fn definition(function: Function) -> Result<ToolDefinition, OpenAiError> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if function.name.is_empty() || function.name.len() > 128 || !function.name.chars().all(is_name) {
        let message = "a tool's name must have 1 to 128 letters, digits, `_`, `-` or `.`";
        return Err(OpenAiError::parameter("tools", message));
    }
    Ok(ToolDefinition {
        name: function.name,
        description: function.description.unwrap_or_default(),
        parameters: function.parameters.unwrap_or_else(|| {
            let mut empty = Map::new();
            empty.insert("type".to_owned(), "object".into());
            empty.insert("properties".to_owned(), Map::new().into());
            empty
        }),
        strict: function.strict,
    })
}

fn tool_choice(choice: Option<Value>, tools: &[ToolDefinition]) -> Result<ToolChoice, OpenAiError> {
    let invalid = |message: &str| Err(OpenAiError::parameter("tool_choice", message));
    match choice {
        None | Some(Value::Null) => Ok(ToolChoice::Auto),
        Some(Value::String(choice)) => match choice.as_str() {
            "auto" => Ok(ToolChoice::Auto),
            "none" => Ok(ToolChoice::None),
            "required" if tools.is_empty() => invalid("`required` needs `tools`"),
            "required" => Ok(ToolChoice::Required),
            _ => invalid("must be `auto`, `none`, `required` or a function"),
        },
        Some(choice) => match choice.pointer("/function/name").and_then(Value::as_str) {
            Some(name) if tools.iter().any(|tool| tool.name == name) => Ok(ToolChoice::Tool(name.to_owned())),
            Some(_) => invalid("the function is not one of `tools`"),
            None => invalid("must be `auto`, `none`, `required` or a function"),
        },
    }
}

fn format(format: &Value) -> Result<Option<ResponseFormat>, OpenAiError> {
    format_of("response_format", format, format.get("json_schema").unwrap_or(&Value::Null))
}

/// The required form of an answer; `inner` has the schema, and `parameter` names the format in errors.
pub(super) fn format_of(parameter: &str, format: &Value, inner: &Value) -> Result<Option<ResponseFormat>, OpenAiError> {
    match format.get("type").and_then(Value::as_str) {
        Some("text") => Ok(None),
        Some("json_object") => Ok(Some(ResponseFormat::JsonObject)),
        Some("json_schema") => {
            let name = inner.get("name").and_then(Value::as_str).unwrap_or("answer").to_owned();
            let strict = inner.get("strict").and_then(Value::as_bool);
            let Some(schema) = inner.get("schema").cloned() else {
                return Err(OpenAiError::parameter(parameter, "the format has no `schema`"));
            };
            Ok(Some(ResponseFormat::JsonSchema { name, schema, strict }))
        }
        _ => Err(OpenAiError::parameter(parameter, "must be `text`, `json_object` or `json_schema`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(body: Value) -> Result<ModelRequest, String> {
        let request: ChatRequest = serde_json::from_value(body).map_err(|error| error.to_string())?;
        request.into_model_request(false).map_err(|error| error.to_string())
    }

    #[test]
    fn a_conversation_with_tools_is_read() {
        let request = read(json!({
            "model": "m",
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": [{"type": "text", "text": "Weather?"}]},
                {"role": "assistant", "content": null, "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": "{}"}}
                ]},
                {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
                {"role": "developer", "content": "Answer in French."},
            ],
            "tools": [{"type": "function", "function": {"name": "get_weather"}}],
            "max_tokens": 5, "max_completion_tokens": 7, "stop": "END", "unknown": true,
        }));
        let request = request.unwrap();
        assert_eq!(request.instructions, "Be brief.");
        assert_eq!(request.items.len(), 4);
        assert!(matches!(&request.items[3], Item::System { text } if text == "Answer in French."));
        assert_eq!((request.max_output_tokens, request.stop), (Some(7), vec!["END".to_owned()]));
    }

    #[test]
    fn invalid_conversations_are_refused() {
        let call = json!({"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}});
        let asked = json!({"role": "assistant", "tool_calls": [call.clone()]});
        let user = json!({"role": "user", "content": "x"});
        for (messages, reason) in [
            (json!([]), "must have from 1"),
            (json!([user, asked]), "has no result"),
            (json!([user, asked, user]), "must have its result first"),
            (json!([user, {"role": "tool", "tool_call_id": "c1", "content": "x"}]), "is not a tool call"),
            (json!([{"role": "user", "content": ""}, {"role": "user", "content": []}]), "empty"),
            (json!([{"role": "king", "content": "x"}]), "unknown role"),
            (json!([{"role": "user", "content": [{"type": "input_audio"}]}]), "not supported"),
            (
                json!([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://h/i.png"}}]}]),
                "not allowed",
            ),
            (
                json!([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}]}]),
                "data URL",
            ),
        ] {
            let error = read(json!({"messages": messages})).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn a_tool_must_be_offered_to_be_chosen() {
        let body = |choice: Value| {
            json!({
                "messages": [{"role": "user", "content": "x"}], "tool_choice": choice,
                "tools": [{"type": "function", "function": {"name": "f"}}],
            })
        };
        let choice = |choice: Value| read(body(choice)).map(|request| request.tool_choice);
        assert_eq!(choice(json!("required")), Ok(ToolChoice::Required));
        assert_eq!(
            choice(json!({"type": "function", "function": {"name": "f"}})),
            Ok(ToolChoice::Tool("f".to_owned()))
        );
        assert!(choice(json!({"type": "function", "function": {"name": "g"}})).is_err());
        assert!(choice(json!("sometimes")).is_err());
    }
}
