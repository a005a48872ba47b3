//! Anthropic's Messages against a real HTTP server.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue should panic")]

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Method, Response, Uri};
use coracle_models::{
    Call, CallResult, Endpoint, Item, Messages, ModelAnswer, ModelError, ModelEvent, ModelProvider, ModelRequest, Part,
    StopReason, ToolDefinition, Usage,
};
use coracle_types::Secret;
use futures::stream;
use serde_json::{Map, Value, json};
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

const KEY: &str = "sk-ant-secret";

/// A request that the server received.
#[derive(Clone, Debug)]
struct Received {
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Value,
}

#[derive(Default)]
struct Script {
    replies: VecDeque<Response<Body>>,
    received: Vec<Received>,
}

/// A server that gives prepared replies, one for each request.
struct Server {
    address: String,
    script: Arc<Mutex<Script>>,
}

impl Server {
    async fn start(replies: impl IntoIterator<Item = Response<Body>>) -> Self {
        let script = Arc::new(Mutex::new(Script { replies: replies.into_iter().collect(), received: Vec::new() }));
        let router = Router::new().fallback(reply).with_state(Arc::clone(&script));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}/v1", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { address, script }
    }

    fn provider(&self) -> Messages {
        let mut settings = Messages::settings(&self.address, Some(Secret::new(KEY)));
        settings.first_wait = Some(Duration::from_millis(1));
        Messages::new(Endpoint::new(&settings).unwrap())
    }

    fn received(&self) -> Vec<Received> {
        self.script.lock().unwrap().received.clone()
    }

    /// Asks the server, and returns the answer with its events.
    async fn ask(&self, request: &ModelRequest) -> (Result<ModelAnswer, ModelError>, Vec<ModelEvent>) {
        let (sender, mut receiver) = mpsc::channel(1);
        let events = tokio::spawn(async move {
            let mut events = Vec::new();
            while let Some(event) = receiver.recv().await {
                events.push(event);
            }
            events
        });
        let answer = self.provider().ask(request, &sender).await;
        drop(sender);
        (answer, events.await.unwrap())
    }
}

async fn reply(
    State(script): State<Arc<Mutex<Script>>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    let mut script = script.lock().unwrap();
    let body = serde_json::from_slice(&body).unwrap_or_default();
    script.received.push(Received { method, uri, headers, body });
    script.replies.pop_front().unwrap_or_else(|| status(500, &json!({"error": {"message": "no reply is left"}})))
}

fn status(status: u16, body: &Value) -> Response<Body> {
    let reply = Response::builder().status(status).header("content-type", "application/json");
    reply.body(Body::from(body.to_string())).unwrap()
}

fn events(body: Body) -> Response<Body> {
    Response::builder().header("content-type", "text/event-stream; charset=utf-8").body(body).unwrap()
}

/// A stream of these events, in the form of Anthropic.
fn streamed(list: &[Value]) -> Response<Body> {
    let mut text = String::new();
    for event in list {
        write!(text, "event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap()).unwrap();
    }
    // In small pieces, which split lines and characters.
    let pieces: Vec<_> =
        text.into_bytes().chunks(7).map(|piece| Ok::<_, String>(Bytes::copy_from_slice(piece))).collect();
    events(Body::from_stream(stream::iter(pieces)))
}

/// A body that never ends.
fn endless(piece: &str) -> Body {
    let piece = Bytes::from(piece.to_owned());
    Body::from_stream(stream::repeat_with(move || Ok::<_, String>(piece.clone())))
}

fn begin() -> Value {
    json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "content": [],
        "model": "claude-opus-5-5", "stop_reason": null, "usage": {"input_tokens": 5, "cache_read_input_tokens": 100,
        "cache_creation_input_tokens": 0, "output_tokens": 1}}})
}

fn block(index: u64, block: &Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn delta(index: u64, delta: &Value) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

fn end(reason: &str) -> [Value; 2] {
    let usage = json!({"output_tokens": 30});
    [
        json!({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null}, "usage": usage}),
        json!({"type": "message_stop"}),
    ]
}

fn saying(text: &str) -> Response<Body> {
    let mut list = vec![begin(), json!({"type": "ping"}), block(0, &json!({"type": "text", "text": ""}))];
    list.push(delta(0, &json!({"type": "text_delta", "text": text})));
    list.push(json!({"type": "content_block_stop", "index": 0}));
    list.extend(end("end_turn"));
    streamed(&list)
}

fn request() -> ModelRequest {
    let tool = ToolDefinition {
        name: "run".to_owned(),
        description: "Runs code.".to_owned(),
        parameters: Map::new(),
        strict: None,
    };
    ModelRequest {
        model: "claude-opus-5-5".to_owned(),
        instructions: "Be brief.".to_owned(),
        items: vec![Item::User { parts: vec![Part::text("What is 6 × 7?")] }],
        tools: vec![tool],
        ..ModelRequest::default()
    }
}

fn said(text: &str) -> Item {
    Item::Assistant { text: text.to_owned(), native: None }
}

#[tokio::test]
async fn a_conversation_with_a_call() {
    let mut turn = vec![
        begin(),
        block(0, &json!({"type": "thinking", "thinking": "", "signature": ""})),
        delta(0, &json!({"type": "thinking_delta", "thinking": "Überlegen"})),
        delta(0, &json!({"type": "signature_delta", "signature": "c2lnbmF0dXJl"})),
        json!({"type": "content_block_stop", "index": 0}),
        block(1, &json!({"type": "tool_use", "id": "toolu_1", "name": "run", "input": {}})),
        delta(1, &json!({"type": "input_json_delta", "partial_json": "{\"code\": "})),
        delta(1, &json!({"type": "input_json_delta", "partial_json": "\"6*7\"}"})),
        json!({"type": "content_block_stop", "index": 1}),
    ];
    turn.extend(end("tool_use"));
    let server = Server::start([streamed(&turn), saying("42")]).await;
    let mut request = request();

    let (answer, events) = server.ask(&request).await;
    let answer = answer.unwrap();
    assert_eq!(answer.stop, StopReason::Calls);
    let usage = Usage { input_tokens: 105, cached_tokens: 100, output_tokens: 30, ..Usage::default() };
    assert_eq!(answer.usage, usage);
    assert_eq!(
        events,
        [
            ModelEvent::Reasoning("Überlegen".to_owned()),
            ModelEvent::CallBegan { index: 0, id: "toolu_1".to_owned(), name: "run".to_owned() },
            ModelEvent::CallArguments { index: 0, delta: "{\"code\": ".to_owned() },
            ModelEvent::CallArguments { index: 0, delta: "\"6*7\"}".to_owned() },
        ]
    );
    let [Item::Reasoning { .. }, Item::Call(Call { arguments, .. })] = answer.items.as_slice() else {
        panic!("{:?}", answer.items);
    };
    assert_eq!(arguments, "{\"code\": \"6*7\"}");

    // What is stored between the turns is JSON.
    let stored = serde_json::to_string(&answer.items).unwrap();
    request.items.extend(serde_json::from_str::<Vec<Item>>(&stored).unwrap());
    let parts = vec![Part::text("42"), Part::Image { mime: "image/png".to_owned(), data: "aW1n".to_owned() }];
    request.items.push(Item::Result(CallResult { call_id: "toolu_1".to_owned(), parts, is_error: false }));
    let (answer, events) = server.ask(&request).await;
    assert_eq!(answer.unwrap().items, [said("42")]);
    assert_eq!(events, [ModelEvent::Text("42".to_owned())]);

    let received = server.received();
    let [first, second] = received.as_slice() else { panic!("{received:?}") };
    for request in [first, second] {
        assert_eq!((&request.method, request.uri.path()), (&Method::POST, "/v1/messages"));
        assert_eq!(request.headers["x-api-key"], KEY);
        assert_eq!(request.headers["anthropic-version"], "2023-06-01");
        assert_eq!(request.headers["content-type"], "application/json");
        assert_eq!(request.headers.get("authorization"), None);
        assert_eq!(request.body["stream"], true);
    }
    assert_eq!(first.body["tools"][0]["input_schema"], json!({"type": "object"}));
    assert_eq!(
        second.body["messages"][1],
        json!({"role": "assistant", "content": [
            {"type": "thinking", "thinking": "Überlegen", "signature": "c2lnbmF0dXJl"},
            {"type": "tool_use", "id": "toolu_1", "name": "run", "input": {"code": "6*7"}},
        ]})
    );
    let image = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aW1n"}});
    assert_eq!(
        second.body["messages"][2],
        json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1",
            "content": [{"type": "text", "text": "42"}, image], "cache_control": {"type": "ephemeral"}}]})
    );
}

#[tokio::test]
async fn a_request_is_repeated_after_a_limit_and_after_an_overload() {
    let limited = json!({"type": "error", "error": {"type": "rate_limit_error", "message": "Slow down"}});
    let overloaded = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    let server = Server::start([status(429, &limited), status(529, &overloaded), saying("Hello")]).await;
    let (answer, events) = server.ask(&request()).await;
    assert_eq!(answer.unwrap().items, [said("Hello")]);
    assert_eq!(events, [ModelEvent::Text("Hello".to_owned())]);
    let received = server.received();
    assert_eq!(received.len(), 3);
    assert_eq!(received[0].body, received[2].body);
}

#[tokio::test]
async fn an_error_does_not_contain_the_key() {
    for (number, kind, expected) in [
        (401, "authentication_error", "model_unauthorized"),
        (403, "permission_error", "model_unauthorized"),
        (400, "invalid_request_error", "model_rejected_request"),
    ] {
        let message = format!("the key {KEY} is not valid");
        let reply = status(number, &json!({"type": "error", "error": {"type": kind, "message": message}}));
        let server = Server::start([reply]).await;
        let (answer, _) = server.ask(&request()).await;
        let error = answer.unwrap_err();
        assert_eq!(error.code(), expected);
        assert!(!format!("{error} {error:?} {:?}", server.provider()).contains(KEY), "{error:?}");
        assert_eq!(server.received().len(), 1);
    }
}

#[tokio::test]
async fn a_conversation_that_is_too_long_is_recognized() {
    for message in [
        "prompt is too long: 210000 tokens > 200000 maximum",
        "input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000, decrease input length",
    ] {
        let error = json!({"type": "error", "error": {"type": "invalid_request_error", "message": message}});
        let server = Server::start([status(400, &error)]).await;
        let (answer, _) = server.ask(&request()).await;
        assert_eq!(answer.unwrap_err(), ModelError::ContextFull { message: message.to_owned() });
    }
}

#[tokio::test]
async fn a_stream_that_fails_is_not_repeated() {
    let text = [
        begin(),
        block(0, &json!({"type": "text", "text": ""})),
        delta(0, &json!({"type": "text_delta", "text": "A"})),
    ];
    let error = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    let failed = [text.as_slice(), &[error]].concat();
    for (reply, expected) in [(streamed(&text), "model_interrupted"), (streamed(&failed), "model_failed")] {
        let server = Server::start([reply, saying("Again")]).await;
        let (answer, events) = server.ask(&request()).await;
        assert_eq!(answer.unwrap_err().code(), expected);
        assert_eq!(events, [ModelEvent::Text("A".to_owned())]);
        assert_eq!(server.received().len(), 1);
    }
}

#[tokio::test]
async fn a_server_that_does_not_stream() {
    let message = json!({"type": "message", "role": "assistant", "stop_reason": "end_turn",
        "content": [{"type": "text", "text": "Hello"}], "usage": {"input_tokens": 3, "output_tokens": 4}});
    let server = Server::start([status(200, &message)]).await;
    let (answer, events) = server.ask(&request()).await;
    let answer = answer.unwrap();
    assert_eq!((answer.items.as_slice(), answer.stop), ([said("Hello")].as_slice(), StopReason::End));
    assert_eq!(events, [ModelEvent::Text("Hello".to_owned())]);
}

#[tokio::test]
async fn an_answer_continues_if_nobody_listens() {
    let server = Server::start([saying("Hello")]).await;
    let (sender, receiver) = mpsc::channel(1);
    drop(receiver);
    let answer = server.provider().ask(&request(), &sender).await.unwrap();
    assert_eq!(answer.items, [said("Hello")]);
}

#[tokio::test]
async fn an_answer_without_end_is_given_up() {
    let padding = "x".repeat(100_000);
    let ping = format!("event: ping\ndata: {}\n\n", json!({"type": "ping", "padding": padding}));
    let deltas = format!("data: {}\n\n", delta(0, &json!({"type": "text_delta", "text": padding})));
    let start = Bytes::from(format!("data: {}\n\n", block(0, &json!({"type": "text", "text": ""}))));
    let text = Body::from_stream(stream::iter(
        std::iter::once(start).chain(std::iter::repeat(Bytes::from(deltas))).map(Ok::<_, String>),
    ));
    for (name, reply, expected) in [
        ("events", events(endless(&ping)), "64 MiB in an answer"),
        ("line", events(endless(&padding)), "16 MiB in one event"),
        ("text", events(text), "4 MiB of text"),
    ] {
        let server = Server::start([reply]).await;
        let error = server.ask(&request()).await.0.unwrap_err();
        let ModelError::TooLarge { limit } = &error else { panic!("{name}: {error:?}") };
        let (number, unit) = limit.split_once(" bytes ").unwrap();
        assert_eq!(format!("{} MiB {unit}", number.parse::<u64>().unwrap() >> 20), expected, "{name}");
    }
    let reply = Response::builder().header("content-type", "application/json").body(endless(&padding)).unwrap();
    let error = Server::start([reply]).await.ask(&request()).await.0.unwrap_err();
    assert_eq!(error.code(), "model_malformed_answer");
    let reply = Response::builder().status(400).body(endless(&padding)).unwrap();
    let error = Server::start([reply]).await.ask(&request()).await.0.unwrap_err();
    assert!(matches!(error, ModelError::Rejected { status: 400, .. }), "{error:?}");
}

#[tokio::test]
async fn models_are_listed() {
    let list =
        json!({"data": [{"type": "model", "id": "claude-opus-5-5"}, {"id": "claude-haiku-5-5"}], "has_more": false});
    let server = Server::start([status(200, &list)]).await;
    assert_eq!(server.provider().models().await.unwrap(), ["claude-opus-5-5", "claude-haiku-5-5"]);
    let received = server.received();
    assert_eq!(received[0].uri, "/v1/models?limit=1000");
    assert_eq!(received[0].headers["x-api-key"], KEY);
}
