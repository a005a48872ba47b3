//! A client that knows as much of each wire as the tests need.

use coracle_scripted_model::{Library, ScriptedModel, Server, Wire};
use serde_json::{Value, json};

pub(crate) const WIRES: [Wire; 3] = [Wire::Chat, Wire::Responses, Wire::Messages];

/// One entry of a history, in the words of no wire.
#[derive(Clone, Debug)]
pub(crate) enum Entry {
    User(&'static str),
    Assistant(&'static str),
    Call(&'static str, &'static str),
    Result(&'static str, &'static str),
}

pub(crate) use Entry::{Assistant, Call, Result, User};

pub(crate) async fn start(library: Library) -> Server {
    ScriptedModel::new(library).unwrap().start().await.unwrap()
}

fn path(wire: Wire) -> &'static str {
    match wire {
        Wire::Chat => "chat/completions",
        Wire::Responses => "responses",
        Wire::Messages => "messages",
    }
}

/// The request with this history.
pub(crate) fn request(wire: Wire, history: &[Entry]) -> Value {
    let entries: Vec<Value> = history.iter().map(|entry| message(wire, entry)).collect();
    match wire {
        Wire::Chat => json!({"model": "m", "messages": entries}),
        Wire::Responses => json!({"model": "m", "input": entries}),
        Wire::Messages => json!({"model": "m", "max_tokens": 100, "messages": merged(entries)}),
    }
}

fn message(wire: Wire, entry: &Entry) -> Value {
    match (wire, entry) {
        (Wire::Messages, Call(id, name)) => {
            json!({"role": "assistant", "content": [{"type": "tool_use", "id": id, "name": name, "input": {}}]})
        }
        (Wire::Messages, Result(id, text)) => {
            json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": text}]})
        }
        (Wire::Responses, Call(id, name)) => {
            json!({"type": "function_call", "call_id": id, "name": name, "arguments": "{}"})
        }
        (Wire::Responses, Result(id, text)) => json!({"type": "function_call_output", "call_id": id, "output": text}),
        (Wire::Chat, Call(id, name)) => {
            let call = json!({"id": id, "type": "function", "function": {"name": name, "arguments": "{}"}});
            json!({"role": "assistant", "content": null, "tool_calls": [call]})
        }
        (Wire::Chat, Result(id, text)) => json!({"role": "tool", "tool_call_id": id, "content": text}),
        (_, User(text)) => json!({"role": "user", "content": text}),
        (_, Assistant(text)) => json!({"role": "assistant", "content": text}),
    }
}

/// Messages has all results of a turn in one message.
fn merged(entries: Vec<Value>) -> Vec<Value> {
    let mut merged: Vec<Value> = Vec::new();
    for entry in entries {
        match merged.last_mut() {
            Some(last)
                if last["role"] == entry["role"] && last["content"].is_array() && entry["content"].is_array() =>
            {
                let more = entry["content"].as_array().unwrap().clone();
                last["content"].as_array_mut().unwrap().extend(more);
            }
            _ => merged.push(entry),
        }
    }
    merged
}

/// Adds tools without parameters.
pub(crate) fn with_tools(wire: Wire, mut request: Value, tools: &[(&str, Value)]) -> Value {
    let tools = tools.iter().map(|(name, schema)| match wire {
        Wire::Chat => json!({"type": "function", "function": {"name": name, "parameters": schema}}),
        Wire::Responses => json!({"type": "function", "name": name, "parameters": schema}),
        Wire::Messages => json!({"name": name, "input_schema": schema}),
    });
    request["tools"] = tools.collect();
    request
}

pub(crate) fn streamed(mut request: Value) -> Value {
    request["stream"] = true.into();
    request
}

pub(crate) async fn send(server: &Server, wire: Wire, request: &Value) -> reqwest::Response {
    send_with(server, wire, request, &[]).await
}

pub(crate) async fn send_with(
    server: &Server,
    wire: Wire,
    request: &Value,
    headers: &[(&str, &str)],
) -> reqwest::Response {
    // Only the first test of the process installs it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let mut builder = client.post(format!("{}/{}", server.url(), path(wire)));
    if wire == Wire::Messages {
        builder = builder.header("anthropic-version", "2023-06-01");
    }
    for (name, value) in headers {
        builder = builder.header(*name, *value);
    }
    builder.json(request).send().await.unwrap()
}

/// The answer to a request that succeeds.
pub(crate) async fn answer(server: &Server, wire: Wire, request: &Value) -> Value {
    let response = send(server, wire, request).await;
    let status = response.status();
    let body: Value = response.json().await.unwrap();
    assert_eq!(status, 200, "{body}");
    body
}

/// The status and message of a request that fails.
pub(crate) async fn refusal(server: &Server, wire: Wire, request: &Value) -> (u16, String) {
    let response = send(server, wire, request).await;
    let status = response.status().as_u16();
    let body: Value = response.json().await.unwrap();
    let error = if body.is_array() { &body[0]["error"] } else { &body["error"] };
    if wire == Wire::Messages {
        assert_eq!(body["type"], "error");
        assert!(error["type"].is_string(), "{body}");
    }
    (status, error["message"].as_str().unwrap_or_else(|| panic!("{body}")).to_owned())
}

/// The text of an answer.
pub(crate) fn text(wire: Wire, answer: &Value) -> String {
    let parts: Vec<&Value> = match wire {
        Wire::Chat => return answer["choices"][0]["message"]["content"].as_str().unwrap_or_default().to_owned(),
        Wire::Responses => {
            let items = answer["output"].as_array().unwrap().iter().filter(|item| item["type"] == "message");
            items.flat_map(|item| item["content"].as_array().unwrap()).collect()
        }
        Wire::Messages => {
            answer["content"].as_array().unwrap().iter().filter(|block| block["type"] == "text").collect()
        }
    };
    parts.iter().map(|part| part["text"].as_str().unwrap()).collect()
}

/// The name and arguments of the calls of an answer.
pub(crate) fn calls(wire: Wire, answer: &Value) -> Vec<(String, Value)> {
    let parsed = |arguments: &Value| serde_json::from_str(arguments.as_str().unwrap()).unwrap();
    let name = |value: &Value| value["name"].as_str().unwrap().to_owned();
    match wire {
        Wire::Chat => {
            let calls = answer["choices"][0]["message"]["tool_calls"].as_array().into_iter().flatten();
            calls.map(|call| (name(&call["function"]), parsed(&call["function"]["arguments"]))).collect()
        }
        Wire::Responses => {
            let items = answer["output"].as_array().unwrap().iter().filter(|item| item["type"] == "function_call");
            items.map(|item| (name(item), parsed(&item["arguments"]))).collect()
        }
        Wire::Messages => {
            let blocks = answer["content"].as_array().unwrap().iter().filter(|block| block["type"] == "tool_use");
            blocks.map(|block| (name(block), block["input"].clone())).collect()
        }
    }
}

/// The reason for which an answer ended.
pub(crate) fn reason(wire: Wire, answer: &Value) -> Value {
    match wire {
        Wire::Chat => answer["choices"][0]["finish_reason"].clone(),
        Wire::Responses => match &answer["incomplete_details"]["reason"] {
            Value::Null => answer["status"].clone(),
            reason => reason.clone(),
        },
        Wire::Messages => answer["stop_reason"].clone(),
    }
}

/// The data of all events of a stream. The last one may be `[DONE]`, as a string.
pub(crate) fn events(body: &str) -> Vec<Value> {
    let data = body.lines().filter_map(|line| line.strip_prefix("data: "));
    data.map(|data| serde_json::from_str(data).unwrap_or_else(|_| Value::String(data.to_owned()))).collect()
}

/// The text of all events of a stream.
pub(crate) fn streamed_text(wire: Wire, events: &[Value]) -> String {
    let piece = |event: &Value| match wire {
        Wire::Chat => event["choices"][0]["delta"]["content"].as_str().map(str::to_owned),
        Wire::Responses if event["type"] == "response.output_text.delta" => event["delta"].as_str().map(str::to_owned),
        Wire::Messages => event["delta"]["text"].as_str().map(str::to_owned),
        Wire::Responses => None,
    };
    events.iter().filter_map(piece).collect()
}

/// Whether the stream has the end mark of its wire.
pub(crate) fn has_end(wire: Wire, events: &[Value]) -> bool {
    let Some(last) = events.last() else { return false };
    match wire {
        Wire::Chat => last == "[DONE]",
        Wire::Responses => last["type"] == "response.completed",
        Wire::Messages => last["type"] == "message_stop",
    }
}
