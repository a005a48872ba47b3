use super::body;
use crate::conversation::{
    Call, CallResult, Effort, Item, ModelRequest, Native, Part, ResponseFormat, ToolChoice, ToolDefinition,
};
use serde_json::{Map, Value, json};

const ORIGIN: &str = "responses test";

fn native(value: Value) -> Native {
    Native { origin: ORIGIN.to_owned(), value }
}

fn image() -> Part {
    Part::Image { mime: "image/png".to_owned(), data: "AAAA".to_owned() }
}

fn reasoning() -> Value {
    json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"})
}

fn message() -> Value {
    let content = json!([{"type": "output_text", "text": "I draw.", "annotations": []}]);
    json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "phase": "commentary", "content": content})
}

fn conversation() -> Vec<Item> {
    let call = |id: &str, native: Option<Native>| {
        Item::Call(Call { id: id.to_owned(), name: "draw".to_owned(), arguments: "{}".to_owned(), native })
    };
    let result =
        |id: &str, parts: Vec<Part>| Item::Result(CallResult { call_id: id.to_owned(), parts, is_error: false });
    vec![
        Item::User { parts: vec![Part::text("Draw."), image()] },
        Item::Reasoning { text: String::new(), native: Some(native(reasoning())) },
        Item::Assistant { text: "I draw.".to_owned(), native: Some(native(message())) },
        call("a", Some(native(json!({"id": "fc_1", "status": "completed"})))),
        call("b", None),
        result("a", vec![Part::text("done"), image()]),
        result("b", vec![Part::text("d"), Part::text("one")]),
        Item::Assistant { text: "There.".to_owned(), native: None },
        Item::System { text: "Now in French.".to_owned() },
    ]
}

fn request(items: Vec<Item>) -> ModelRequest {
    ModelRequest { model: "small".to_owned(), items, ..ModelRequest::default() }
}

#[test]
fn a_conversation_is_written_as_items() {
    let picture = json!({"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,AAAA"});
    let text = |text: &str| json!({"type": "input_text", "text": text});
    let call = |id: &str| json!({"type": "function_call", "call_id": id, "name": "draw", "arguments": "{}"});
    let mut echoed = call("a");
    echoed["id"] = json!("fc_1");
    echoed["status"] = json!("completed");
    let expected = json!([
        {"type": "message", "role": "user", "content": [text("Draw."), picture]},
        reasoning(),
        message(),
        echoed,
        call("b"),
        {"type": "function_call_output", "call_id": "a", "output": [text("done"), picture]},
        {"type": "function_call_output", "call_id": "b", "output": "done"},
        {"type": "message", "role": "assistant", "content": "There."},
        {"type": "message", "role": "system", "content": [text("Now in French.")]},
    ]);
    assert_eq!(body(&request(conversation()), ORIGIN)["input"], expected);
}

#[test]
fn another_provider_gets_no_native_items() {
    let input = body(&request(conversation()), "responses elsewhere")["input"].clone();
    let written = input.to_string();
    assert!(!written.contains("gAAA") && !written.contains("msg_1") && !written.contains("fc_1"), "{written}");
    assert_eq!(input[1], json!({"type": "message", "role": "assistant", "content": "I draw."}));
    assert_eq!(input[2]["call_id"], "a");
}

#[test]
fn reasoning_that_refers_to_stored_content_is_left_out() {
    let written = |value: Value| {
        let items = vec![Item::Reasoning { text: "Hm".to_owned(), native: Some(native(value)) }];
        body(&request(items), ORIGIN)["input"].clone()
    };
    assert_eq!(
        written(json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": null})),
        json!([])
    );
    let open = json!({"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm"}]});
    assert_eq!(written(open.clone()), json!([open]));
    let unknown = json!({"type": "web_search_call", "id": "ws_1"});
    assert_eq!(written(unknown.clone()), json!([unknown]));
}

#[test]
fn longer_conversations_begin_with_the_same_bytes() {
    let items = conversation();
    let texts: Vec<_> =
        (0..=items.len()).map(|length| body(&request(items[..length].to_vec()), ORIGIN)["input"].to_string()).collect();
    let last = &texts[items.len()];
    for text in &texts[1..] {
        let begin = text.strip_suffix(']').unwrap();
        assert!(begin.len() > 10 && last.starts_with(begin), "{begin}");
    }
}

#[test]
fn options_are_written() {
    let tool = |strict| ToolDefinition {
        name: "draw".to_owned(),
        description: "Draws".to_owned(),
        parameters: Map::new(),
        strict,
    };
    let full = ModelRequest {
        instructions: "Be brief.".to_owned(),
        tools: vec![tool(None), tool(Some(true))],
        tool_choice: ToolChoice::Tool("draw".to_owned()),
        parallel_calls: Some(false),
        max_output_tokens: Some(99),
        temperature: Some(0.5),
        top_p: Some(0.25),
        stop: vec!["END".to_owned()],
        effort: Some(Effort::Low),
        format: Some(ResponseFormat::JsonSchema { name: "n".to_owned(), schema: json!({}), strict: Some(true) }),
        cache_key: Some("k".to_owned()),
        ..request(Vec::new())
    };
    let written = |strict| json!({"type": "function", "name": "draw", "description": "Draws", "parameters": {}, "strict": strict});
    let expected = json!({
        "model": "small",
        "input": [],
        "instructions": "Be brief.",
        "stream": true,
        "store": false,
        "include": ["reasoning.encrypted_content"],
        "tools": [written(false), written(true)],
        "tool_choice": {"type": "function", "name": "draw"},
        "parallel_tool_calls": false,
        "max_output_tokens": 99,
        "temperature": 0.5,
        "top_p": 0.25,
        "reasoning": {"effort": "low", "summary": "auto"},
        "text": {"format": {"type": "json_schema", "name": "n", "schema": {}, "strict": true}},
        "prompt_cache_key": "k",
    });
    assert_eq!(body(&full, ORIGIN), expected);
    let bare = json!({
        "model": "small",
        "input": [],
        "stream": true,
        "store": false,
        "include": ["reasoning.encrypted_content"],
        "reasoning": {"effort": "none"},
        "text": {"format": {"type": "json_object"}},
    });
    let few = ModelRequest {
        effort: Some(Effort::None),
        format: Some(ResponseFormat::JsonObject),
        tool_choice: ToolChoice::Required,
        ..request(Vec::new())
    };
    assert_eq!(body(&few, ORIGIN), bare);
}
