use super::*;
use crate::endpoint::EndpointSettings;
use crate::meter::{MAX_ARGUMENT_BYTES, MAX_CALLS, MAX_ITEMS, MAX_TEXT_BYTES};
use serde_json::json;

const ORIGIN: &str = "messages test";

fn endpoint() -> Endpoint {
    Endpoint::new(&EndpointSettings { url: "http://model.test/v1".to_owned(), ..EndpointSettings::default() }).unwrap()
}

/// Reads a stream.
async fn read(stream: &[Value]) -> (Result<ModelAnswer, ModelError>, Vec<ModelEvent>) {
    let endpoint = endpoint();
    let (sender, mut receiver) = mpsc::channel(10_000);
    let mut draft = Draft::new(&endpoint);
    let mut result = Ok(());
    for event in stream {
        result = draft.add(event, &sender).await;
        if result.is_err() {
            break;
        }
    }
    let answer = match result {
        Ok(()) => draft.finish(ORIGIN, &sender).await,
        Err(error) => Err(error),
    };
    drop(sender);
    let mut events = Vec::new();
    while let Some(event) = receiver.recv().await {
        events.push(event);
    }
    (answer, events)
}

fn start(index: u64, block: &Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn delta(index: u64, delta: &Value) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

fn text_delta(index: u64, text: &str) -> Value {
    delta(index, &json!({"type": "text_delta", "text": text}))
}

fn json_delta(index: u64, text: &str) -> Value {
    delta(index, &json!({"type": "input_json_delta", "partial_json": text}))
}

fn text_block() -> Value {
    json!({"type": "text", "text": "", "citations": null})
}

fn call_block(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "run", "input": {}})
}

fn end(reason: &str) -> [Value; 2] {
    let delta = json!({"stop_reason": reason, "stop_sequence": null});
    [json!({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 7}}), json!({"type": "message_stop"})]
}

fn assistant(text: &str) -> Item {
    Item::Assistant { text: text.to_owned(), native: None }
}

fn call(id: &str, arguments: &str) -> Item {
    Item::Call(Call { id: id.to_owned(), name: "run".to_owned(), arguments: arguments.to_owned(), native: None })
}

fn reasoning(text: &str, block: Value) -> Item {
    Item::Reasoning { text: text.to_owned(), native: Some(Native { origin: ORIGIN.to_owned(), value: block }) }
}

/// Deltas equal the items.
fn assert_events_equal_items(events: &[ModelEvent], items: &[Item]) {
    let (mut text, mut thoughts, mut calls) = (String::new(), String::new(), Vec::<(String, String)>::new());
    for event in events {
        match event {
            ModelEvent::Text(more) => text.push_str(more),
            ModelEvent::Reasoning(more) => thoughts.push_str(more),
            ModelEvent::CallBegan { index, id, .. } => {
                assert_eq!(*index, calls.len());
                calls.push((id.clone(), String::new()));
            }
            ModelEvent::CallArguments { index, delta } => calls[*index].1.push_str(delta),
        }
    }
    let mut expected = (String::new(), String::new(), Vec::new());
    for item in items {
        match item {
            Item::Assistant { text, .. } => expected.0.push_str(text),
            Item::Reasoning { text, .. } => expected.1.push_str(text),
            Item::Call(call) => expected.2.push((call.id.clone(), call.arguments.clone())),
            item => panic!("{item:?}"),
        }
    }
    assert_eq!((text, thoughts, calls), expected);
}

#[tokio::test]
async fn a_turn_with_reasoning_text_and_calls() {
    let usage = json!({"input_tokens": 10, "cache_read_input_tokens": 200, "cache_creation_input_tokens": 30,
        "output_tokens": 1});
    let mut stream = vec![
        json!({"type": "message_start", "message": {"id": "msg_1", "content": [], "usage": usage}}),
        json!({"type": "ping"}),
        start(0, &json!({"type": "thinking", "thinking": "", "signature": ""})),
        delta(0, &json!({"type": "thinking_delta", "thinking": "Let me "})),
        delta(0, &json!({"type": "thinking_delta", "thinking": "see."})),
        delta(0, &json!({"type": "signature_delta", "signature": "c2ln"})),
        json!({"type": "content_block_stop", "index": 0}),
        start(1, &json!({"type": "redacted_thinking", "data": "b3BhcXVl"})),
        json!({"type": "content_block_stop", "index": 1}),
        start(2, &text_block()),
        text_delta(2, "I will "),
        text_delta(2, "run it."),
        start(
            3,
            &json!({"type": "tool_use", "id": "toolu_1", "name": "run", "input": {}, "caller": {"type": "direct"}}),
        ),
        json_delta(3, ""),
        json_delta(3, "{\"b\": 1,"),
        json_delta(3, " \"a\": 2}"),
        start(4, &call_block("toolu_2")),
        json!({"type": "content_block_stop", "index": 4}),
    ];
    stream.push(json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {
        "input_tokens": null, "output_tokens": 50, "output_tokens_details": {"thinking_tokens": 20}}}));
    stream.push(json!({"type": "message_stop"}));
    let (answer, events) = read(&stream).await;
    let answer = answer.unwrap();
    let first = Call {
        id: "toolu_1".to_owned(),
        name: "run".to_owned(),
        arguments: "{\"b\": 1, \"a\": 2}".to_owned(),
        native: Some(Native { origin: ORIGIN.to_owned(), value: json!({"caller": {"type": "direct"}}) }),
    };
    assert_eq!(
        answer.items,
        [
            reasoning("Let me see.", json!({"type": "thinking", "thinking": "Let me see.", "signature": "c2ln"})),
            reasoning("", json!({"type": "redacted_thinking", "data": "b3BhcXVl"})),
            assistant("I will run it."),
            Item::Call(first),
            call("toolu_2", "{}"),
        ]
    );
    assert_eq!(answer.stop, StopReason::Calls);
    let expected = Usage {
        input_tokens: 240,
        cached_tokens: 200,
        cache_write_tokens: 30,
        output_tokens: 50,
        reasoning_tokens: 20,
    };
    assert_eq!(answer.usage, expected);
    assert_events_equal_items(&events, &answer.items);
}

#[tokio::test]
async fn interleaved_blocks_are_kept_apart() {
    let mut stream = vec![
        start(7, &call_block("toolu_a")),
        start(u64::from(u32::MAX), &call_block("toolu_b")),
        json_delta(u64::from(u32::MAX), "{\"x\":"),
        json_delta(7, "{\"y\":"),
        start(u64::MAX, &text_block()),
        json_delta(u64::from(u32::MAX), "1}"),
        text_delta(u64::MAX, "so"),
        json_delta(7, "2}"),
    ];
    stream.extend(end("tool_use"));
    let (answer, events) = read(&stream).await;
    let answer = answer.unwrap();
    assert_eq!(answer.items, [call("toolu_a", "{\"y\":2}"), call("toolu_b", "{\"x\":1}"), assistant("so")]);
    assert_events_equal_items(&events, &answer.items);
}

/// Some servers give all blocks the same index, or none.
#[tokio::test]
async fn blocks_with_the_same_index_are_different_blocks() {
    let mut stream = vec![start(0, &text_block()), text_delta(0, "a"), start(0, &call_block("toolu_1"))];
    stream.push(json_delta(0, "{}"));
    stream.push(json!({"type": "content_block_start", "content_block": text_block()}));
    stream.push(json!({"type": "content_block_delta", "delta": {"type": "text_delta", "text": "b"}}));
    stream.extend(end("tool_use"));
    let (answer, events) = read(&stream).await;
    let answer = answer.unwrap();
    assert_eq!(answer.items, [assistant("a"), call("toolu_1", "{}"), assistant("b")]);
    assert_events_equal_items(&events, &answer.items);
}

#[tokio::test]
async fn unknown_blocks_fields_and_events_are_kept_or_ignored() {
    let citation = json!({"type": "char_location", "cited_text": "x"});
    let mut stream = vec![
        json!({"type": "something_new", "index": 0}),
        start(0, &json!({"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}})),
        json_delta(0, "{\"query\":"),
        json_delta(0, "\"rust\"}"),
        start(1, &json!({"type": "compaction", "content": null})),
        delta(1, &json!({"type": "compaction_delta", "content": "The user "})),
        delta(1, &json!({"type": "compaction_delta", "content": "asked."})),
        start(2, &text_block()),
        text_delta(2, "Cited."),
        delta(2, &json!({"type": "citations_delta", "citation": citation})),
        delta(2, &json!({"type": "brand_new_delta", "text": "no"})),
    ];
    stream.extend(end("end_turn"));
    let (answer, events) = read(&stream).await;
    let answer = answer.unwrap();
    let search = json!({"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "rust"}});
    let cited = Native { origin: ORIGIN.to_owned(), value: json!({"citations": [citation]}) };
    assert_eq!(
        answer.items,
        [
            reasoning("", search),
            reasoning("", json!({"type": "compaction", "content": "The user asked."})),
            Item::Assistant { text: "Cited.".to_owned(), native: Some(cited) },
        ]
    );
    assert_eq!(answer.stop, StopReason::End);
    assert_events_equal_items(&events, &answer.items);
}

#[tokio::test]
async fn a_message_that_is_not_streamed() {
    let endpoint = endpoint();
    let (sender, mut receiver) = mpsc::channel(10);
    let message = json!({"type": "message", "role": "assistant", "stop_reason": "tool_use", "content": [
        {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
        {"type": "text", "text": "Now."},
        {"type": "tool_use", "id": "toolu_1", "name": "run", "input": {"code": "1"}},
    ], "usage": {"input_tokens": 3, "output_tokens": 4}});
    let mut draft = Draft::new(&endpoint);
    draft.add_whole(&message, &sender).await.unwrap();
    let answer = draft.finish(ORIGIN, &sender).await.unwrap();
    drop(sender);
    let mut events = Vec::new();
    while let Some(event) = receiver.recv().await {
        events.push(event);
    }
    assert_eq!(
        answer.items,
        [
            reasoning("Hm.", json!({"type": "thinking", "thinking": "Hm.", "signature": "c2ln"})),
            assistant("Now."),
            call("toolu_1", "{\"code\":\"1\"}"),
        ]
    );
    assert_eq!((answer.stop, answer.usage.input_tokens, answer.usage.output_tokens), (StopReason::Calls, 3, 4));
    assert_events_equal_items(&events, &answer.items);

    for (value, expected) in [
        (json!({"type": "error", "error": {"type": "api_error", "message": "Oh no"}}), "model_failed"),
        (json!({"choices": []}), "model_malformed_answer"),
        (json!([]), "model_malformed_answer"),
        (json!({"type": "message", "content": ["text"]}), "model_malformed_answer"),
    ] {
        let (sender, _receiver) = mpsc::channel(10);
        let error = Draft::new(&endpoint).add_whole(&value, &sender).await.unwrap_err();
        assert_eq!(error.code(), expected, "{value}");
    }
}

#[tokio::test]
async fn reasons_to_stop() {
    for (reason, expected, expected_with_call) in [
        ("end_turn", StopReason::End, StopReason::Calls),
        ("stop_sequence", StopReason::End, StopReason::Calls),
        ("tool_use", StopReason::End, StopReason::Calls),
        ("max_tokens", StopReason::Length, StopReason::Length),
        ("model_context_window_exceeded", StopReason::Length, StopReason::Length),
        ("pause_turn", StopReason::Length, StopReason::Length),
        ("refusal", StopReason::Refusal, StopReason::Refusal),
        ("something_new", StopReason::End, StopReason::Calls),
    ] {
        for (block, expected) in [(text_block(), expected), (call_block("toolu_1"), expected_with_call)] {
            let [delta, stop] = end(reason);
            let (answer, _) = read(&[start(0, &block), delta, stop]).await;
            assert_eq!(answer.unwrap().stop, expected, "{reason}");
        }
    }
}

/// Reasoning that was cut off has no signature, and would be rejected.
#[tokio::test]
async fn reasoning_without_signature_is_not_sent_back_if_it_was_cut_off() {
    let block = json!({"type": "thinking", "thinking": "So", "signature": ""});
    let [delta, stop] = end("max_tokens");
    let (answer, _) = read(&[start(0, &block), delta, stop]).await;
    assert_eq!(answer.unwrap().items, [Item::Reasoning { text: "So".to_owned(), native: None }]);
    let [delta, stop] = end("end_turn");
    let (answer, _) = read(&[start(0, &block), delta, stop]).await;
    assert_eq!(answer.unwrap().items, [reasoning("So", block)]);
}

#[tokio::test]
async fn faults() {
    let overloaded = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    let limited = json!({"type": "error", "error": {"type": "rate_limit_error", "message": "Slow down"}});
    let many = |count: usize, block: fn(&str) -> Value| -> Vec<Value> {
        (0..count).map(|index| start(index as u64, &block(&format!("toolu_{index}")))).collect()
    };
    let long = "x".repeat(1_000);
    for (name, stream, expected) in [
        ("nothing", vec![], "model_interrupted"),
        (
            "no message_stop",
            vec![start(0, &text_block()), text_delta(0, "a"), end("end_turn")[0].clone()],
            "model_interrupted",
        ),
        ("error", vec![start(0, &text_block()), text_delta(0, "a"), overloaded], "model_failed"),
        ("limit", vec![limited], "model_rate_limited"),
        ("unknown block", vec![start(0, &text_block()), text_delta(4_294_967_295, "a")], "model_malformed_answer"),
        ("no block", vec![text_delta(0, "a")], "model_malformed_answer"),
        ("wrong delta", vec![start(0, &text_block()), json_delta(0, "{")], "model_malformed_answer"),
        ("no object", vec![start(0, &json!("text"))], "model_malformed_answer"),
        ("null block", vec![json!({"type": "content_block_start", "index": 0})], "model_malformed_answer"),
        ("no name", vec![start(0, &json!({"type": "tool_use", "id": "toolu_1"}))], "model_malformed_answer"),
        ("long ID", vec![start(0, &call_block(&long))], "model_answer_too_large"),
        ("many calls", many(MAX_CALLS + 1, call_block), "model_answer_too_large"),
        ("many blocks", many(MAX_ITEMS + 1, |_| text_block()), "model_answer_too_large"),
        ("long reason", end(&long).to_vec(), "model_answer_too_large"),
    ] {
        let (answer, _) = read(&stream).await;
        assert_eq!(answer.unwrap_err().code(), expected, "{name}");
    }
    // As many as allowed are read.
    for (count, stream) in [
        (MAX_CALLS, many(MAX_CALLS, call_block)),
        (MAX_ITEMS, many(MAX_ITEMS, |index| json!({"type": "text", "text": index}))),
    ] {
        let stream: Vec<Value> = stream.into_iter().chain(end("end_turn")).collect();
        assert_eq!(read(&stream).await.0.unwrap().items.len(), count);
    }
}

#[test]
fn an_endless_number_of_deltas_ends_at_the_limit() {
    for (block, piece, limit) in [
        (text_block(), text_delta(0, "12345678"), MAX_TEXT_BYTES),
        (
            json!({"type": "thinking", "thinking": ""}),
            delta(0, &json!({"type": "thinking_delta", "thinking": "12345678"})),
            MAX_TEXT_BYTES,
        ),
        (
            json!({"type": "thinking", "thinking": ""}),
            delta(0, &json!({"type": "signature_delta", "signature": "12345678"})),
            MAX_TEXT_BYTES,
        ),
        (call_block("toolu_1"), json_delta(0, "12345678"), MAX_ARGUMENT_BYTES),
        (json!({"type": "new"}), json_delta(0, "12345678"), MAX_ARGUMENT_BYTES),
        (json!({"type": "new"}), delta(0, &json!({"type": "more", "x": "123456"})), MAX_TEXT_BYTES),
        (text_block(), delta(0, &json!({"type": "citations_delta", "citation": "123456"})), MAX_TEXT_BYTES),
    ] {
        let endpoint = endpoint();
        let mut draft = Draft::new(&endpoint);
        let mut events = Vec::new();
        draft.event(&start(0, &block), &mut events).unwrap();
        let mut count = 0;
        let error = loop {
            if let Err(error) = draft.event(&piece, &mut events) {
                break error;
            }
            events.clear();
            count += 1;
            assert!(count <= limit, "{piece}");
        };
        assert!(matches!(error, ModelError::TooLarge { .. }), "{error} for {piece}");
        assert!(count >= limit / 16, "{count} of {piece}");
    }
}
