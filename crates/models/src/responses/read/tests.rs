use super::{Draft, Ended};
use crate::conversation::{Call, Item, Native};
use crate::error::ModelError;
use crate::meter::{MAX_ARGUMENT_BYTES, MAX_CALLS, MAX_ITEMS, MAX_TEXT_BYTES};
use crate::provider::{ModelAnswer, ModelEvent, StopReason, Usage};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const ORIGIN: &str = "responses test";

/// What the deltas of an answer add up to.
#[derive(Debug, Default, PartialEq)]
struct Sum {
    text: String,
    reasoning: String,
    calls: BTreeMap<usize, (String, String, String)>,
}

/// The answer that these events make, whose deltas equal its items.
fn answer(events: &[Value]) -> Result<ModelAnswer, ModelError> {
    let mut draft = Draft::default();
    for event in events {
        draft.add(event["type"].as_str().unwrap_or_default(), event)?;
    }
    let Ended::Whole(answer) = draft.finish(ORIGIN)? else { panic!("not an answer: {events:?}") };
    let (mut sent, mut made) = (Sum::default(), Sum::default());
    for event in draft.events() {
        match event {
            ModelEvent::Text(text) => sent.text.push_str(&text),
            ModelEvent::Reasoning(text) => sent.reasoning.push_str(&text),
            ModelEvent::CallBegan { index, id, name } => {
                assert_eq!(sent.calls.insert(index, (id, name, String::new())), None);
            }
            ModelEvent::CallArguments { index, delta } => sent.calls.get_mut(&index).unwrap().2.push_str(&delta),
        }
    }
    for item in &answer.items {
        match item {
            Item::Assistant { text, .. } => made.text.push_str(text),
            Item::Reasoning { text, .. } => made.reasoning.push_str(text),
            Item::Call(call) => {
                let call = (call.id.clone(), call.name.clone(), call.arguments.clone());
                made.calls.insert(made.calls.len(), call);
            }
            item => panic!("{item:?} in an answer"),
        }
    }
    assert_eq!(sent, made);
    Ok(answer)
}

fn native(value: &Value) -> Native {
    Native { origin: ORIGIN.to_owned(), value: value.clone() }
}

fn added(index: u64, item: &Value) -> Value {
    json!({"type": "response.output_item.added", "output_index": index, "item": item})
}

fn done(index: u64, item: &Value) -> Value {
    json!({"type": "response.output_item.done", "output_index": index, "item": item})
}

fn delta(kind: &str, index: u64, text: &str) -> Value {
    json!({"type": format!("response.{kind}.delta"), "output_index": index, "delta": text})
}

fn completed(output: &[Value]) -> Value {
    json!({"type": "response.completed", "response": {"status": "completed", "output": output}})
}

fn message(id: &str, text: &str) -> Value {
    let content = json!([{"type": "output_text", "text": text, "annotations": []}]);
    json!({"type": "message", "id": id, "role": "assistant", "status": "completed", "content": content})
}

fn call(id: &str, name: &str, arguments: &str) -> Value {
    json!({
        "type": "function_call",
        "id": format!("fc_{id}"),
        "call_id": id,
        "name": name,
        "arguments": arguments,
        "status": "completed",
    })
}

fn said(text: &str, native: Option<Native>) -> Item {
    Item::Assistant { text: text.to_owned(), native }
}

fn made(id: &str, name: &str, arguments: &str) -> Item {
    let native = Some(native(&json!({"id": format!("fc_{id}"), "status": "completed"})));
    Item::Call(Call { id: id.to_owned(), name: name.to_owned(), arguments: arguments.to_owned(), native })
}

#[test]
fn interleaved_items_are_told_apart() {
    let text = message("msg_1", "Hello");
    let (first, second) = (call("a", "f", "{\"x\":1}"), call("b", "g", "{\"y\":2}"));
    let events = [
        json!({"type": "response.created", "response": {"status": "in_progress", "output": []}}),
        added(0, &message("msg_1", "")),
        added(1, &call("a", "f", "")),
        delta("output_text", 0, "Hel"),
        added(4_294_967_295, &call("b", "g", "")),
        delta("function_call_arguments", 4_294_967_295, "{\"y\""),
        delta("function_call_arguments", 1, "{\"x\""),
        delta("output_text", 0, "lo"),
        delta("function_call_arguments", 4_294_967_295, ":2}"),
        delta("function_call_arguments", 1, ":1}"),
        done(4_294_967_295, &second),
        done(0, &text),
        done(1, &first),
        completed(&[text.clone(), first.clone(), second.clone()]),
    ];
    let answer = answer(&events).unwrap();
    let expected = [said("Hello", Some(native(&text))), made("a", "f", "{\"x\":1}"), made("b", "g", "{\"y\":2}")];
    assert_eq!((answer.items, answer.stop), (expected.to_vec(), StopReason::Calls));
}

#[test]
fn an_item_may_come_only_as_deltas_or_only_as_a_whole() {
    let (text, tool) = (message("msg_1", "Hello"), call("a", "f", "{\"x\":1}"));
    let whole = [said("Hello", Some(native(&text))), made("a", "f", "{\"x\":1}")];
    let output = completed(&[text.clone(), tool.clone()]);
    assert_eq!(answer(std::slice::from_ref(&output)).unwrap().items, whole);
    assert_eq!(answer(&[done(0, &text), done(1, &tool), completed(&[])]).unwrap().items, whole);
    let begun = [added(0, &message("msg_1", "")), delta("output_text", 0, "Hel"), added(1, &call("a", "f", ""))];
    assert_eq!(answer(&[begun.to_vec(), vec![output]].concat()).unwrap().items, whole);

    let arguments =
        json!({"type": "response.function_call_arguments.done", "output_index": 1, "arguments": "{\"x\":1}"});
    let events = [
        delta("output_text", 0, "Hello"),
        added(1, &call("a", "f", "")),
        delta("function_call_arguments", 1, "{\"x\""),
        arguments,
        completed(&[]),
    ];
    let call = Call { id: "a".to_owned(), name: "f".to_owned(), arguments: "{\"x\":1}".to_owned(), native: None };
    assert_eq!(answer(&events).unwrap().items, [said("Hello", None), Item::Call(call)]);
}

#[test]
fn what_was_sent_counts() {
    let (text, tool) = (message("msg_1", "Goodbye"), call("a", "f", "{\"x\":1}"));
    let events = [
        delta("output_text", 0, "Hello"),
        done(0, &text),
        added(1, &call("a", "f", "")),
        delta("function_call_arguments", 1, "{ \"x\": 1 }"),
        done(1, &tool),
        completed(&[text.clone(), tool.clone()]),
    ];
    assert_eq!(answer(&events).unwrap().items, [said("Hello", None), made("a", "f", "{ \"x\": 1 }")]);
}

#[test]
fn servers_send_no_index_or_always_the_same() {
    let (text, tool, other) = (message("msg_1", "Hello"), call("a", "f", "{}"), call("b", "g", "{}"));
    let expected = [said("Hello", Some(native(&text))), made("a", "f", "{}"), made("b", "g", "{}")];
    let same = [
        added(0, &message("msg_1", "")),
        delta("output_text", 0, "Hello"),
        done(0, &text),
        done(0, &text),
        added(0, &call("a", "f", "")),
        delta("function_call_arguments", 0, "{}"),
        done(0, &tool),
        done(0, &other),
        completed(&[text.clone(), tool.clone(), other.clone()]),
    ];
    assert_eq!(answer(&same).unwrap().items, expected);
    let none = [
        json!({"type": "response.output_item.added", "item": message("msg_1", "")}),
        json!({"type": "response.output_item.added", "item": call("a", "f", "")}),
        json!({"type": "response.output_text.delta", "item_id": "msg_1", "delta": "Hello"}),
        json!({"type": "response.function_call_arguments.delta", "item_id": "fc_b", "delta": "{}"}),
        json!({"type": "response.function_call_arguments.delta", "item_id": "fc_a", "delta": "{}"}),
        json!({"type": "response.output_item.done", "item": tool}),
        json!({"type": "response.output_item.done", "item": other}),
        json!({"type": "response.output_item.done", "item": text}),
        completed(&[]),
    ];
    assert_eq!(answer(&none).unwrap().items, expected);
    // A server may give an item another ID in each event: the index counts.
    let changing = [
        added(0, &message("msg_x", "")),
        json!({"type": "response.output_text.delta", "output_index": 0, "item_id": "msg_y", "delta": "Hello"}),
        done(0, &text),
        completed(&[message("msg_z", "Hello")]),
    ];
    assert_eq!(answer(&changing).unwrap().items, expected[..1]);
}

#[test]
fn reasoning_is_readable_and_kept_for_the_server() {
    let item = json!({
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "First."}, {"type": "summary_text", "text": "Second."}],
        "encrypted_content": "gAAA",
    });
    let summary = |part: u64, text: &str| json!({"type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": part, "delta": text});
    let incomplete = json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "g"});
    let expected = [Item::Reasoning { text: "First.\n\nSecond.".to_owned(), native: Some(native(&item)) }];
    let events = [
        added(0, &incomplete),
        summary(0, "Fir"),
        summary(0, "st."),
        summary(1, "Sec"),
        done(0, &item),
        completed(&[]),
    ];
    assert_eq!(answer(&events).unwrap().items, expected);
    assert_eq!(answer(&[completed(&[item])]).unwrap().items, expected);

    let open = json!({"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]});
    let events = [delta("reasoning_text", 0, "Hm"), delta("reasoning_text", 0, "."), done(0, &open), completed(&[])];
    let expected = [Item::Reasoning { text: "Hm.".to_owned(), native: Some(native(&open)) }];
    assert_eq!(answer(&events).unwrap().items, expected);
}

#[test]
fn unknown_items_are_kept_and_unknown_events_ignored() {
    let item = json!({"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"query": "x"}});
    let events = [
        json!({"type": "response.web_search_call.searching", "output_index": 0, "delta": "x"}),
        json!({"type": "keepalive"}),
        added(0, &json!({"type": "web_search_call", "id": "ws_1"})),
        added(1, &json!({"type": "image_generation_call", "id": "ig_1"})),
        done(0, &item),
        completed(&[]),
    ];
    let expected = [Item::Reasoning { text: String::new(), native: Some(native(&item)) }];
    assert_eq!(answer(&events).unwrap().items, expected);
}

#[test]
fn arguments_are_absent_blank_or_an_object() {
    let with = |id: &str, arguments: Value| {
        let mut item = call(id, "f", "");
        item["arguments"] = arguments;
        item
    };
    let events = [
        done(0, &with("a", Value::Null)),
        done(1, &with("b", json!(" "))),
        done(2, &with("c", json!({"x": 1}))),
        completed(&[]),
    ];
    let expected = [made("a", "f", "{}"), made("b", "f", " {}"), made("c", "f", "{\"x\":1}")];
    assert_eq!(answer(&events).unwrap().items, expected);
}

#[test]
fn ids_of_calls_are_unique() {
    let mut nameless = call("", "f", "{}");
    nameless["call_id"] = Value::Null;
    let answer =
        answer(&[done(0, &call("a", "f", "{}")), done(1, &call("a", "f", "{}")), done(2, &nameless), completed(&[])]);
    let ids: Vec<_> = answer
        .unwrap()
        .items
        .into_iter()
        .map(|item| if let Item::Call(call) = item { call.id } else { String::new() })
        .collect();
    assert_eq!(ids[0], "a");
    assert!(ids[1].starts_with("call_") && ids[2].starts_with("call_") && ids[1] != ids[2]);
}

#[test]
fn responses_end_in_several_ways() {
    let incomplete = |reason: Value| {
        let text = message("msg_1", "Hel");
        json!({"type": "response.incomplete", "response": {"output": [text], "incomplete_details": reason}})
    };
    let stop = |event: Value| answer(&[event]).unwrap().stop;
    assert_eq!(stop(incomplete(json!({"reason": "max_output_tokens"}))), StopReason::Length);
    assert_eq!(stop(incomplete(json!({"reason": "content_filter"}))), StopReason::Refusal);
    assert_eq!(stop(incomplete(Value::Null)), StopReason::Length);
    assert_eq!(stop(completed(&[message("msg_1", "Hello")])), StopReason::End);
    assert_eq!(stop(completed(&[])), StopReason::End);
    let refusal = json!({"type": "message", "id": "m", "content": [{"type": "refusal", "refusal": "No."}]});
    let answer = answer(&[delta("refusal", 0, "No"), done(0, &refusal), completed(&[])]).unwrap();
    assert_eq!((answer.items, answer.stop), (vec![said("No.", Some(native(&refusal)))], StopReason::Refusal));
    assert!(matches!(Draft::default().finish(ORIGIN), Ok(Ended::Early)));
    let mut draft = Draft::default();
    draft.add("response.completed", &completed(&[json!({"type": "function_call", "arguments": "{}"})])).unwrap();
    assert!(matches!(draft.finish(ORIGIN), Ok(Ended::NamelessCall)));
}

#[test]
fn usage_has_cached_and_reasoning_tokens() {
    let usage = json!({
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 8, "cache_write_tokens": 1},
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 3},
        "total_tokens": 15,
    });
    let mut event = completed(&[]);
    event["response"]["usage"] = usage;
    let expected =
        Usage { input_tokens: 10, cached_tokens: 8, cache_write_tokens: 1, output_tokens: 5, reasoning_tokens: 3 };
    assert_eq!(answer(&[event]).unwrap().usage, expected);
}

#[test]
fn answers_have_limits() {
    let too_large = |events: &[Value]| matches!(answer(events), Err(ModelError::TooLarge { .. }));
    let text = |size: usize| [delta("output_text", 0, &"x".repeat(size)), completed(&[])];
    assert!(!too_large(&text(MAX_TEXT_BYTES)));
    assert!(too_large(&text(MAX_TEXT_BYTES + 1)));
    let arguments = |size: usize| [done(0, &call("a", "f", &"x".repeat(size))), completed(&[])];
    assert!(!too_large(&arguments(MAX_ARGUMENT_BYTES)));
    assert!(too_large(&arguments(MAX_ARGUMENT_BYTES + 1)));
    let messages = |count: usize| {
        let items = (0..count).map(|index| done(index as u64 * 1_000_000_007, &message(&format!("m{index}"), "x")));
        items.chain([completed(&[])]).collect::<Vec<_>>()
    };
    assert!(!too_large(&messages(MAX_ITEMS)));
    assert!(too_large(&messages(MAX_ITEMS + 1)));
    let calls = |count: usize| {
        let items = (0..count).map(|index| done(index as u64, &call(&format!("c{index}"), "f", "{}")));
        items.chain([completed(&[])]).collect::<Vec<_>>()
    };
    assert!(!too_large(&calls(MAX_CALLS)));
    assert!(too_large(&calls(MAX_CALLS + 1)));
    let secret = |size: usize| {
        let item = json!({"type": "reasoning", "id": "rs", "encrypted_content": "x".repeat(size)});
        [done(0, &item), done(1, &item), completed(&[])]
    };
    assert!(!too_large(&secret(7 << 20)));
    assert!(too_large(&secret(9 << 20)));
    assert!(too_large(&[done(0, &call("a", &"n".repeat(10_000), "{}"))]));
    assert!(too_large(&[added(0, &message(&"n".repeat(10_000), ""))]));
}

#[test]
fn values_of_the_wire_are_hostile() {
    for kind in [
        "response.output_item.added",
        "response.output_item.done",
        "response.output_text.delta",
        "response.refusal.delta",
        "response.reasoning_summary_text.delta",
        "response.reasoning_text.delta",
        "response.completed",
        "response.incomplete",
    ] {
        for value in [json!(null), json!(7), json!("text"), json!([]), json!({})] {
            let mut event = json!({"type": kind});
            for field in ["item", "output_index", "item_id", "delta", "summary_index", "content_index", "response"] {
                event[field] = value.clone();
            }
            let item = json!({"type": value, "id": value, "content": value, "summary": value});
            let nested = json!({"type": kind, "output_index": 0, "item": item, "response": {"output": [value, item]}});
            for event in [event, nested] {
                let mut draft = Draft::default();
                draft.add(kind, &event).unwrap();
                draft.add("response.completed", &completed(&[])).unwrap();
                draft.finish(ORIGIN).unwrap();
            }
        }
    }
}

#[test]
fn a_million_tiny_deltas_are_put_together() {
    let (text, arguments) = (delta("output_text", 0, "x"), delta("function_call_arguments", 1, "7"));
    let mut draft = Draft::default();
    draft.add("response.output_item.added", &added(1, &call("a", "f", ""))).unwrap();
    let mut count = 0;
    for _ in 0..500_000 {
        draft.add("response.output_text.delta", &text).unwrap();
        draft.add("response.function_call_arguments.delta", &arguments).unwrap();
        count += draft.events().len();
    }
    draft.add("response.completed", &completed(&[])).unwrap();
    let Ok(Ended::Whole(answer)) = draft.finish(ORIGIN) else { panic!("not an answer") };
    assert_eq!(count, 1_000_001);
    let sizes = answer.items.iter().map(|item| match item {
        Item::Assistant { text, .. } => text.len(),
        Item::Call(call) => call.arguments.len(),
        _ => 0,
    });
    assert_eq!(sizes.collect::<Vec<_>>(), [500_000, 500_000]);
}
