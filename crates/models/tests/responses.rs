//! Responses against a server that sends prepared replies.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

#[path = "support/scripted.rs"]
mod scripted;

use coracle_models::{
    CallResult, Effort, Item, ModelAnswer, ModelError, ModelProvider, ModelRequest, Part, Responses, StopReason, Usage,
};
use scripted::{KEY, Seen, Server, ask, broken, endless, json, request, sse, stream_of};
use serde_json::{Value, json};
use tokio::sync::mpsc;

fn responses(server: &Server) -> Responses {
    Responses::new(server.endpoint())
}

fn hello() -> Vec<Item> {
    vec![Item::User { parts: vec![Part::text("Hello")] }]
}

fn message(text: &str) -> Value {
    let content = json!([{"type": "output_text", "text": text, "annotations": []}]);
    json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content})
}

fn event(kind: &str, output_index: u64, name: &str, value: impl Into<Value>) -> Value {
    let mut event = json!({"type": format!("response.{kind}"), "output_index": output_index});
    event[name] = value.into();
    event
}

fn response(status: &str, output: &Value) -> Value {
    json!({"id": "resp_1", "object": "response", "status": status, "output": output, "error": null})
}

fn completed(output: &Value) -> Value {
    json!({"type": "response.completed", "response": response("completed", output)})
}

fn good() -> String {
    sse(&[event("output_item.done", 0, "item", message("Yes.")), completed(&json!([message("Yes.")]))])
}

fn said(answer: &ModelAnswer) -> String {
    let text = |item: &Item| if let Item::Assistant { text, .. } = item { text.clone() } else { String::new() };
    answer.items.iter().map(text).collect()
}

/// The error that a reply causes, and the number of requests.
async fn refused(reply: axum::response::Response) -> (ModelError, usize) {
    let server = Server::start([reply]).await;
    let error = ask(&responses(&server), &request(hello())).await.unwrap_err();
    (error, server.seen().len())
}

#[tokio::test]
async fn a_stream_becomes_an_answer() {
    let usage = json!({
        "input_tokens": 4,
        "input_tokens_details": {"cached_tokens": 3},
        "output_tokens": 2,
        "output_tokens_details": {"reasoning_tokens": 1},
    });
    let mut end = completed(&json!([message("Yes.")]));
    end["response"]["usage"] = usage;
    let events = [
        json!({"type": "response.created", "response": response("in_progress", &json!([]))}),
        event("output_item.added", 0, "item", message("")),
        event("output_text.delta", 0, "delta", "Ye"),
        event("output_text.delta", 0, "delta", "s."),
        event("output_item.done", 0, "item", message("Yes.")),
        end,
    ];
    let mut text = String::new();
    for event in &events {
        text.push_str("event: ");
        text.push_str(event["type"].as_str().unwrap());
        text.push('\n');
        text.push_str(&sse(std::slice::from_ref(event)));
    }
    // The server does not have to close the connection.
    let server = Server::start([endless(200, "text/event-stream", &text, ": ping\n\n".to_owned())]).await;
    let answer = ask(&responses(&server), &request(hello())).await.unwrap();
    assert_eq!((said(&answer).as_str(), answer.stop), ("Yes.", StopReason::End));
    let expected =
        Usage { input_tokens: 4, cached_tokens: 3, output_tokens: 2, reasoning_tokens: 1, ..Usage::default() };
    assert_eq!(answer.usage, expected);
    let seen = server.seen();
    assert_eq!((seen.len(), seen[0].path.as_str()), (1, "/v1/responses"));
    assert_eq!(seen[0].key.as_deref(), Some(format!("Bearer {KEY}").as_str()));
    let body = seen[0].body();
    assert_eq!(
        (&body["stream"], &body["store"], &body["instructions"]),
        (&json!(true), &json!(false), &json!("Be brief."))
    );
}

/// A turn with every event that OpenAI sends, in the form of its SDK's types.
const TURN: &str = include_str!("responses/turn.txt");

#[tokio::test]
async fn a_whole_turn_is_read_and_sent_back() {
    let server = Server::start([stream_of(TURN), stream_of(good())]).await;
    let provider = responses(&server);
    let mut items = hello();
    let answer = ask(&provider, &request(items.clone())).await.unwrap();
    let expected =
        Usage { input_tokens: 120, cached_tokens: 100, cache_write_tokens: 0, output_tokens: 40, reasoning_tokens: 16 };
    assert_eq!((answer.stop, answer.usage), (StopReason::Calls, expected));
    let texts = answer.items.iter().map(|item| match item {
        Item::Assistant { text, .. } | Item::Reasoning { text, .. } => text.clone(),
        Item::Call(call) => format!("{} {} {}", call.id, call.name, call.arguments),
        item => panic!("{item:?}"),
    });
    let expected =
        ["**Look**\n\nI look.\n\nI draw.", "I draw über.", "call_1 draw {\"shape\":\"circle\"}", "call_2 clock {}"];
    assert_eq!(texts.collect::<Vec<_>>(), expected);
    items.extend(answer.items);
    for call_id in ["call_1", "call_2"] {
        let parts = vec![Part::text("done")];
        items.push(Item::Result(CallResult { call_id: call_id.to_owned(), parts, is_error: false }));
    }
    ask(&provider, &request(items)).await.unwrap();
    // The server gets back what it has sent.
    let end: Value = serde_json::from_str(TURN.trim_end().rsplit("data: ").next().unwrap()).unwrap();
    let input = server.seen()[1].body()["input"].clone();
    assert_eq!(input.as_array().unwrap()[1..5], end["response"]["output"].as_array().unwrap()[..]);
}

#[tokio::test]
async fn encrypted_reasoning_survives_a_tool_turn() {
    let reasoning = json!({
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "I draw."}],
        "encrypted_content": "ZW5jcnlwdGVk",
    });
    let call = json!({
        "type": "function_call", "id": "fc_1", "call_id": "a", "name": "draw", "arguments": "{}", "status": "completed",
    });
    let action = json!({"type": "search", "query": "shapes"});
    let search = json!({"type": "web_search_call", "id": "ws_1", "status": "completed", "action": action});
    let turn = sse(&[
        event(
            "output_item.added",
            0,
            "item",
            json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "Z"}),
        ),
        event("reasoning_summary_text.delta", 0, "delta", "I dr"),
        event("output_item.done", 0, "item", reasoning.clone()),
        event("output_item.done", 1, "item", search.clone()),
        event("output_item.done", 2, "item", call.clone()),
        completed(&json!([reasoning, search, call])),
    ]);
    let server = Server::start([stream_of(turn), stream_of(good())]).await;
    let provider = responses(&server);
    let first = ModelRequest { effort: Some(Effort::High), ..request(hello()) };
    let answer = ask(&provider, &first).await.unwrap();
    assert_eq!(answer.stop, StopReason::Calls);
    let mut items = hello();
    items.extend(answer.items);
    // A conversation is stored and loaded between two turns.
    let stored = serde_json::to_string(&items).unwrap();
    let mut items: Vec<Item> = serde_json::from_str(&stored).unwrap();
    let image = Part::Image { mime: "image/png".to_owned(), data: "AAAA".to_owned() };
    let parts = vec![Part::text("drawn"), image];
    items.push(Item::Result(CallResult { call_id: "a".to_owned(), parts, is_error: false }));
    ask(&provider, &ModelRequest { items: items.clone(), ..first }).await.unwrap();
    let seen = server.seen();
    let input = seen[1].body()["input"].clone();
    assert_eq!((&input[1], &input[2], &input[3]), (&reasoning, &search, &call));
    let output = json!([
        {"type": "input_text", "text": "drawn"},
        {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,AAAA"},
    ]);
    assert_eq!(input[4], json!({"type": "function_call_output", "call_id": "a", "output": output}));
    let first = seen[0].body()["input"].to_string();
    assert!(input.to_string().starts_with(first.strip_suffix(']').unwrap()), "{first}");

    let other = Server::start([stream_of(good())]).await;
    ask(&responses(&other), &request(items)).await.unwrap();
    let text = other.seen()[0].text.clone();
    assert!(!text.contains("ZW5j") && !text.contains("ws_1") && text.contains("\"draw\""), "{text}");
}

#[tokio::test]
async fn interleaved_calls_are_told_apart() {
    let call = |id: &str, arguments: &str| json!({"type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": "f", "arguments": arguments});
    let far = 4_294_967_295;
    let text = sse(&[
        event("output_item.added", 0, "item", call("a", "")),
        event("output_item.added", far, "item", call("b", "")),
        event("function_call_arguments.delta", far, "delta", "{\"y\":"),
        event("function_call_arguments.delta", 0, "delta", "{\"x\":"),
        event("function_call_arguments.delta", far, "delta", "2}"),
        event("function_call_arguments.done", 0, "arguments", json!("{\"x\":1}")),
        event("output_item.done", far, "item", call("b", "{\"y\":2}")),
        event("output_item.done", 0, "item", call("a", "{\"x\":1}")),
        completed(&json!([])),
    ]);
    let server = Server::start([stream_of(text)]).await;
    let answer = ask(&responses(&server), &request(hello())).await.unwrap();
    let calls = answer.items.iter().map(|item| match item {
        Item::Call(call) => (call.id.as_str(), call.arguments.as_str()),
        item => panic!("{item:?}"),
    });
    assert_eq!(calls.collect::<Vec<_>>(), [("a", "{\"x\":1}"), ("b", "{\"y\":2}")]);
}

#[tokio::test]
async fn a_server_need_not_stream() {
    let server = Server::start([json(200, &response("completed", &json!([message("Yes.")])))]).await;
    assert_eq!(said(&ask(&responses(&server), &request(hello())).await.unwrap()), "Yes.");
    let mut cut = response("incomplete", &json!([message("Ye")]));
    cut["incomplete_details"] = json!({"reason": "max_output_tokens"});
    let server = Server::start([json(200, &cut)]).await;
    assert_eq!(ask(&responses(&server), &request(hello())).await.unwrap().stop, StopReason::Length);
    let mut failed = response("failed", &json!([]));
    failed["error"] = json!({"code": "server_error", "message": "Sorry."});
    let (error, _) = refused(json(200, &failed)).await;
    assert!(matches!(&error, ModelError::Failed { message, .. } if message == "Sorry."), "{error:?}");
    for status in ["cancelled", "in_progress", "queued"] {
        let (error, _) = refused(json(200, &response(status, &json!([])))).await;
        assert!(matches!(error, ModelError::Interrupted { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn a_response_needs_an_end() {
    let half = sse(&[event("output_text.delta", 0, "delta", "Ye")]);
    let replies = [
        stream_of(half.clone()),
        stream_of(format!("{half}data: [DONE]\n\n")),
        broken(half),
        stream_of(String::new()),
        json(200, &json!({})),
    ];
    for reply in replies {
        let (error, requests) = refused(reply).await;
        assert!(matches!(error, ModelError::Interrupted { .. }), "{error:?}");
        assert_eq!(requests, 1);
    }
}

#[tokio::test]
async fn errors_within_a_stream_end_it() {
    let begun = event("output_text.delta", 0, "delta", "Ye");
    let failed = |code: &str| {
        let mut response = response("failed", &json!([]));
        response["error"] = json!({"code": code, "message": format!("because of {KEY}")});
        json!({"type": "response.failed", "response": response})
    };
    let plain = json!({"type": "error", "code": "server_error", "message": "because of it", "param": null});
    let nested = json!({"type": "error", "error": {"type": "server_error", "message": "because of it"}});
    let bare = json!({"error": {"message": "because of it"}});
    for error in [failed("server_error"), plain, nested, bare] {
        let (error, requests) = refused(stream_of(sse(&[begun.clone(), error]))).await;
        assert!(matches!(&error, ModelError::Failed { message, .. } if message.starts_with("because of")), "{error:?}");
        assert!(!format!("{error:?}").contains(KEY));
        assert_eq!(requests, 1);
    }
    let (error, _) = refused(stream_of(sse(&[begun.clone(), failed("rate_limit_exceeded")]))).await;
    assert!(matches!(error, ModelError::RateLimited { .. }), "{error:?}");
    let (error, _) = refused(stream_of(sse(&[failed("context_length_exceeded")]))).await;
    assert!(matches!(error, ModelError::ContextFull { .. }), "{error:?}");
    let (error, _) = refused(stream_of("data: {\n\n")).await;
    assert!(matches!(error, ModelError::Malformed { .. }), "{error:?}");
}

#[tokio::test]
async fn nothing_is_read_without_end() {
    let filler = "x".repeat(1 << 20);
    let line = endless(200, "text/event-stream", "data: ", filler.clone());
    let stream = endless(200, "text/event-stream", "", format!("data: {{\"type\":\"{filler}\"}}\n\n"));
    for reply in [line, stream] {
        let (error, _) = refused(reply).await;
        assert!(matches!(error, ModelError::TooLarge { .. }), "{error:?}");
    }
    let (error, _) = refused(endless(200, "application/json", "\"", filler)).await;
    assert!(matches!(error, ModelError::Malformed { .. }), "{error:?}");
}

#[tokio::test]
async fn many_tiny_deltas_arrive() {
    let mut text = sse(&[event("output_text.delta", 0, "delta", "x")]).repeat(50_000);
    text.push_str(&sse(&[completed(&json!([]))]));
    let server = Server::start([stream_of(text)]).await;
    assert_eq!(said(&ask(&responses(&server), &request(hello())).await.unwrap()).len(), 50_000);
}

#[tokio::test]
async fn nobody_has_to_listen() {
    let server = Server::start([stream_of(good())]).await;
    let (events, receiver) = mpsc::channel(1);
    drop(receiver);
    assert_eq!(said(&responses(&server).ask(&request(hello()), &events).await.unwrap()), "Yes.");
}

#[tokio::test]
async fn refusals_have_neither_key_nor_repetition() {
    let body = json!({"error": {"message": format!("Incorrect API key {KEY}"), "code": "invalid_api_key"}});
    let server = Server::start([json(401, &body)]).await;
    let provider = responses(&server);
    let error = ask(&provider, &request(hello())).await.unwrap_err();
    assert!(matches!(error, ModelError::Unauthorized { status: 401, .. }), "{error:?}");
    for text in [error.to_string(), format!("{error:?}"), format!("{provider:?}"), provider.identity().to_owned()] {
        assert!(!text.contains(KEY), "{text}");
    }
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let other = Server::start([stream_of(good())]).await;
    let mut reply = json(307, &json!({}));
    reply.headers_mut().insert("location", format!("{}/responses", other.url()).parse().unwrap());
    let (error, requests) = refused(reply).await;
    assert!(matches!(error, ModelError::Rejected { status: 307, .. }), "{error:?}");
    assert_eq!((requests, other.seen().len()), (1, 0));
    // The other server would have answered.
    assert!(ask(&responses(&other), &request(hello())).await.is_ok());
}

#[tokio::test]
async fn encrypted_reasoning_is_not_asked_of_models_without_any() {
    let reply =
        json!({"error": {"message": "Encrypted content is not supported with this model.", "param": "include"}});
    let server = Server::start([json(400, &reply), stream_of(good())]).await;
    assert_eq!(said(&ask(&responses(&server), &request(hello())).await.unwrap()), "Yes.");
    let bodies: Vec<_> = server.seen().iter().map(Seen::body).collect();
    assert!(bodies[0].get("include").is_some() && bodies[1].get("include").is_none());
    assert_eq!(bodies[0]["input"], bodies[1]["input"]);
}

#[tokio::test]
async fn models_are_listed() {
    let server = Server::start([json(200, &json!({"data": [{"id": "small"}]}))]).await;
    assert_eq!(responses(&server).models().await.unwrap(), ["small"]);
    assert_eq!(server.seen()[0].path, "/v1/models");
}
