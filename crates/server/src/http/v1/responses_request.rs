//! Reads the body of a response.

use super::chat_request::{format_of, function_definition};
use super::error::OpenAiError;
use coracle_models::{Effort, ResponseFormat, ToolChoice, ToolDefinition};
use coracle_runs::{AlwaysAsk, ModelOptions, RunSpec};
use coracle_types::{ConversationId, Mode, RunId};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// Maximum number of tools in a request.
const MAX_TOOLS: usize = 512;
/// Maximum number of entries of metadata, and maximum length of their keys and values.
const MAX_METADATA: (usize, usize, usize) = (16, 64, 512);
/// Tools that the agent has anyway.
const OWN_TOOLS: [&str; 4] = ["code_interpreter", "shell", "local_shell", "programmatic_tool_calling"];

/// Body of a response. Fields that are not listed have no effect.
#[derive(Debug, Deserialize)]
pub(super) struct ResponsesRequest {
    #[serde(default)]
    pub(super) model: Option<String>,
    #[serde(default)]
    pub(super) input: Value,
    #[serde(default)]
    instructions: Option<String>,
    #[serde(default)]
    pub(super) stream: Option<bool>,
    #[serde(default)]
    background: Option<bool>,
    #[serde(default)]
    pub(super) store: Option<bool>,
    #[serde(default)]
    previous_response_id: Option<String>,
    #[serde(default)]
    conversation: Option<Value>,
    #[serde(default)]
    tools: Option<Vec<Value>>,
    #[serde(default)]
    tool_choice: Option<Value>,
    #[serde(default)]
    parallel_tool_calls: Option<bool>,
    #[serde(default)]
    max_output_tokens: Option<u64>,
    #[serde(default)]
    max_tool_calls: Option<u32>,
    #[serde(default)]
    temperature: Option<f64>,
    #[serde(default)]
    top_p: Option<f64>,
    #[serde(default)]
    reasoning: Option<Value>,
    #[serde(default)]
    text: Option<Value>,
    #[serde(default)]
    metadata: Option<Map<String, Value>>,
    #[serde(default)]
    prompt_cache_key: Option<String>,
    #[serde(default)]
    safety_identifier: Option<String>,
    #[serde(default)]
    user: Option<String>,
    /// Coracle's own options.
    #[serde(default)]
    pub(super) coracle: Extension,
}

/// Options that only Coracle has.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Extension {
    /// Whether events are sent that only Coracle has.
    #[serde(default)]
    pub(super) events: bool,
    /// Whether code changes something, or its effects are collected as plans that a person approves.
    #[serde(default)]
    pub(super) mode: Mode,
}

impl ResponsesRequest {
    /// Whether the request continues something that is stored.
    pub(super) fn has_thread(&self) -> bool {
        self.previous_response_id.is_some() || self.conversation.as_ref().is_some_and(|named| !named.is_null())
    }

    /// Instructions of the client.
    pub(super) fn instructions(&self) -> &str {
        self.instructions.as_deref().unwrap_or_default()
    }

    /// The client's functions.
    pub(super) fn functions(&self) -> Result<Vec<ToolDefinition>, OpenAiError> {
        functions(self.tools.as_deref().unwrap_or_default())
    }

    /// What the client wants of a run with this model.
    pub(super) fn into_spec(self, model: String) -> Result<RunSpec, OpenAiError> {
        let is_background = self.background.unwrap_or_default();
        let is_stored = self.store.unwrap_or(true);
        if is_background && !is_stored {
            return Err(OpenAiError::parameter("background", "runs in the background must be stored"));
        }
        let conversation = self.conversation.as_ref().map(conversation_id).transpose()?.flatten();
        // A client that asks for events can answer questions elsewhere. Others get them as items, and answer with the
        // next request, which needs something stored to continue.
        let waits = is_background || self.coracle.events;
        let previous = self.previous_response_id.as_ref().map(run_id).transpose()?;
        if conversation.is_some() && previous.is_some() {
            let message = "cannot be used together with `conversation`";
            return Err(OpenAiError::parameter("previous_response_id", message));
        }
        let metadata = metadata(self.metadata)?;
        let mut tools = functions(self.tools.as_deref().unwrap_or_default())?;
        let always_ask = always_ask(self.tools.as_deref().unwrap_or_default())?;
        let tool_choice = tool_choice(self.tool_choice.as_ref(), &mut tools)?;
        let effort = self.reasoning.as_ref().and_then(|reasoning| reasoning.get("effort")).cloned().unwrap_or_default();
        let effort: Option<Effort> =
            serde_json::from_value(effort).map_err(|_| OpenAiError::parameter("reasoning", "`effort` is not known"))?;
        let format = self.text.as_ref().and_then(|text| text.get("format"));
        let format: Option<ResponseFormat> =
            format.map(|format| format_of("text", format, format)).transpose()?.flatten();
        let mut echo = Map::new();
        for (name, value) in [
            ("tools", self.tools.map(Value::from)),
            ("tool_choice", self.tool_choice),
            ("reasoning", self.reasoning),
            ("text", self.text),
            ("safety_identifier", self.safety_identifier.map(Value::from)),
            ("user", self.user.map(Value::from)),
        ] {
            echo.extend(value.filter(|value| !value.is_null()).map(|value| (name.to_owned(), value)));
        }
        Ok(RunSpec {
            model,
            instructions: self.instructions,
            options: ModelOptions {
                tools,
                tool_choice,
                parallel_calls: self.parallel_tool_calls,
                max_output_tokens: self.max_output_tokens,
                temperature: self.temperature,
                top_p: self.top_p,
                effort,
                format,
                cache_key: self.prompt_cache_key,
            },
            max_tool_calls: self.max_tool_calls,
            conversation,
            previous,
            is_background,
            may_ask: waits || is_stored,
            parks: !waits && is_stored,
            always_ask,
            mode: self.coracle.mode,
            is_stored,
            metadata,
            echo,
        })
    }
}

fn conversation_id(conversation: &Value) -> Result<Option<ConversationId>, OpenAiError> {
    let id = match conversation {
        Value::Null => return Ok(None),
        Value::String(id) => Some(id.as_str()),
        other => other.get("id").and_then(Value::as_str),
    };
    let id = id.ok_or_else(|| OpenAiError::parameter("conversation", "must be an ID, or an object with `id`"))?;
    ConversationId::new(id).map(Some).map_err(|error| OpenAiError::parameter("conversation", error))
}

fn run_id(id: &String) -> Result<RunId, OpenAiError> {
    RunId::new(id).map_err(|error| OpenAiError::parameter("previous_response_id", error))
}

/// Checks metadata of a client.
pub(super) fn metadata(metadata: Option<Map<String, Value>>) -> Result<Map<String, Value>, OpenAiError> {
    let metadata = metadata.unwrap_or_default();
    let (entries, key, value) = MAX_METADATA;
    let fits = |(name, text): (&String, &Value)| {
        name.chars().count() <= key && text.as_str().is_some_and(|text| text.chars().count() <= value)
    };
    if metadata.len() > entries || !metadata.iter().all(fits) {
        let message =
            format!("must have at most {entries} entries, with keys of {key} and text values of {value} characters");
        return Err(OpenAiError::parameter("metadata", message));
    }
    Ok(metadata)
}

/// The client's functions. The agent's own tools are always there, whether the client names them or not.
fn functions(tools: &[Value]) -> Result<Vec<ToolDefinition>, OpenAiError> {
    if tools.len() > MAX_TOOLS {
        return Err(OpenAiError::parameter("tools", format!("more than {MAX_TOOLS} tools")));
    }
    let mut names = BTreeSet::new();
    let mut functions = Vec::new();
    for tool in tools {
        let kind = tool.get("type").and_then(Value::as_str).unwrap_or("function");
        match kind {
            "function" => {
                let function = function_definition(tool.clone())?;
                if !names.insert(function.name.clone()) {
                    let message = format!("two tools have the name `{}`", function.name);
                    return Err(OpenAiError::parameter("tools", message));
                }
                functions.push(function);
            }
            // Servers are configured by the operator, and what they may do is not the client's choice.
            "mcp" if tool.get("server_url").is_some_and(|url| !url.is_null()) => {
                let message = "servers by address are not allowed: the operator of this server configures MCP servers";
                return Err(OpenAiError::parameter("tools", message));
            }
            "mcp" => {}
            kind if OWN_TOOLS.contains(&kind) => {}
            kind => {
                let kind: String = kind.chars().take(40).collect();
                let message = format!("tools of type `{kind}` are not supported");
                return Err(OpenAiError::parameter("tools", message));
            }
        }
    }
    Ok(functions)
}

/// Tools of which the client wants each call to be approved. A request cannot allow anything, so `never` has no effect.
fn always_ask(tools: &[Value]) -> Result<Vec<AlwaysAsk>, OpenAiError> {
    let mut asked = Vec::new();
    for tool in tools.iter().filter(|tool| tool.get("type").and_then(Value::as_str) == Some("mcp")) {
        let invalid = |message: &str| OpenAiError::parameter("tools", message);
        let server = tool.get("server_label").and_then(Value::as_str);
        let server = server.ok_or_else(|| invalid("`server_label` of an mcp tool is missing"))?.to_owned();
        match tool.get("require_approval") {
            None | Some(Value::Null) => {}
            Some(Value::String(when)) if when == "never" => {}
            Some(Value::String(when)) if when == "always" => asked.push(AlwaysAsk { server, tools: None }),
            Some(Value::Object(filters)) => {
                let Some(always) = filters.get("always").filter(|always| !always.is_null()) else { continue };
                let names = always.get("tool_names").and_then(Value::as_array);
                let names = names.map(|names| names.iter().filter_map(Value::as_str).map(str::to_owned).collect());
                asked.push(AlwaysAsk { server, tools: names });
            }
            Some(_) => return Err(invalid("`require_approval` must be `always`, `never` or an object with filters")),
        }
    }
    Ok(asked)
}

fn tool_choice(choice: Option<&Value>, tools: &mut Vec<ToolDefinition>) -> Result<ToolChoice, OpenAiError> {
    let invalid = |message: &str| OpenAiError::parameter("tool_choice", message);
    let mode = |mode: &str| match mode {
        "auto" => Ok(ToolChoice::Auto),
        "none" => Ok(ToolChoice::None),
        "required" => Ok(ToolChoice::Required),
        _ => Err(invalid("must be `auto`, `none`, `required` or a tool")),
    };
    let Some(choice) = choice.filter(|choice| !choice.is_null()) else { return Ok(ToolChoice::Auto) };
    if let Some(text) = choice.as_str() {
        return mode(text);
    }
    match choice.get("type").and_then(Value::as_str) {
        Some("function") => {
            let name = choice.get("name").and_then(Value::as_str).unwrap_or_default();
            if !tools.iter().any(|tool| tool.name == name) {
                return Err(invalid("the function is not one of `tools`"));
            }
            Ok(ToolChoice::Tool(name.to_owned()))
        }
        Some("allowed_tools") => {
            let allowed = choice.get("tools").and_then(Value::as_array).cloned().unwrap_or_default();
            let names: BTreeSet<&str> = allowed.iter().filter_map(|tool| tool.get("name")?.as_str()).collect();
            tools.retain(|tool| names.contains(tool.name.as_str()));
            mode(choice.get("mode").and_then(Value::as_str).unwrap_or("auto"))
        }
        Some(kind) if OWN_TOOLS.contains(&kind) => Ok(ToolChoice::Tool("execute_code".to_owned())),
        _ => Err(invalid("must be `auto`, `none`, `required` or a tool")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(body: Value) -> Result<RunSpec, String> {
        let request: ResponsesRequest = serde_json::from_value(body).map_err(|error| error.to_string())?;
        request.into_spec("m".to_owned()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_request_is_read() {
        let spec = read(json!({
            "input": "x", "conversation": {"id": "conv_1"}, "max_tool_calls": 3, "reasoning": {"effort": "low"},
            "tools": [{"type": "function", "name": "f", "parameters": null}, {"type": "code_interpreter"}],
            "text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}}},
            "metadata": {"a": "b"},
        }));
        let spec = spec.unwrap();
        assert_eq!(spec.conversation.as_ref().map(ConversationId::as_str), Some("conv_1"));
        assert_eq!((spec.options.tools.len(), spec.max_tool_calls), (1, Some(3)));
        assert_eq!(spec.options.effort, Some(Effort::Low));
        assert!(matches!(&spec.options.format, Some(ResponseFormat::JsonSchema { name, .. }) if name == "n"));
        assert!(spec.is_stored && spec.outlives_client());
    }

    #[test]
    fn requests_that_cannot_be_fulfilled_are_refused() {
        let function = json!({"type": "function", "name": "f"});
        for (body, reason) in [
            (json!({"background": true, "store": false}), "must be stored"),
            (json!({"conversation": "conv_1", "previous_response_id": "resp_1"}), "cannot be used together"),
            (json!({"conversation": "../x"}), "conversation"),
            (json!({"tools": [{"type": "web_search"}]}), "`web_search` are not supported"),
            (json!({"tools": [{"type": "mcp", "server_label": "a", "server_url": "http://h"}]}), "not allowed"),
            (json!({"tools": [function, function]}), "two tools"),
            (json!({"tool_choice": {"type": "function", "name": "g"}, "tools": [function]}), "not one of"),
            (json!({"metadata": {"a": "b".repeat(513)}}), "metadata"),
            (json!({"reasoning": {"effort": "enormous"}}), "effort"),
        ] {
            let error = read(body).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
        assert!(read(json!({"tools": [{"type": "mcp", "server_label": "a"}]})).is_ok());
    }

    #[test]
    fn allowed_tools_narrow_the_functions() {
        let tools = json!([{"type": "function", "name": "f"}, {"type": "function", "name": "g"}]);
        let choice = json!({"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "g"}]});
        let spec = read(json!({"tools": tools, "tool_choice": choice})).unwrap();
        let names: Vec<&str> = spec.options.tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!((names, spec.options.tool_choice), (vec!["g"], ToolChoice::Required));
    }
}
