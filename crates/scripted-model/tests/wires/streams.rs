//! The events of each wire, and the unusual ones that real servers send.

use coracle_scripted_model::{
    Arrangement, Call as ScriptCall, CallGroup, Library, Repeat, Script, Step, StreamError, Text, Wire,
};
use serde_json::{Value, json};

use crate::client::{User, WIRES, events, has_end, request, send, start, streamed, streamed_text};

async fn stream(library: Library, wire: Wire) -> Vec<Value> {
    let server = start(library).await;
    let mut request = streamed(request(wire, &[User("Hi")]));
    if wire == Wire::Chat {
        request["stream_options"] = json!({"include_usage": true});
    }
    events(&send(&server, wire, &request).await.text().await.unwrap())
}

fn types(events: &[Value]) -> Vec<&str> {
    let mut types: Vec<&str> = events.iter().filter_map(|event| event["type"].as_str()).collect();
    types.dedup();
    types
}

fn full_turn() -> Library {
    let call = ScriptCall { pieces: 2, ..ScriptCall::new("f", json!({"a": 1})) };
    Library::single([[Step::reasoning("hm"), Step::pieces(&["x", "y"]), Step::Call(call)]])
}

#[tokio::test]
async fn responses_has_all_events_in_order() {
    let events = stream(full_turn(), Wire::Responses).await;
    let expected = "response.created response.in_progress \
        response.output_item.added response.reasoning_summary_part.added response.reasoning_summary_text.delta \
        response.reasoning_summary_text.done response.reasoning_summary_part.done response.output_item.done \
        response.output_item.added response.content_part.added response.output_text.delta response.output_text.done \
        response.content_part.done response.output_item.done \
        response.output_item.added response.function_call_arguments.delta response.function_call_arguments.done \
        response.output_item.done response.completed";
    assert_eq!(types(&events).join(" "), expected);
    let numbers: Vec<u64> = events.iter().map(|event| event["sequence_number"].as_u64().unwrap()).collect();
    assert!(numbers.iter().copied().eq(0..events.len() as u64), "{numbers:?}");
    let done: Vec<&Value> = events
        .iter()
        .filter(|event| event["type"] == "response.output_item.done")
        .map(|event| &event["item"])
        .collect();
    let output = events.last().unwrap()["response"]["output"].as_array().unwrap();
    assert_eq!(done, output.iter().collect::<Vec<_>>());
    assert_eq!(output[2]["arguments"], r#"{"a":1}"#);
}

#[tokio::test]
async fn messages_has_all_events_in_order() {
    let events = stream(full_turn(), Wire::Messages).await;
    let block = "content_block_start content_block_delta content_block_stop";
    let expected = format!("message_start ping {block} {block} {block} message_delta message_stop");
    assert_eq!(types(&events).join(" "), expected);
    assert!(events.iter().any(|event| event["delta"]["type"] == "signature_delta"));
    let json: String = events.iter().filter_map(|event| event["delta"]["partial_json"].as_str()).collect();
    assert_eq!(json, r#"{"a":1}"#);
    assert_eq!(events[events.len() - 2]["delta"]["stop_reason"], "tool_use");
}

#[tokio::test]
async fn chat_has_usage_in_a_last_chunk_without_choices() {
    let events = stream(full_turn(), Wire::Chat).await;
    let usage = &events[events.len() - 2];
    assert_eq!(usage["choices"], json!([]));
    assert!(usage["usage"]["total_tokens"].as_u64().unwrap() > 0);
    assert_eq!(events[events.len() - 3]["choices"][0]["finish_reason"], "tool_calls");
    assert!(events[..events.len() - 2].iter().all(|event| event["usage"].is_null()));
    let named = events.iter().filter(|event| event["choices"][0]["delta"]["tool_calls"][0]["id"].is_string());
    assert_eq!(named.count(), 1);
}

#[tokio::test]
async fn calls_are_mixed_as_the_script_says() {
    let calls = vec![
        ScriptCall { split_name: true, ..ScriptCall::new("first", json!({"a": 1})) },
        ScriptCall { index: Some(u32::MAX), ..ScriptCall::new("second", json!({"b": 2})) },
    ];
    let group = |arrangement| Library::single([[Step::Calls(CallGroup { calls: calls.clone(), arrangement })]]);
    let mixed = stream(group(Arrangement::Interleaved), Wire::Chat).await;
    let deltas: Vec<&Value> =
        mixed.iter().filter_map(|event| event["choices"][0]["delta"]["tool_calls"].get(0)).collect();
    let indexes: Vec<u64> = deltas.iter().map(|delta| delta["index"].as_u64().unwrap()).collect();
    let other = u64::from(u32::MAX);
    assert_eq!(indexes, [0, 0, other, 0, other, 0, other]);
    let name: String = deltas
        .iter()
        .filter(|delta| delta["index"] == 0)
        .filter_map(|delta| delta["function"]["name"].as_str())
        .collect();
    assert_eq!(name, "first");
    let together = stream(group(Arrangement::OneChunk), Wire::Chat).await;
    let chunks: Vec<&Value> = together
        .iter()
        .map(|event| &event["choices"][0]["delta"]["tool_calls"])
        .filter(|calls| calls.is_array())
        .collect();
    assert_eq!(chunks.len(), 1);
    assert_eq!(chunks[0].as_array().unwrap().len(), 2);
    for wire in [Wire::Responses, Wire::Messages] {
        let events = stream(group(Arrangement::Interleaved), wire).await;
        assert!(events.iter().any(|event| event["index"] == other || event["output_index"] == other), "{events:?}");
    }
}

#[tokio::test]
async fn a_finish_reason_can_be_with_the_last_content() {
    let events = stream(Library::single([[Step::pieces(&["x", "y"]), Step::FinishWithContent]]), Wire::Chat).await;
    let last = events.iter().find(|event| event["choices"][0]["finish_reason"] == "stop").unwrap();
    assert_eq!(last["choices"][0]["delta"]["content"], "y");
    assert_eq!(streamed_text(Wire::Chat, &events), "xy");
}

#[tokio::test]
async fn ends_and_errors_are_as_scripted() {
    for wire in WIRES {
        assert!(has_end(wire, &stream(Library::single([[Step::text("x")]]), wire).await));
        for steps in [vec![Step::text("x"), Step::NoEnd], vec![Step::text("x"), Step::Close, Step::text("y")]] {
            let events = stream(Library::single([steps]), wire).await;
            assert_eq!(streamed_text(wire, &events), "x");
            assert!(!has_end(wire, &events));
        }
        let error = StreamError { message: Some("broken".to_owned()), ..StreamError::default() };
        let events = stream(Library::single([[Step::text("x"), Step::Error(error)]]), wire).await;
        assert!(!has_end(wire, &events));
        let messages = |event: &Value| event["error"]["message"] == "broken" || event["message"] == "broken";
        assert!(events.iter().any(messages), "{events:?}");
    }
}

#[tokio::test]
async fn many_tiny_deltas_are_generated() {
    let many = Text { repeat: Some(Repeat { piece: "a".to_owned(), times: 20_000 }), ..Text::default() };
    let library = Library::single([[Step::Text(many)]]).with("unused", Script::new([[Step::Close]]));
    let events = stream(library, Wire::Messages).await;
    assert_eq!(streamed_text(Wire::Messages, &events).len(), 20_000);
    assert!(events.len() > 20_000);
}
