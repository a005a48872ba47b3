//! OpenAI Chat Completions: what requests must look like.

mod answer;
mod history;

use serde_json::Value;

pub(crate) use answer::ChatEncoder;

use crate::conversation::{Choice, Conversation, Format, Tool, Wire};
use crate::fault::Fault;
use crate::select::Missing;
use crate::tokens::Prompt;

/// Longest name of a function.
const MAX_NAME: usize = 64;

/// Checks a request.
pub(crate) fn parse(request: Value) -> Result<Conversation, Fault> {
    let model = model(&request)?;
    let messages = match request.get("messages") {
        None | Some(Value::Null) => return Err(Fault::missing("messages")),
        Some(Value::Array(messages)) if messages.is_empty() => {
            return Err(Fault::invalid(
                "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array \
                 instead.",
            )
            .param("messages")
            .code("empty_array"));
        }
        Some(Value::Array(messages)) => messages,
        Some(_) => return Err(Fault::wrong_type("messages", "an array of objects")),
    };
    let tools = tools(&request)?;
    let choice = choice(&request, &tools)?;
    let items = history::items(messages)?;
    let mut prompt = Prompt::default();
    prompt.add(request.get("tools").unwrap_or(&Value::Null));
    for message in messages {
        prompt.add(message);
    }
    prompt.mark_cacheable();
    let stream = is_stream(&request)?;
    let options = request.get("stream_options").filter(|options| !options.is_null());
    if options.is_some() && !stream {
        return Err(Fault::invalid("The 'stream_options' parameter is only allowed when 'stream' is enabled.")
            .param("stream_options"));
    }
    let include_usage = options.and_then(|options| options.get("include_usage")).and_then(Value::as_bool);
    Ok(Conversation {
        wire: Wire::Chat,
        model,
        items,
        tools,
        choice,
        format: format(&request)?,
        stream,
        include_usage: include_usage.unwrap_or(false),
        include_encrypted: false,
        cache_key: cache_key(&request),
        prompt,
        request,
    })
}

/// The error for something that the script has sent and that did not come back.
pub(crate) fn missing_fault(missing: &Missing) -> Fault {
    let name = match missing {
        Missing::ThoughtSignature { name } | Missing::Reasoning { call: name } => name,
    };
    Fault::invalid(format!(
        "Function call is missing a thought_signature in functionCall parts. This is required for tools to work \
         correctly, and missing thought_signature may lead to degraded model performance. Additional data, function \
         call `default_api:{name}`."
    ))
    .google()
}

pub(crate) fn model(request: &Value) -> Result<String, Fault> {
    match request.get("model") {
        Some(Value::String(model)) if !model.is_empty() => Ok(model.clone()),
        None | Some(Value::Null) => Err(Fault::missing("model")),
        Some(Value::String(_)) => {
            Err(Fault::invalid("you must provide a model parameter").param("model").code("missing_required_parameter"))
        }
        Some(_) => Err(Fault::wrong_type("model", "a string")),
    }
}

pub(crate) fn is_stream(request: &Value) -> Result<bool, Fault> {
    match request.get("stream") {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(stream)) => Ok(*stream),
        Some(_) => Err(Fault::wrong_type("stream", "a boolean")),
    }
}

pub(crate) fn cache_key(request: &Value) -> Option<String> {
    request.get("prompt_cache_key").and_then(Value::as_str).map(str::to_owned)
}

fn tools(request: &Value) -> Result<Vec<Tool>, Fault> {
    let Some(tools) = request.get("tools").filter(|tools| !tools.is_null()) else { return Ok(Vec::new()) };
    let Some(tools) = tools.as_array() else { return Err(Fault::wrong_type("tools", "an array of objects")) };
    if tools.is_empty() {
        return Err(Fault::invalid(
            "Invalid 'tools': empty array. Expected an array with minimum length 1, but got an empty array instead.",
        )
        .param("tools")
        .code("empty_array"));
    }
    let functions = tools.iter().enumerate().filter(|(_, tool)| tool.get("type") != Some(&"custom".into()));
    functions
        .map(|(number, tool)| {
            let param = format!("tools[{number}].function");
            let function = tool.get("function").ok_or_else(|| Fault::missing(&param))?;
            function_tool(function, &param)
        })
        .collect()
}

/// Checks a function, which the two wires of OpenAI define alike.
pub(crate) fn function_tool(function: &Value, param: &str) -> Result<Tool, Fault> {
    let param = format!("{param}.name");
    let name = function.get("name").and_then(Value::as_str).ok_or_else(|| Fault::missing(&param))?;
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-') {
        return Err(Fault::invalid(format!(
            "Invalid '{param}': string does not match pattern. Expected a string that matches the pattern \
             '^[a-zA-Z0-9_-]+$'."
        ))
        .param(param)
        .code("invalid_value"));
    }
    if name.len() > MAX_NAME {
        return Err(Fault::invalid(format!(
            "Invalid '{param}': string too long. Expected a string with maximum length {MAX_NAME}, but got a string \
             with length {} instead.",
            name.len()
        ))
        .param(param)
        .code("string_above_max_length"));
    }
    Ok(Tool { name: name.to_owned(), parameters: function.get("parameters").cloned().unwrap_or(Value::Null) })
}

fn choice(request: &Value, tools: &[Tool]) -> Result<Choice, Fault> {
    let Some(choice) = request.get("tool_choice").filter(|choice| !choice.is_null()) else { return Ok(Choice::Auto) };
    if request.get("tools").is_none_or(Value::is_null) {
        return Err(Fault::invalid("'tool_choice' is only allowed when 'tools' are specified.").param("tool_choice"));
    }
    let name = choice.pointer("/function/name").and_then(Value::as_str);
    parse_choice(choice, name, tools)
}

/// Reads `tool_choice`. Where its name is differs between the two wires of OpenAI.
pub(crate) fn parse_choice(choice: &Value, name: Option<&str>, tools: &[Tool]) -> Result<Choice, Fault> {
    match (choice.as_str(), name) {
        (Some("auto"), _) => Ok(Choice::Auto),
        (Some("none"), _) => Ok(Choice::None),
        (Some("required"), _) => Ok(Choice::Required),
        (Some(other), _) => Err(Fault::invalid(format!(
            "Invalid value: '{other}'. Supported values are: 'none', 'auto', and 'required'."
        ))
        .param("tool_choice")
        .code("invalid_value")),
        (None, Some(name)) if tools.iter().any(|tool| tool.name == name) => Ok(Choice::Named(name.to_owned())),
        (None, Some(name)) => {
            Err(Fault::invalid(format!("Tool choice '{name}' not found in 'tools' parameter.")).param("tool_choice"))
        }
        (None, None) if choice.is_object() => {
            let mode = choice.get("mode").or_else(|| choice.pointer("/allowed_tools/mode"));
            Ok(if mode.and_then(Value::as_str) == Some("required") { Choice::Required } else { Choice::Auto })
        }
        (None, None) => Err(Fault::wrong_type("tool_choice", "one of a string or an object")),
    }
}

fn format(request: &Value) -> Result<Format, Fault> {
    let Some(format) = request.get("response_format").filter(|format| !format.is_null()) else {
        return Ok(Format::Text);
    };
    match format.get("type").and_then(Value::as_str) {
        Some("text") => Ok(Format::Text),
        Some("json_object") => Ok(Format::Object),
        Some("json_schema") => {
            let schema = format.pointer("/json_schema/schema");
            if format.pointer("/json_schema/name").and_then(Value::as_str).is_none() {
                return Err(Fault::missing("response_format.json_schema.name"));
            }
            Ok(Format::Schema(schema.cloned().unwrap_or(Value::Null)))
        }
        Some(other) => Err(Fault::invalid(format!(
            "Invalid value: '{other}'. Supported values are: 'json_object', 'json_schema', and 'text'."
        ))
        .param("response_format.type")
        .code("invalid_value")),
        None => Err(Fault::missing("response_format.type")),
    }
}
