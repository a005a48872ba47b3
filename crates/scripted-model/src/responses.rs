//! OpenAI Responses: what requests must look like.

mod answer;
mod history;
mod object;

use serde_json::Value;

pub(crate) use answer::ResponsesEncoder;

use crate::chat::{cache_key, function_tool, is_stream, model, parse_choice};
use crate::conversation::{Choice, Conversation, Format, Tool, Wire};
use crate::fault::Fault;
use crate::select::Missing;
use crate::tokens::Prompt;

/// Checks a request.
pub(crate) fn parse(request: Value) -> Result<Conversation, Fault> {
    let model = model(&request)?;
    stored(&request)?;
    let tools = tools(&request)?;
    let choice = match request.get("tool_choice").filter(|choice| !choice.is_null()) {
        None => Choice::Auto,
        Some(choice) => {
            let is_function = choice.get("type").and_then(Value::as_str) == Some("function");
            let name = choice.get("name").and_then(Value::as_str).filter(|_| is_function);
            parse_choice(choice, name, &tools)?
        }
    };
    let mut prompt = Prompt::default();
    prompt.add(request.get("tools").unwrap_or(&Value::Null));
    prompt.add(request.get("instructions").unwrap_or(&Value::Null));
    let items = match request.get("input") {
        None | Some(Value::Null) => return Err(Fault::missing("input")),
        Some(Value::Array(input)) => {
            for item in input {
                prompt.add(item);
            }
            history::items(input, request.get("store") != Some(&Value::Bool(false)))?
        }
        Some(input @ Value::String(text)) => {
            prompt.add(input);
            vec![crate::conversation::Item::User(text.clone())]
        }
        Some(_) => return Err(Fault::wrong_type("input", "one of a string or array of input items")),
    };
    prompt.mark_cacheable();
    let include = request.get("include").and_then(Value::as_array);
    Ok(Conversation {
        wire: Wire::Responses,
        model,
        items,
        tools,
        choice,
        format: format(&request)?,
        stream: is_stream(&request)?,
        include_usage: true,
        include_encrypted: include
            .is_some_and(|values| values.iter().any(|value| value == "reasoning.encrypted_content")),
        cache_key: cache_key(&request),
        prompt,
        request,
    })
}

/// The error for reasoning that the script has sent and that did not come back.
pub(crate) fn missing_fault(missing: &Missing) -> Fault {
    let call = match missing {
        Missing::Reasoning { call } | Missing::ThoughtSignature { name: call } => call,
    };
    Fault::invalid(format!("Item '{call}' of type 'function_call' was provided without its required 'reasoning' item."))
        .param("input")
}

/// This server stores nothing, so whatever refers to earlier requests does not exist.
fn stored(request: &Value) -> Result<(), Fault> {
    if let Some(id) = request.get("previous_response_id").and_then(Value::as_str) {
        return Err(Fault::invalid(format!("Previous response with id '{id}' not found."))
            .param("previous_response_id")
            .code("previous_response_not_found"));
    }
    let conversation = request.get("conversation").filter(|conversation| !conversation.is_null());
    if let Some(conversation) = conversation {
        let id = conversation.get("id").unwrap_or(conversation);
        return Err(Fault::invalid(format!("Conversation with id {id} not found.")).status(404));
    }
    Ok(())
}

fn tools(request: &Value) -> Result<Vec<Tool>, Fault> {
    let Some(tools) = request.get("tools").filter(|tools| !tools.is_null()) else { return Ok(Vec::new()) };
    let Some(tools) = tools.as_array() else { return Err(Fault::wrong_type("tools", "an array of objects")) };
    let mut functions = Vec::new();
    for (number, tool) in tools.iter().enumerate() {
        let param = format!("tools[{number}]");
        match tool.get("type").and_then(Value::as_str) {
            None => return Err(Fault::missing(&format!("{param}.type"))),
            Some("function") => functions.push(function_tool(tool, &param)?),
            Some(_) => {}
        }
    }
    Ok(functions)
}

fn format(request: &Value) -> Result<Format, Fault> {
    let Some(format) = request.pointer("/text/format").filter(|format| !format.is_null()) else {
        return Ok(Format::Text);
    };
    match format.get("type").and_then(Value::as_str) {
        Some("text") => Ok(Format::Text),
        Some("json_object") => Ok(Format::Object),
        Some("json_schema") if format.get("name").and_then(Value::as_str).is_none() => {
            Err(Fault::missing("text.format.name"))
        }
        Some("json_schema") => Ok(Format::Schema(format.get("schema").cloned().unwrap_or(Value::Null))),
        Some(other) => Err(Fault::invalid(format!(
            "Invalid value: '{other}'. Supported values are: 'json_object', 'json_schema', and 'text'."
        ))
        .param("text.format.type")
        .code("invalid_value")),
        None => Err(Fault::missing("text.format.type")),
    }
}
