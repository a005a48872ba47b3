//! Writes a conversation as messages.

use super::Dialect;
use crate::conversation::{Call, CallResult, Item, ModelRequest, Native, Part, ResponseFormat, ToolChoice};
use serde_json::{Map, Value, json};

/// The field that asks for the usage at the end of a stream.
pub(super) const STREAM_OPTIONS: &str = "stream_options";

/// The body of a request. Maps are sorted, so equal beginnings of conversations give equal bytes.
pub(super) fn body(request: &ModelRequest, origin: &str, dialect: Dialect) -> Value {
    let mut body = json!({
        "model": request.model,
        "messages": messages(request, origin),
        "stream": true,
        STREAM_OPTIONS: {"include_usage": true},
    });
    let mut set = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            body[name] = value;
        }
    };
    let is_openai = dialect != Dialect::Compatible;
    let most = request.max_output_tokens.map(Value::from);
    set(if is_openai { "max_completion_tokens" } else { "max_tokens" }, most);
    set("temperature", request.temperature.map(Value::from));
    set("top_p", request.top_p.map(Value::from));
    set("stop", (!request.stop.is_empty()).then(|| json!(request.stop)));
    set("reasoning_effort", request.effort.map(|effort| effort.name().into()));
    set("response_format", request.format.as_ref().map(format));
    if !request.tools.is_empty() {
        set("tools", Some(tools(request, is_openai)));
        set("tool_choice", tool_choice(&request.tool_choice));
        set("parallel_tool_calls", request.parallel_calls.map(Value::from));
    }
    if is_openai {
        set("prompt_cache_key", request.cache_key.as_deref().map(Value::from));
    }
    body
}

fn tools(request: &ModelRequest, is_openai: bool) -> Value {
    let tools = request.tools.iter().map(|tool| {
        let mut function = json!({"name": tool.name, "description": tool.description, "parameters": tool.parameters});
        if let Some(strict) = tool.strict.filter(|_| is_openai) {
            function["strict"] = strict.into();
        }
        json!({"type": "function", "function": function})
    });
    tools.collect()
}

fn tool_choice(choice: &ToolChoice) -> Option<Value> {
    match choice {
        ToolChoice::Auto => None,
        ToolChoice::None => Some("none".into()),
        ToolChoice::Required => Some("required".into()),
        ToolChoice::Tool(name) => Some(json!({"type": "function", "function": {"name": name}})),
    }
}

fn format(format: &ResponseFormat) -> Value {
    match format {
        ResponseFormat::JsonObject => json!({"type": "json_object"}),
        ResponseFormat::JsonSchema { name, schema, strict } => {
            let mut inner = json!({"name": name, "schema": schema});
            if let Some(strict) = strict {
                inner["strict"] = (*strict).into();
            }
            json!({"type": "json_schema", "json_schema": inner})
        }
    }
}

fn messages(request: &ModelRequest, origin: &str) -> Vec<Value> {
    let mut messages = Messages { origin, done: Vec::new(), turn: Turn::default(), images: Vec::new() };
    if !request.instructions.is_empty() {
        messages.done.push(json!({"role": "system", "content": request.instructions}));
    }
    for item in &request.items {
        messages.add(item);
    }
    messages.close();
    messages.done
}

/// Messages that are being written. Adjacent items of the model are one message.
struct Messages<'a> {
    origin: &'a str,
    done: Vec<Value>,
    turn: Turn,
    /// Images of results. The format has no place for them there, so they follow as a message.
    images: Vec<Value>,
}

/// A message of the model.
#[derive(Default)]
struct Turn {
    text: String,
    calls: Vec<Value>,
    /// Fields that the provider wants to have back.
    fields: Map<String, Value>,
}

impl Messages<'_> {
    fn add(&mut self, item: &Item) {
        match item {
            Item::System { text } => {
                self.close();
                self.done.push(json!({"role": "system", "content": text}));
            }
            Item::User { parts } => {
                self.close();
                self.done.push(json!({"role": "user", "content": content(parts)}));
            }
            Item::Assistant { text, .. } => {
                self.begin();
                self.turn.text.push_str(text);
            }
            Item::Reasoning { native, .. } => {
                self.begin();
                if let Some(Value::Object(fields)) = Native::of(native.as_ref(), self.origin) {
                    self.turn.fields.extend(fields.clone());
                }
            }
            Item::Call(call) => {
                if !self.images.is_empty() {
                    self.close();
                }
                self.turn.calls.push(written_call(call, self.origin));
            }
            Item::Result(result) => self.result(result),
        }
    }

    /// Text and reasoning belong to a message whose calls have not begun.
    fn begin(&mut self) {
        if !self.turn.calls.is_empty() || !self.images.is_empty() {
            self.close();
        }
    }

    fn result(&mut self, result: &CallResult) {
        self.close_turn();
        let mut text = String::new();
        let mut count = 0;
        for part in &result.parts {
            match part {
                Part::Text { text: more } => text.push_str(more),
                image => {
                    self.images.push(written_part(image));
                    count += 1;
                }
            }
        }
        if count > 0 {
            text.push_str("\n[images of this result follow]");
        }
        self.done.push(json!({"role": "tool", "tool_call_id": result.call_id, "content": text}));
    }

    fn close_turn(&mut self) {
        let turn = std::mem::take(&mut self.turn);
        if turn.text.is_empty() && turn.calls.is_empty() {
            return;
        }
        let mut message = Map::new();
        message.extend(turn.fields);
        message.insert("role".to_owned(), "assistant".into());
        message.insert("content".to_owned(), if turn.text.is_empty() { Value::Null } else { turn.text.into() });
        if !turn.calls.is_empty() {
            message.insert("tool_calls".to_owned(), turn.calls.into());
        }
        self.done.push(message.into());
    }

    fn close(&mut self) {
        self.close_turn();
        if !self.images.is_empty() {
            let mut content = vec![json!({"type": "text", "text": "Images of the results above:"})];
            content.append(&mut self.images);
            self.done.push(json!({"role": "user", "content": content}));
        }
    }
}

fn written_call(call: &Call, origin: &str) -> Value {
    let mut written = match Native::of(call.native.as_ref(), origin) {
        Some(Value::Object(fields)) => fields.clone(),
        _ => Map::new(),
    };
    written.insert("id".to_owned(), call.id.as_str().into());
    written.insert("type".to_owned(), "function".into());
    written.insert("function".to_owned(), json!({"name": call.name, "arguments": call.arguments}));
    written.into()
}

fn content(parts: &[Part]) -> Value {
    match parts {
        [Part::Text { text }] => text.as_str().into(),
        parts => parts.iter().map(written_part).collect(),
    }
}

fn written_part(part: &Part) -> Value {
    match part {
        Part::Text { text } => json!({"type": "text", "text": text}),
        Part::Image { mime, data } => {
            json!({"type": "image_url", "image_url": {"url": format!("data:{mime};base64,{data}")}})
        }
        Part::ImageUrl { url } => json!({"type": "image_url", "image_url": {"url": url}}),
    }
}

#[cfg(test)]
mod tests;
