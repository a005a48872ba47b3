//! Chat Completions against a server that sends prepared replies.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

#[path = "support/scripted.rs"]
mod scripted;

use coracle_models::{
    Call, CallResult, ChatCompletions, Dialect, Item, ModelAnswer, ModelError, ModelProvider, Part, StopReason, Usage,
};
use scripted::{KEY, Seen, Server, ask, broken, endless, json, request, sse, stream_of};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::sync::mpsc;

fn chat(server: &Server) -> ChatCompletions {
    ChatCompletions::new(server.endpoint(), Dialect::Compatible)
}

fn hello() -> Vec<Item> {
    vec![Item::User { parts: vec![Part::text("Hello")] }]
}

fn content(text: &str, reason: Option<&str>) -> Value {
    json!({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": reason}]})
}

fn good() -> String {
    sse(&[content("Yes.", Some("stop"))])
}

fn said(answer: &ModelAnswer) -> String {
    let text = |item: &Item| if let Item::Assistant { text, .. } = item { text.clone() } else { String::new() };
    answer.items.iter().map(text).collect()
}

/// The error that a reply causes, and the number of requests.
async fn refused(replies: Vec<axum::response::Response>) -> (ModelError, usize) {
    let server = Server::start(replies).await;
    let error = ask(&chat(&server), &request(hello())).await.unwrap_err();
    (error, server.seen().len())
}

#[tokio::test]
async fn a_stream_becomes_an_answer() {
    let usage = json!({"prompt_tokens": 4, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 3}});
    let text = sse(&[
        json!({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}),
        json!({"choices": [{"index": 0, "delta": {"reasoning_content": "Hm"}}]}),
        content("Y", None),
        content("es.", Some("stop")),
        json!({"choices": [], "usage": usage}),
    ]);
    let text = format!(": a comment\n\ndata:\n\n{text}data: [DONE]\n\n").replace('\n', "\r\n");
    let server = Server::start([stream_of(text)]).await;
    let answer = ask(&chat(&server), &request(hello())).await.unwrap();
    assert_eq!((said(&answer).as_str(), answer.stop), ("Yes.", StopReason::End));
    assert!(matches!(&answer.items[0], Item::Reasoning { text, .. } if text == "Hm"));
    let expected = Usage { input_tokens: 4, cached_tokens: 3, output_tokens: 2, ..Usage::default() };
    assert_eq!(answer.usage, expected);
    let seen = server.seen();
    assert_eq!((seen.len(), seen[0].path.as_str()), (1, "/v1/chat/completions"));
    assert_eq!(seen[0].key.as_deref(), Some(format!("Bearer {KEY}").as_str()));
    assert_eq!(seen[0].body()["messages"][1], json!({"role": "user", "content": "Hello"}));
}

#[tokio::test]
async fn an_answer_needs_an_end() {
    for whole in [good(), format!("{}data: [DONE]\n\n", sse(&[content("Yes.", None)]))] {
        let server = Server::start([stream_of(whole)]).await;
        assert_eq!(said(&ask(&chat(&server), &request(hello())).await.unwrap()), "Yes.");
    }
    let half = sse(&[content("Ye", None)]);
    for reply in [stream_of(half.clone()), broken(half), stream_of(String::new()), json(200, &json!({}))] {
        let (error, requests) = refused(vec![reply]).await;
        assert!(matches!(error, ModelError::Interrupted { .. }), "{error:?}");
        assert_eq!(requests, 1);
    }
}

#[tokio::test]
async fn a_server_need_not_stream() {
    let message = json!({"role": "assistant", "content": null, "tool_calls": [
        {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{\"x\":1}"}},
    ]});
    let reply = json!({"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]});
    let server = Server::start([json(200, &reply)]).await;
    let answer = ask(&chat(&server), &request(hello())).await.unwrap();
    let call = Call { id: "a".to_owned(), name: "f".to_owned(), arguments: "{\"x\":1}".to_owned(), native: None };
    assert_eq!((answer.items, answer.stop), (vec![Item::Call(call)], StopReason::Calls));
}

#[tokio::test]
async fn interleaved_calls_are_told_apart() {
    let calls = |calls: Value| json!({"choices": [{"index": 0, "delta": {"tool_calls": calls}}]});
    let text = sse(&[
        calls(json!([{"index": 0, "id": "a", "function": {"name": "f", "arguments": ""}},
                     {"index": 4_294_967_295_u64, "id": "b", "function": {"name": "g", "arguments": ""}}])),
        calls(json!([{"index": 4_294_967_295_u64, "function": {"arguments": "{\"y\":"}}])),
        calls(json!([{"index": 0, "function": {"arguments": "{\"x\":"}}])),
        calls(json!([{"index": 4_294_967_295_u64, "function": {"arguments": "2}"}}])),
        calls(json!([{"index": 0, "function": {"arguments": "1}"}}])),
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}),
    ]);
    let server = Server::start([stream_of(text)]).await;
    let answer = ask(&chat(&server), &request(hello())).await.unwrap();
    let call = |id: &str, name: &str, arguments: &str| {
        Item::Call(Call { id: id.to_owned(), name: name.to_owned(), arguments: arguments.to_owned(), native: None })
    };
    assert_eq!(answer.items, [call("a", "f", "{\"x\":1}"), call("b", "g", "{\"y\":2}")]);
}

#[tokio::test]
async fn an_error_within_a_stream_ends_it() {
    let error = |code: &str| json!({"error": {"message": format!("because of {KEY}"), "code": code}});
    let text = |code: &str| sse(&[content("Ye", None), error(code)]);
    let (failed, requests) = refused(vec![stream_of(text("server_error"))]).await;
    assert!(matches!(&failed, ModelError::Failed { message, .. } if message == "because of …"), "{failed:?}");
    assert_eq!(requests, 1);
    let (limited, _) = refused(vec![stream_of(text("rate_limit_exceeded"))]).await;
    assert!(matches!(limited, ModelError::RateLimited { .. }), "{limited:?}");
    let (garbage, _) = refused(vec![stream_of("data: {\n\n")]).await;
    assert!(matches!(garbage, ModelError::Malformed { .. }), "{garbage:?}");
    let (page, _) = refused(vec![stream_of("<html>\n</html>\n")]).await;
    assert!(matches!(page, ModelError::Malformed { .. }), "{page:?}");
}

#[tokio::test]
async fn nothing_is_read_without_end() {
    const STREAM: &str = "text/event-stream";
    let filler = || "x".repeat(1 << 20);
    let line = endless(200, STREAM, "data: ", filler());
    let event = endless(200, STREAM, "", format!("data: {}\n", filler()));
    let stream = endless(200, STREAM, "", format!("data: {{\"pad\":\"{}\"}}\n\n", filler()));
    for reply in [line, event, stream] {
        let (error, _) = refused(vec![reply]).await;
        assert!(matches!(error, ModelError::TooLarge { .. }), "{error:?}");
    }
    let (error, _) = refused(vec![endless(200, "application/json", "\"", filler())]).await;
    assert!(matches!(error, ModelError::Malformed { .. }), "{error:?}");
    let (error, _) = refused(vec![endless(400, "application/json", "\"", filler())]).await;
    assert!(matches!(error, ModelError::Rejected { status: 400, .. }), "{error:?}");
}

#[tokio::test]
async fn many_tiny_deltas_arrive() {
    let mut text = sse(&[content("x", None)]).repeat(50_000);
    text.push_str(&good());
    let server = Server::start([stream_of(text)]).await;
    assert_eq!(said(&ask(&chat(&server), &request(hello())).await.unwrap()).len(), 50_004);
}

#[tokio::test]
async fn nobody_has_to_listen() {
    let server = Server::start([stream_of(good())]).await;
    let (events, receiver) = mpsc::channel(1);
    drop(receiver);
    assert_eq!(said(&chat(&server).ask(&request(hello()), &events).await.unwrap()), "Yes.");
}

fn limited(retry_after: Option<&str>, error: &Value) -> axum::response::Response {
    let mut reply = json(429, &json!({"error": error}));
    if let Some(seconds) = retry_after {
        reply.headers_mut().insert("retry-after", seconds.parse().unwrap());
    }
    reply
}

#[tokio::test]
async fn rate_limited_requests_are_repeated() {
    let slow = json!({"message": "Slow down. Your quota per minute is 3.", "code": "rate_limit_exceeded"});
    let overloaded = json(503, &json!({"error": {"message": "overloaded"}}));
    let replies = [limited(Some("0"), &slow), limited(Some("0.001"), &slow), overloaded, stream_of(good())];
    let server = Server::start(replies).await;
    assert_eq!(said(&ask(&chat(&server), &request(hello())).await.unwrap()), "Yes.");
    let seen = server.seen();
    assert_eq!(seen.len(), 4);
    assert!(seen.iter().all(|request| request.text == seen[0].text));

    let replies = (0..5).map(|_| limited(Some("0"), &slow)).collect();
    let (error, requests) = refused(replies).await;
    assert!(matches!(error, ModelError::RateLimited { .. }), "{error:?}");
    assert_eq!(requests, 4);
}

#[tokio::test]
async fn requests_are_not_repeated_in_vain() {
    let used_up = json!({"message": "Check your plan.", "type": "insufficient_quota", "code": "insufficient_quota"});
    let told = json!({"message": "You exceeded your current quota."});
    let long = json!({"message": "Slow down."});
    let replies = [
        (limited(Some("0"), &used_up), Some(Duration::ZERO)),
        (limited(None, &told), None),
        (limited(Some("3600"), &long), Some(Duration::from_hours(1))),
    ];
    for (reply, expected) in replies {
        let (error, requests) = refused(vec![reply, stream_of(good())]).await;
        assert!(matches!(error, ModelError::RateLimited { retry_after, .. } if retry_after == expected), "{error:?}");
        assert_eq!(requests, 1);
    }
}

#[tokio::test]
async fn a_full_context_is_told_apart() {
    let openai = json!({"error": {"message": "Too many tokens.", "code": "context_length_exceeded"}});
    let vllm = json!({"object": "error", "message": "This model's maximum context length is 10 tokens.", "code": 400});
    for body in [openai, vllm] {
        let (error, requests) = refused(vec![json(400, &body)]).await;
        assert!(matches!(error, ModelError::ContextFull { .. }), "{error:?}");
        assert_eq!(requests, 1);
    }
    let (other, _) = refused(vec![json(400, &json!({"error": {"message": "No such model."}}))]).await;
    assert!(matches!(&other, ModelError::Rejected { status: 400, message, .. } if message == "No such model."));
}

#[tokio::test]
async fn no_error_and_no_debug_output_has_the_key() {
    let body = json!({"error": {"message": format!("Incorrect API key {KEY}"), "code": "invalid_api_key"}});
    for status in [400, 401, 403, 404] {
        let server = Server::start([json(status, &body)]).await;
        let provider = chat(&server);
        let error = ask(&provider, &request(hello())).await.unwrap_err();
        assert_eq!(matches!(error, ModelError::Unauthorized { .. }), matches!(status, 401 | 403), "{error:?}");
        for text in [error.to_string(), format!("{error:?}"), format!("{provider:?}"), provider.identity().to_owned()] {
            assert!(!text.contains(KEY), "{text}");
        }
        assert!(server.seen()[0].key.as_deref().unwrap().contains(KEY));
    }
}

#[tokio::test]
async fn redirects_are_not_followed() {
    for status in [301, 302, 307, 308] {
        let other = Server::start([stream_of(good())]).await;
        let mut reply = json(status, &json!({}));
        reply.headers_mut().insert("location", format!("{}/chat/completions", other.url()).parse().unwrap());
        let (error, requests) = refused(vec![reply]).await;
        assert!(matches!(error, ModelError::Rejected { status: found, .. } if found == status), "{error:?}");
        assert_eq!((requests, other.seen().len()), (1, 0));
        // The other server would have answered.
        assert!(ask(&chat(&other), &request(hello())).await.is_ok());
    }
}

#[tokio::test]
async fn what_a_server_wants_back_is_sent_back_to_it_only() {
    let signed = json!({"google": {"thought_signature": "c2lnbmVk"}});
    let details = json!([{"type": "reasoning.encrypted", "data": "ZW5j"}]);
    let turn = sse(&[
        json!({"choices": [{"index": 0, "delta": {"reasoning": "Hm", "reasoning_details": details}}]}),
        json!({"choices": [{"index": 0, "delta": {"tool_calls": [
            {"index": 0, "id": "a", "extra_content": signed, "function": {"name": "draw", "arguments": "{}"}},
        ]}, "finish_reason": "tool_calls"}]}),
    ]);
    let server = Server::start([stream_of(turn), stream_of(good())]).await;
    let provider = chat(&server);
    let mut items = hello();
    items.extend(ask(&provider, &request(items.clone())).await.unwrap().items);
    let image = Part::Image { mime: "image/png".to_owned(), data: "AAAA".to_owned() };
    let parts = vec![Part::text("drawn"), image];
    items.push(Item::Result(CallResult { call_id: "a".to_owned(), parts, is_error: false }));
    ask(&provider, &request(items.clone())).await.unwrap();
    let seen = server.seen();
    let messages = seen[1].body()["messages"].clone();
    assert_eq!(messages[2]["tool_calls"][0]["extra_content"], signed);
    assert_eq!(messages[2]["reasoning_details"], details);
    assert_eq!((&messages[3]["role"], &messages[3]["tool_call_id"]), (&json!("tool"), &json!("a")));
    assert_eq!(messages[4]["role"], "user");
    assert_eq!(messages[4]["content"][1]["image_url"]["url"], "data:image/png;base64,AAAA");
    let first = seen[0].body()["messages"].to_string();
    assert!(messages.to_string().starts_with(first.strip_suffix(']').unwrap()), "{first}");

    let other = Server::start([stream_of(good())]).await;
    ask(&chat(&other), &request(items)).await.unwrap();
    let text = other.seen()[0].text.clone();
    assert!(!text.contains("c2lnbmVk") && !text.contains("ZW5j") && text.contains("\"draw\""), "{text}");
}

#[tokio::test]
async fn the_usage_is_not_asked_for_where_that_is_an_error() {
    let wrong = json!([{"type": "extra_forbidden", "loc": ["body", "stream_options", "include_usage"]}]);
    let reply = json(422, &json!({"object": "error", "message": {"detail": wrong}, "type": "invalid_request_error"}));
    let server = Server::start([reply, stream_of(good())]).await;
    assert_eq!(said(&ask(&chat(&server), &request(hello())).await.unwrap()), "Yes.");
    let bodies: Vec<_> = server.seen().iter().map(Seen::body).collect();
    assert!(bodies[0].get("stream_options").is_some() && bodies[1].get("stream_options").is_none());
    assert_eq!(bodies[0]["messages"], bodies[1]["messages"]);
}

#[tokio::test]
async fn models_are_listed() {
    let server = Server::start([json(200, &json!({"data": [{"id": "small"}, {"id": ""}, {}, {"id": "large"}]}))]).await;
    assert_eq!(chat(&server).models().await.unwrap(), ["small", "large"]);
    assert_eq!(server.seen()[0].path, "/v1/models");
}
