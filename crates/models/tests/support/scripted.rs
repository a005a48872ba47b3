//! A server that sends the replies that a test has prepared, and records its requests.

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Uri};
use axum::response::Response;
use coracle_models::{
    Call, Endpoint, EndpointSettings, Item, ModelAnswer, ModelError, ModelEvent, ModelProvider, ModelRequest,
};
use coracle_types::Secret;
use futures::{Stream, StreamExt, stream};
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::mpsc;

pub(crate) const KEY: &str = "c4n4ry-0f-th3-m0d3l";

/// A request that the server received.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) path: String,
    pub(crate) key: Option<String>,
    pub(crate) text: String,
}

impl Seen {
    pub(crate) fn body(&self) -> Value {
        serde_json::from_str(&self.text).unwrap()
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Server {
    address: String,
    replies: Arc<Mutex<VecDeque<Response>>>,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Server {
    /// Starts a server that sends these replies, one for each request.
    pub(crate) async fn start(replies: impl IntoIterator<Item = Response>) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let replies = Arc::new(Mutex::new(replies.into_iter().collect()));
        let server = Self { address, replies, seen: Arc::default() };
        let router = Router::new().fallback(reply).with_state(server.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        server
    }

    pub(crate) fn url(&self) -> String {
        format!("{}/v1", self.address)
    }

    /// An endpoint at this server that does not wait long before it repeats a request.
    pub(crate) fn endpoint(&self) -> Endpoint {
        let settings = EndpointSettings {
            url: self.url(),
            api_key: Some(Secret::new(KEY)),
            first_wait: Some(Duration::from_millis(1)),
            ..EndpointSettings::default()
        };
        Endpoint::new(&settings).unwrap()
    }

    /// The requests so far.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

async fn reply(State(server): State<Server>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let key = headers.get("authorization").map(|value| value.to_str().unwrap().to_owned());
    let text = String::from_utf8(body.to_vec()).unwrap();
    server.seen.lock().unwrap().push(Seen { path: uri.path().to_owned(), key, text });
    let next = server.replies.lock().unwrap().pop_front();
    next.unwrap_or_else(|| json(418, &Value::Null))
}

/// A stream of these events, as text.
pub(crate) fn sse(events: &[Value]) -> String {
    events.iter().flat_map(|event| ["data: ".to_owned(), event.to_string(), "\n\n".to_owned()]).collect()
}

/// A reply with a stream of events.
pub(crate) fn stream_of(text: impl Into<String>) -> Response {
    Response::builder().header("content-type", "text/event-stream").body(Body::from(text.into())).unwrap()
}

/// A reply with a JSON value.
pub(crate) fn json(status: u16, value: &Value) -> Response {
    let reply = Response::builder().status(status).header("content-type", "application/json");
    reply.body(Body::from(value.to_string())).unwrap()
}

/// A reply that begins with `start` and then repeats `more` for ever.
pub(crate) fn endless(status: u16, kind: &str, start: &str, more: String) -> Response {
    let start = stream::once(std::future::ready(Bytes::from(start.to_owned())));
    let chunks = start.chain(stream::repeat(Bytes::from(more))).map(Ok::<_, Infallible>);
    chunked(status, kind, chunks)
}

/// A reply whose connection breaks after `start`.
pub(crate) fn broken(start: String) -> Response {
    let start = stream::once(std::future::ready(Ok(Bytes::from(start))));
    let end = stream::once(async {
        // The server sends what it has when there is nothing more to come at the moment.
        tokio::task::yield_now().await;
        Err(std::io::Error::other("broken"))
    });
    chunked(200, "text/event-stream", start.chain(end))
}

fn chunked<E>(status: u16, kind: &str, chunks: impl Stream<Item = Result<Bytes, E>> + Send + 'static) -> Response
where
    E: Into<Box<dyn std::error::Error + Send + Sync>> + 'static,
{
    Response::builder().status(status).header("content-type", kind).body(Body::from_stream(chunks)).unwrap()
}

/// Asks a provider, and checks that the deltas equal the items of the answer.
pub(crate) async fn ask(provider: &dyn ModelProvider, request: &ModelRequest) -> Result<ModelAnswer, ModelError> {
    let (sender, mut receiver) = mpsc::channel(4);
    let asked = async {
        let answer = provider.ask(request, &sender).await;
        drop(sender);
        answer
    };
    let received = async {
        let mut events = Vec::new();
        while let Some(event) = receiver.recv().await {
            events.push(event);
        }
        events
    };
    let (answer, events) = tokio::join!(asked, received);
    if let Ok(answer) = &answer {
        assert_deltas(&events, answer);
    }
    answer
}

fn assert_deltas(events: &[ModelEvent], answer: &ModelAnswer) {
    let (mut said, mut thought, mut calls) = (String::new(), String::new(), BTreeMap::<usize, Call>::new());
    for event in events {
        match event {
            ModelEvent::Text(text) => said.push_str(text),
            ModelEvent::Reasoning(text) => thought.push_str(text),
            ModelEvent::CallBegan { index, id, name } => {
                let call = Call { id: id.clone(), name: name.clone(), arguments: String::new(), native: None };
                assert_eq!(calls.insert(*index, call), None);
            }
            ModelEvent::CallArguments { index, delta } => calls.get_mut(index).unwrap().arguments.push_str(delta),
        }
    }
    let (mut text, mut reasoning, mut made) = (String::new(), String::new(), Vec::new());
    for item in &answer.items {
        match item {
            Item::Assistant { text: more, .. } => text.push_str(more),
            Item::Reasoning { text: more, .. } => reasoning.push_str(more),
            Item::Call(call) => made.push(Call { native: None, ..call.clone() }),
            item => panic!("{item:?} in an answer"),
        }
    }
    let made: BTreeMap<_, _> = made.into_iter().enumerate().collect();
    assert_eq!((said, thought, calls), (text, reasoning, made));
}

/// A request with these items.
pub(crate) fn request(items: Vec<Item>) -> ModelRequest {
    ModelRequest { model: "small".to_owned(), instructions: "Be brief.".to_owned(), items, ..ModelRequest::default() }
}
