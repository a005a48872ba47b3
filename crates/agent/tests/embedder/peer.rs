//! A server that implements OpenAI's embeddings API, correctly or with faults.

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A query that shares no word with [`NAMED`] but, on this server, gets the same vector.
pub(crate) const MEANT: &str = "qqqqzzzzxxxx";
pub(crate) const NAMED: &str = "frobnicate";

const LENGTH: usize = 16;

#[derive(Clone, Debug)]
pub(crate) enum Mode {
    Good,
    Status(u16),
    Garbage,
    TooFew,
    SamePlace,
    Lengths,
    NotANumber,
    Infinite,
    Redirect(String),
    Slow,
    Flood,
}

/// A request that the server received.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) address: String,
    pub(crate) authorization: Option<String>,
    pub(crate) api_key: Option<String>,
    pub(crate) body: Value,
}

impl Seen {
    pub(crate) fn texts(&self) -> Vec<String> {
        self.body["input"].as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) address: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    mode: Arc<Mutex<Mode>>,
}

impl Peer {
    pub(crate) async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let peer = Self { address, seen: Arc::default(), mode: Arc::new(Mutex::new(Mode::Good)) };
        let router = Router::new().fallback(answer).with_state(peer.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        peer
    }

    pub(crate) fn set(&self, mode: Mode) {
        *self.mode.lock().unwrap() = mode;
    }

    /// Returns the requests since the last call.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }

    /// Returns the texts of the requests since the last call, in order.
    pub(crate) fn texts(&self) -> Vec<String> {
        let mut texts: Vec<String> = self.seen().iter().flat_map(Seen::texts).collect();
        texts.sort();
        texts
    }
}

async fn answer(State(peer): State<Peer>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap().to_owned());
    let body: Value = serde_json::from_slice(&body).unwrap();
    let seen = Seen { address: uri.to_string(), authorization: text("authorization"), api_key: text("api-key"), body };
    let texts = seen.texts();
    peer.seen.lock().unwrap().push(seen);
    let mut data: Vec<Value> =
        texts.iter().enumerate().map(|(index, text)| json!({ "index": index, "embedding": vector(text) })).collect();
    // Clients must go by `index` and not by the order.
    data.reverse();
    let mode = peer.mode.lock().unwrap().clone();
    match mode {
        Mode::Good => {}
        Mode::Status(status) => {
            let said = format!("{:?} {:?}", text("authorization"), text("api-key"));
            return (StatusCode::from_u16(status).unwrap(), said).into_response();
        }
        Mode::Garbage => return "<html>not what you think</html>".into_response(),
        Mode::TooFew => drop(data.pop()),
        Mode::SamePlace => data.iter_mut().for_each(|one| one["index"] = json!(0)),
        Mode::Lengths => data[0]["embedding"] = json!([1.0, 2.0]),
        Mode::NotANumber => {
            let all = json!({ "data": data }).to_string().replacen("1.0", "NaN", 1);
            return ([(header::CONTENT_TYPE, "application/json")], all).into_response();
        }
        Mode::Infinite => data[0]["embedding"][0] = json!(1e300),
        Mode::Redirect(to) => {
            return (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, to)]).into_response();
        }
        Mode::Slow => tokio::time::sleep(Duration::from_hours(1)).await,
        Mode::Flood => return vec![b' '; 40 << 20].into_response(),
    }
    axum::Json(json!({ "object": "list", "data": data, "usage": {} })).into_response()
}

/// Returns a vector with a part that all texts share and a part that depends on the first letter.
pub(crate) fn vector(text: &str) -> Vec<f32> {
    let mut vector = vec![0.0; LENGTH];
    vector[LENGTH - 1] = 1.0;
    let name = text.rsplit_once(": ").map_or(text, |_| text.split_once(": ").unwrap().1);
    let first = name.bytes().next().unwrap_or_default();
    let own =
        if name.starts_with(MEANT) || name.starts_with(NAMED) { 0 } else { 1 + usize::from(first) % (LENGTH - 2) };
    vector[own] += 2.0;
    vector
}
