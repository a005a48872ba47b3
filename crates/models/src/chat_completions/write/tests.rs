use super::{Dialect, body};
use crate::conversation::{
    Call, CallResult, Effort, Item, ModelRequest, Native, Part, ResponseFormat, ToolChoice, ToolDefinition,
};
use serde_json::{Map, Value, json};

const ORIGIN: &str = "chat test";

fn native(value: Value) -> Native {
    Native { origin: ORIGIN.to_owned(), value }
}

fn call(id: &str, native: Option<Native>) -> Item {
    Item::Call(Call { id: id.to_owned(), name: "draw".to_owned(), arguments: "{}".to_owned(), native })
}

fn result(id: &str, parts: Vec<Part>) -> Item {
    Item::Result(CallResult { call_id: id.to_owned(), parts, is_error: false })
}

fn image() -> Part {
    Part::Image { mime: "image/png".to_owned(), data: "AAAA".to_owned() }
}

fn request(items: Vec<Item>) -> ModelRequest {
    ModelRequest { model: "small".to_owned(), items, ..ModelRequest::default() }
}

fn conversation() -> Vec<Item> {
    vec![
        Item::User { parts: vec![Part::text("Draw."), image()] },
        Item::Reasoning { text: "Hm".to_owned(), native: Some(native(json!({"reasoning_details": [{"data": "x"}]}))) },
        Item::Assistant { text: "I draw.".to_owned(), native: None },
        call("a", Some(native(json!({"extra_content": {"google": {"thought_signature": "c2ln"}}})))),
        call("b", None),
        result("a", vec![Part::text("done"), image()]),
        result("b", vec![Part::text("done")]),
        Item::Assistant { text: "There.".to_owned(), native: None },
        Item::System { text: "Now in French.".to_owned() },
    ]
}

#[test]
fn a_conversation_is_written_as_messages() {
    let picture = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}});
    let function = json!({"name": "draw", "arguments": "{}"});
    let expected = json!([
        {"role": "user", "content": [{"type": "text", "text": "Draw."}, picture]},
        {
            "role": "assistant",
            "content": "I draw.",
            "reasoning_details": [{"data": "x"}],
            "tool_calls": [
                {
                    "id": "a",
                    "type": "function",
                    "function": function,
                    "extra_content": {"google": {"thought_signature": "c2ln"}},
                },
                {"id": "b", "type": "function", "function": function},
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": "done\n[images of this result follow]"},
        {"role": "tool", "tool_call_id": "b", "content": "done"},
        {"role": "user", "content": [{"type": "text", "text": "Images of the results above:"}, picture]},
        {"role": "assistant", "content": "There."},
        {"role": "system", "content": "Now in French."},
    ]);
    assert_eq!(body(&request(conversation()), ORIGIN, Dialect::Compatible)["messages"], expected);
}

#[test]
fn another_provider_gets_no_native_fields() {
    let written = body(&request(conversation()), "chat elsewhere", Dialect::Compatible).to_string();
    assert!(!written.contains("thought_signature") && !written.contains("reasoning_details"), "{written}");
    assert!(written.contains("I draw."));
}

#[test]
fn longer_conversations_begin_with_the_same_bytes() {
    let items = conversation();
    let texts: Vec<_> = (0..=items.len())
        .map(|length| body(&request(items[..length].to_vec()), ORIGIN, Dialect::Compatible)["messages"].to_string())
        .collect();
    // Only where a model is asked: after a message of the user, and after the last result.
    for (short, long) in [(1, 7), (7, 8), (8, 9), (1, 9), (9, 9)] {
        let begin = texts[short].strip_suffix(']').unwrap();
        assert!(begin.len() > 100 && texts[long].starts_with(begin), "{begin}");
    }
}

#[test]
fn options_depend_on_the_dialect() {
    let request = ModelRequest {
        instructions: "Be brief.".to_owned(),
        tools: vec![ToolDefinition {
            name: "draw".to_owned(),
            description: "Draws".to_owned(),
            parameters: Map::new(),
            strict: Some(true),
        }],
        tool_choice: ToolChoice::Tool("draw".to_owned()),
        parallel_calls: Some(false),
        max_output_tokens: Some(9),
        temperature: Some(0.5),
        top_p: Some(0.25),
        stop: vec!["END".to_owned()],
        effort: Some(Effort::Low),
        format: Some(ResponseFormat::JsonSchema { name: "n".to_owned(), schema: json!({}), strict: Some(true) }),
        cache_key: Some("k".to_owned()),
        ..request(Vec::new())
    };
    let mut expected = json!({
        "model": "small",
        "messages": [{"role": "system", "content": "Be brief."}],
        "stream": true,
        "stream_options": {"include_usage": true},
        "max_completion_tokens": 9,
        "temperature": 0.5,
        "top_p": 0.25,
        "stop": ["END"],
        "reasoning_effort": "low",
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {}, "strict": true}},
        "tools": [{
            "type": "function",
            "function": {"name": "draw", "description": "Draws", "parameters": {}, "strict": true},
        }],
        "tool_choice": {"type": "function", "function": {"name": "draw"}},
        "parallel_tool_calls": false,
        "prompt_cache_key": "k",
    });
    assert_eq!(body(&request, ORIGIN, Dialect::OpenAi), expected);
    let fields = expected.as_object_mut().unwrap();
    fields.remove("max_completion_tokens");
    fields.remove("prompt_cache_key");
    fields.insert("max_tokens".to_owned(), json!(9));
    expected["tools"][0]["function"].as_object_mut().unwrap().remove("strict");
    assert_eq!(body(&request, ORIGIN, Dialect::Compatible), expected);
}
