use super::Draft;
use crate::conversation::{Call, Item, Native};
use crate::endpoint::{Endpoint, EndpointSettings};
use crate::error::ModelError;
use crate::meter::{MAX_ARGUMENT_BYTES, MAX_CALLS, MAX_TEXT_BYTES};
use crate::provider::{ModelAnswer, ModelEvent, StopReason, Usage};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tokio::sync::mpsc;

const ORIGIN: &str = "chat test";

/// The answer that these chunks make, whose deltas equal its items.
async fn answer(chunks: &[Value]) -> Result<ModelAnswer, ModelError> {
    let endpoint =
        Endpoint::new(&EndpointSettings { url: "http://host/v1".to_owned(), ..EndpointSettings::default() }).unwrap();
    let (sender, mut receiver) = mpsc::channel(1_000);
    let mut draft = Draft::default();
    let mut events = Vec::new();
    for chunk in chunks {
        events.extend(draft.add(chunk)?);
    }
    let answer = draft.finish(&endpoint, ORIGIN, &sender).await?;
    while let Ok(event) = receiver.try_recv() {
        events.push(event);
    }
    let mut calls: BTreeMap<usize, Call> = BTreeMap::new();
    for event in events {
        match event {
            ModelEvent::CallBegan { index, id, name } => {
                let call = Call { id, name, arguments: String::new(), native: None };
                assert_eq!(calls.insert(index, call), None);
            }
            ModelEvent::CallArguments { index, delta } => calls.get_mut(&index).unwrap().arguments.push_str(&delta),
            ModelEvent::Text(_) | ModelEvent::Reasoning(_) => {}
        }
    }
    let made = made(&answer).into_iter().map(|call| Call { native: None, ..call });
    assert_eq!(calls, made.enumerate().collect::<BTreeMap<_, _>>());
    Ok(answer)
}

fn made(answer: &ModelAnswer) -> Vec<Call> {
    let call = |item: &Item| if let Item::Call(call) = item { Some(call.clone()) } else { None };
    answer.items.iter().filter_map(call).collect()
}

/// Name and arguments of the calls of an answer.
async fn calls(deltas: &[Value]) -> Vec<(String, String)> {
    let mut chunks: Vec<_> =
        deltas.iter().map(|calls| json!({"choices": [{"delta": {"tool_calls": calls}}]})).collect();
    chunks.push(json!({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}));
    let answer = answer(&chunks).await.unwrap();
    assert_eq!(answer.stop, StopReason::Calls);
    made(&answer).into_iter().map(|call| (call.name, call.arguments)).collect()
}

fn pairs(calls: &[(&str, &str)]) -> Vec<(String, String)> {
    calls.iter().map(|(name, arguments)| ((*name).to_owned(), (*arguments).to_owned())).collect()
}

#[tokio::test]
async fn deltas_belong_to_the_index_and_not_to_the_position() {
    let found = calls(&[
        json!([{"index": 0, "id": "a", "function": {"name": "first", "arguments": ""}}]),
        json!([{"index": 1, "id": "b", "function": {"name": "second", "arguments": "{\"y\""}}]),
        json!([{"index": 0, "function": {"arguments": "{\"x\""}}]),
        json!([{"index": 1, "function": {"arguments": ":2}"}}]),
        json!([{"index": 0, "function": {"arguments": ":1}"}}]),
    ])
    .await;
    assert_eq!(found, pairs(&[("first", "{\"x\":1}"), ("second", "{\"y\":2}")]));
}

#[tokio::test]
async fn one_chunk_has_several_calls() {
    let found = calls(&[
        json!([
            {"index": 0, "id": "a", "function": {"name": "first", "arguments": "{"}},
            {"index": 1, "id": "b", "function": {"name": "second", "arguments": "{"}},
        ]),
        json!([{"index": 1, "function": {"arguments": "}"}}, {"index": 0, "function": {"arguments": "}"}}]),
    ])
    .await;
    assert_eq!(found, pairs(&[("first", "{}"), ("second", "{}")]));
}

#[tokio::test]
async fn names_are_split_repeated_or_late() {
    let found = calls(&[
        json!([{"index": 0, "id": "a", "function": {"name": "get_"}}]),
        json!([{"index": 0, "function": {"name": "weather", "arguments": "{"}}]),
        json!([{"index": 0, "function": {"arguments": "}"}}]),
        json!([{"index": 1, "id": "b", "function": {"name": "same", "arguments": "{\"a\":"}}]),
        json!([{"index": 1, "id": "b", "function": {"name": "same", "arguments": "{}"}}]),
        json!([{"index": 1, "id": "b", "function": {"name": "same", "arguments": "}"}}]),
        json!([{"index": 2, "id": "c", "function": {"arguments": "{\"a\":"}}]),
        json!([{"index": 2, "function": {"name": "late", "arguments": "1}"}}]),
    ])
    .await;
    assert_eq!(found, pairs(&[("get_weather", "{}"), ("same", "{\"a\":{}}"), ("late", "{\"a\":1}")]));
}

#[tokio::test]
async fn calls_with_the_same_index_differ_in_their_ids() {
    let found = calls(&[
        json!([{"index": 0, "id": "a", "function": {"name": "first", "arguments": "{\"x\":"}}]),
        json!([{"index": 0, "id": "b", "function": {"name": "second", "arguments": "{\"y\":"}}]),
        json!([{"index": 0, "id": "a", "function": {"arguments": "1}"}}]),
        json!([{"index": 0, "function": {"arguments": "2}"}}]),
    ])
    .await;
    // A delta without an ID belongs to the last call.
    assert_eq!(found, pairs(&[("first", "{\"x\":1}"), ("second", "{\"y\":2}")]));
}

#[tokio::test]
async fn calls_without_an_index_differ_in_their_ids() {
    let found = calls(&[
        json!([{"id": "a", "function": {"name": "first", "arguments": "{"}}]),
        json!([{"function": {"arguments": "}"}}]),
        json!([{"id": "b", "function": {"name": "second", "arguments": "{}"}}]),
    ])
    .await;
    assert_eq!(found, pairs(&[("first", "{}"), ("second", "{}")]));
}

#[tokio::test]
async fn calls_without_any_id_arrive_as_a_whole() {
    for index in [json!(0), Value::Null] {
        let call =
            |arguments: &str| json!({"index": index, "id": "", "function": {"name": "f", "arguments": arguments}});
        let found = calls(&[json!([call("{\"a\":1}"), call("{\"a\":2}")]), json!([call("{}")])]).await;
        assert_eq!(found, pairs(&[("f", "{\"a\":1}"), ("f", "{\"a\":2}"), ("f", "{}")]));
    }
}

#[tokio::test]
async fn ids_of_calls_are_unique() {
    let call = |index: u64, id: &str| json!([{"index": index, "id": id, "function": {"name": "f", "arguments": "{}"}}]);
    let chunk = |calls: Value| json!({"choices": [{"delta": {"tool_calls": calls}, "finish_reason": "stop"}]});
    let more = json!([{"index": 1, "id": "f", "function": {"arguments": " "}}]);
    let answer = answer(&[chunk(call(0, "f")), chunk(call(1, "f")), chunk(call(2, "")), chunk(more)]).await.unwrap();
    let calls = made(&answer);
    assert_eq!((calls.len(), calls[0].id.as_str(), calls[1].arguments.as_str()), (3, "f", "{} "));
    assert!(calls[1].id != "f" && calls[1].id.starts_with("call_") && calls[2].id.starts_with("call_"));
    assert_eq!(answer.stop, StopReason::Calls);
}

#[tokio::test]
async fn arguments_are_absent_blank_or_an_object() {
    let found = calls(&[
        json!([{"index": 0, "id": "a", "function": {"name": "absent"}}]),
        json!([{"index": 1, "id": "b", "function": {"name": "null", "arguments": null}}]),
        json!([{"index": 2, "id": "c", "function": {"name": "blank", "arguments": " "}}]),
        json!([{"index": 3, "id": "d", "function": {"name": "object", "arguments": {"a": [1]}}}]),
    ])
    .await;
    let expected = [("absent", "{}"), ("null", "{}"), ("blank", " {}"), ("object", "{\"a\":[1]}")];
    assert_eq!(found, pairs(&expected));
}

#[tokio::test]
async fn indices_and_other_values_of_the_wire_are_hostile() {
    let found = calls(&[
        json!([{"index": 4_294_967_295_u64, "id": "a", "function": {"name": "far", "arguments": "{}"}}]),
        json!([{"index": u64::MAX, "id": "b", "function": {"name": "farther", "arguments": "{}"}}]),
        json!([{"index": -1, "id": "c", "function": {"name": "negative", "arguments": "{}"}}]),
        json!([null, 7, "text", []]),
        json!("text"),
    ])
    .await;
    assert_eq!(found, pairs(&[("far", "{}"), ("farther", "{}"), ("negative", "{}")]));
    for chunk in
        [json!(null), json!([]), json!({"choices": 1}), json!({"choices": [1]}), json!({"choices": [{"delta": 1}]})]
    {
        let error = answer(&[chunk]).await.unwrap_err();
        assert!(matches!(error, ModelError::Interrupted { .. }), "{error:?}");
    }
    let nameless = json!([{"index": 0, "id": "a", "function": {"arguments": "{}"}}]);
    let chunk = json!({"choices": [{"delta": {"tool_calls": nameless}, "finish_reason": "stop"}]});
    assert!(matches!(answer(&[chunk]).await, Err(ModelError::Malformed { .. })));
}

#[tokio::test]
async fn answers_have_limits() {
    let content = |text: String| json!({"choices": [{"delta": {"content": text}, "finish_reason": "stop"}]});
    assert!(answer(&[content("x".repeat(MAX_TEXT_BYTES))]).await.is_ok());
    let too_large = |result| matches!(result, Err(ModelError::TooLarge { .. }));
    assert!(too_large(answer(&[content("x".repeat(MAX_TEXT_BYTES + 1))]).await));
    let call = |index: usize, arguments: String| {
        let function = json!({"name": "f", "arguments": arguments});
        let calls = json!([{"index": index, "id": format!("id{index}"), "function": function}]);
        json!({"choices": [{"delta": {"tool_calls": calls}, "finish_reason": "stop"}]})
    };
    assert!(answer(&[call(0, "x".repeat(MAX_ARGUMENT_BYTES))]).await.is_ok());
    assert!(too_large(answer(&[call(0, "x".repeat(MAX_ARGUMENT_BYTES + 1))]).await));
    let many: Vec<_> = (0..=MAX_CALLS).map(|index| call(index, "{}".to_owned())).collect();
    assert_eq!(made(&answer(&many[..MAX_CALLS]).await.unwrap()).len(), MAX_CALLS);
    assert!(too_large(answer(&many).await));
    let name = json!([{"index": 0, "id": "a", "function": {"name": "n".repeat(10_000)}}]);
    assert!(too_large(answer(&[json!({"choices": [{"delta": {"tool_calls": name}}]})]).await));
}

#[test]
fn a_million_tiny_deltas_are_put_together() {
    let text = json!({"choices": [{"delta": {"content": "x"}}]});
    let arguments = json!({"choices": [{"delta": {"tool_calls": [
        {"index": 0, "id": "a", "function": {"name": "f", "arguments": "7"}},
    ]}}]});
    let mut draft = Draft::default();
    let mut count = 0;
    for _ in 0..500_000 {
        count += draft.add(&text).unwrap().len();
        count += draft.add(&arguments).unwrap().len();
    }
    assert_eq!((count, draft.text.len(), draft.calls[0].arguments.len()), (1_000_001, 500_000, 500_000));
}

#[tokio::test]
async fn text_may_come_with_the_finish_reason_and_usage_after_it() {
    let usage = json!({
        "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15,
        "prompt_tokens_details": {"cached_tokens": 8},
        "completion_tokens_details": {"reasoning_tokens": 3},
    });
    let chunks = [
        json!({"choices": [{"index": 1, "delta": {"content": "of another choice"}}]}),
        json!({"choices": [{"index": 0, "delta": {"role": "assistant", "content": "Hel"}, "finish_reason": null}]}),
        json!({"choices": [{"index": null, "delta": {"content": "lo"}, "finish_reason": "length"}]}),
        json!({"choices": [], "usage": usage}),
    ];
    let expected = ModelAnswer {
        items: vec![Item::Assistant { text: "Hello".to_owned(), native: None }],
        stop: StopReason::Length,
        usage: Usage { input_tokens: 10, cached_tokens: 8, output_tokens: 5, reasoning_tokens: 3, ..Usage::default() },
    };
    assert_eq!(answer(&chunks).await.unwrap(), expected);
}

#[tokio::test]
async fn reasoning_and_unknown_fields_are_kept() {
    let signed = json!({"google": {"thought_signature": "c2ln"}});
    let detail = |text: &str| json!({"type": "reasoning.encrypted", "data": text});
    let chunks = [
        json!({"choices": [{"delta": {"reasoning": "Hm", "reasoning_content": "Hm", "reasoning_details": [detail("a")]}}]}),
        json!({"choices": [{"delta": {"reasoning_details": [detail("b")]}}]}),
        json!({"choices": [{"delta": {"tool_calls": [
            {"index": 0, "id": "a", "type": "function", "extra_content": signed, "function": {"name": "f"}},
        ]}, "finish_reason": "tool_calls"}]}),
    ];
    let native = |value| Some(Native { origin: ORIGIN.to_owned(), value });
    let call = Call {
        id: "a".to_owned(),
        name: "f".to_owned(),
        arguments: "{}".to_owned(),
        native: native(json!({"extra_content": signed})),
    };
    let details = native(json!({"reasoning_details": [detail("a"), detail("b")]}));
    let expected = vec![Item::Reasoning { text: "Hm".to_owned(), native: details }, Item::Call(call)];
    assert_eq!(answer(&chunks).await.unwrap().items, expected);
}

#[tokio::test]
async fn refusals_and_filters_are_told_apart_from_an_end() {
    let chunk = |delta: Value, reason: &str| json!({"choices": [{"delta": delta, "finish_reason": reason}]});
    let refusal = answer(&[chunk(json!({"refusal": "No."}), "stop")]).await.unwrap();
    assert_eq!(refusal.items, [Item::Assistant { text: "No.".to_owned(), native: None }]);
    assert_eq!(refusal.stop, StopReason::Refusal);
    assert_eq!(answer(&[chunk(json!({}), "content_filter")]).await.unwrap().stop, StopReason::Refusal);
    let parts =
        json!({"content": [{"type": "thinking", "thinking": [{"text": "Hm"}]}, {"type": "text", "text": "Yes."}]});
    let answer = answer(&[chunk(parts, "stop")]).await.unwrap();
    assert_eq!(answer.stop, StopReason::End);
    assert!(matches!(&answer.items[..], [Item::Reasoning { text, .. }, Item::Assistant { .. }] if text == "Hm"));
}
