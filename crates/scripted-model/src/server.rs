//! The server: routes, keys, and the way from a request to its answer.

mod models;
mod serving;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::Response;
use axum::routing::{get, post};
use bytes::Bytes;
use serde_json::Value;
use tokio::sync::{mpsc, watch};

pub use serving::{Server, serve, serve_with_control};

use crate::chat::{self, ChatEncoder};
use crate::conversation::{Conversation, Wire};
use crate::fault::Fault;
use crate::gates::Gates;
use crate::messages::{self, MessagesEncoder};
use crate::output::{Encoder, Output, Usage};
use crate::perform::{Broken, Counts, Performer, Stage};
use crate::records::{Played, Records};
use crate::responses::{self, ResponsesEncoder};
use crate::rules;
use crate::script::{Library, RULES, ScriptError};
use crate::select;
use crate::template::Values;
use crate::tokens::PromptCache;

/// Maximum size of a request's body.
pub const MAX_REQUEST_BYTES: usize = 32 * 1024 * 1024;

/// Number of pieces of an answer that wait for a slow client. Further ones are not made until it reads.
const MAX_WAITING_PIECES: usize = 16;

/// A model that follows a script. Clones are the same model.
#[derive(Clone, Debug)]
pub struct ScriptedModel {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    library: Library,
    records: Records,
    gates: Gates,
    counts: Arc<Counts>,
    cache: PromptCache,
    /// Part of each id, so that a restarted server does not use an id again.
    started: u128,
    answers: AtomicU64,
    stop: watch::Sender<bool>,
}

impl ScriptedModel {
    /// A model with these scripts.
    pub fn new(library: Library) -> Result<Self, ScriptError> {
        library.check()?;
        let started = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_nanos());
        let inner = Inner {
            library,
            records: Records::default(),
            gates: Gates::default(),
            counts: Arc::default(),
            cache: PromptCache::default(),
            started,
            answers: AtomicU64::new(0),
            stop: watch::Sender::new(false),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The requests so far.
    pub fn requests(&self) -> &Records {
        &self.inner.records
    }

    /// The gates of the scripts.
    pub fn gates(&self) -> &Gates {
        &self.inner.gates
    }

    /// The routes of all wires.
    pub fn router(&self) -> Router {
        Router::new()
            .route("/v1/chat/completions", post(|State(model): State<Self>, request| model.answer(Wire::Chat, request)))
            .route("/v1/responses", post(|State(model): State<Self>, request| model.answer(Wire::Responses, request)))
            .route("/v1/messages", post(|State(model): State<Self>, request| model.answer(Wire::Messages, request)))
            .route("/v1/models", get(models::list))
            .route("/v1/models/{id}", get(models::one))
            .route("/api/tags", get(models::tags))
            .fallback(unknown)
            .with_state(self.clone())
    }

    async fn answer(self, wire: Wire, request: Request) -> Response {
        let (parts, body) = request.into_parts();
        let body = to_bytes(body, MAX_REQUEST_BYTES).await;
        let value = body.as_ref().ok().and_then(|body| serde_json::from_slice::<Value>(body).ok());
        let size = body.as_ref().map_or(0, Bytes::len);
        let number = self.inner.records.add(wire, &parts.headers, value.as_ref().unwrap_or(&Value::Null), size);
        // The key is checked first, as real servers do.
        let checked = self.check_key(wire, &parts.headers).and_then(|()| match (body, value) {
            (Err(_), _) => Err(Fault::invalid("Request exceeds the maximum size").status(413)),
            (Ok(_), None) => Err(Fault::invalid("We could not parse the JSON body of your request.")),
            (Ok(_), Some(request)) => self.check(wire, request),
        });
        match checked {
            Ok(conversation) => match self.performer(number, &conversation) {
                Ok(performer) => self.play(&conversation, performer).await,
                Err(fault) => fault_response(wire, &fault),
            },
            Err(fault) => fault_response(wire, &fault),
        }
    }

    fn check_key(&self, wire: Wire, headers: &HeaderMap) -> Result<(), Fault> {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        if let Some(key) = self.inner.library.key.as_deref() {
            let bearer = text("authorization").and_then(|value| value.strip_prefix("Bearer "));
            let given =
                if wire == Wire::Messages { text("x-api-key").or(bearer) } else { bearer.or_else(|| text("api-key")) };
            let message = match (wire, given) {
                (_, Some(given)) if given == key => None,
                (Wire::Messages, None) => Some("x-api-key header is required"),
                (Wire::Messages, Some(_)) => Some("invalid x-api-key"),
                (_, None) => Some("You didn't provide an API key."),
                (_, Some(_)) => Some("Incorrect API key provided."),
            };
            if let Some(message) = message {
                let fault = Fault::invalid(message).status(401);
                return Err(if given.is_some() { fault.code("invalid_api_key") } else { fault });
            }
        }
        if wire == Wire::Messages && text("anthropic-version").is_none() {
            return Err(Fault::invalid("anthropic-version: header is required"));
        }
        Ok(())
    }

    fn check(&self, wire: Wire, request: Value) -> Result<Conversation, Fault> {
        let conversation = match wire {
            Wire::Chat => chat::parse(request),
            Wire::Responses => responses::parse(request),
            Wire::Messages => messages::parse(request),
        }?;
        let (models, model) = (&self.inner.library.models, &conversation.model);
        if models.is_empty() || models.contains(model) {
            return Ok(conversation);
        }
        Err(unknown_model(wire, model))
    }

    /// Finds the turn to play.
    fn performer(&self, number: u64, conversation: &Conversation) -> Result<Performer, Fault> {
        let inner = &self.inner;
        let history = select::follow(&inner.library, &conversation.items)
            .map_err(|error| Fault::invalid(error.to_string()).code("unknown_script"))?;
        if let Some(missing) = history.missing(conversation.wire) {
            return Err(match conversation.wire {
                Wire::Chat => chat::missing_fault(&missing),
                Wire::Responses => responses::missing_fault(&missing),
                Wire::Messages => messages::missing_fault(&missing),
            });
        }
        let next = history.next;
        let turn = next.turn().map_err(|error| Fault::invalid(error.to_string()).code("script_exhausted"))?;
        let script = if turn.is_some() { next.name() } else { RULES }.to_owned();
        let turn = turn.cloned().unwrap_or_else(|| rules::answer(&inner.library.rules, conversation));
        inner.records.set_played(number, Played { script: script.clone(), turn: next.turn });
        let key = conversation.cache_key.clone().unwrap_or_else(|| format!("script:{script}"));
        let cached = inner.cache.look_up(&key, &conversation.prompt);
        let estimated = Usage {
            input: conversation.prompt.tokens(),
            cached: cached.read,
            written: cached.written,
            ..Usage::default()
        };
        let answer = inner.answers.fetch_add(1, Ordering::Relaxed);
        Ok(Performer {
            script,
            number: next.number(),
            usage: Performer::prompt_usage(&turn, estimated),
            turn,
            values: Values {
                result: conversation.last_result().unwrap_or_default().to_owned(),
                user: conversation.user_text().to_owned(),
            },
            call_prefix: if conversation.wire == Wire::Messages { "toolu_" } else { "call_" },
            nonce: format!("{:016x}{answer:06x}", inner.started & u128::from(u64::MAX)),
            gates: inner.gates.clone(),
            counts: Arc::clone(&inner.counts),
        })
    }

    async fn play(self, conversation: &Conversation, performer: Performer) -> Response {
        let wire = conversation.wire;
        let mut guard = Guard { records: Some(self.inner.records.clone()) };
        let mut stop = self.inner.stop.subscribe();
        let opening = tokio::select! {
            opening = performer.opening() => opening,
            _ = stop.wait_for(|stop| *stop) => return broken(),
        };
        if let Some(status) = opening {
            guard.complete();
            let mut response = fault_response(wire, &Fault::of_status(&status));
            if let Some(value) = status.retry_after.as_deref().and_then(|value| HeaderValue::from_str(value).ok()) {
                response.headers_mut().insert(header::RETRY_AFTER, value);
            }
            if let Some(raw) = status.body {
                let (body, pieces) = mpsc::channel(MAX_WAITING_PIECES);
                tokio::spawn(async move { Stage::RawOnly { body }.raw(&raw).await });
                *response.body_mut() = body_of(pieces);
            }
            return response;
        }
        let mut encoder = encoder(conversation, &performer);
        if !conversation.stream && !performer.has_raw() {
            let mut stage = Stage::Whole(Output::default());
            let end = tokio::select! {
                end = performer.perform(&mut stage) => end,
                _ = stop.wait_for(|stop| *stop) => Err(Broken::ByScript),
            };
            guard.complete();
            return match (end, stage) {
                (Ok(()), Stage::Whole(output)) => json_response(StatusCode::OK, &encoder.whole(&output)),
                _ => broken(),
            };
        }
        let (body, pieces) = mpsc::channel(MAX_WAITING_PIECES);
        let sender = body.clone();
        let is_stream = conversation.stream;
        let mut stage = if is_stream { Stage::Stream { encoder, body, batch: None } } else { Stage::RawOnly { body } };
        tokio::spawn(async move {
            let end = tokio::select! {
                end = performer.perform(&mut stage) => end,
                () = sender.closed() => Err(Broken::ByClient),
                _ = stop.wait_for(|stop| *stop) => Err(Broken::ByScript),
            };
            if end == Err(Broken::ByScript) {
                // An error means that the client has disconnected as well.
                let _ = sender.send(Err(io::ErrorKind::ConnectionAborted.into())).await;
            }
            if end != Err(Broken::ByClient) {
                guard.complete();
            }
        });
        let mut response = Response::new(body_of(pieces));
        let kind = if is_stream { "text/event-stream; charset=utf-8" } else { "application/json" };
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        response
    }
}

/// Counts a request as abandoned if it is dropped with its records.
struct Guard {
    records: Option<Records>,
}

impl Guard {
    fn complete(&mut self) {
        self.records = None;
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(records) = self.records.take() {
            records.add_abandoned();
        }
    }
}

fn encoder(conversation: &Conversation, performer: &Performer) -> Box<dyn Encoder> {
    let created = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs());
    let nonce = performer.nonce.clone();
    let model = conversation.model.clone();
    match conversation.wire {
        Wire::Chat => {
            Box::new(ChatEncoder::new(format!("chatcmpl-{nonce}"), created, model, conversation.include_usage))
        }
        Wire::Responses => Box::new(ResponsesEncoder::new(
            nonce,
            created,
            conversation.include_encrypted,
            conversation.request.clone(),
        )),
        Wire::Messages => Box::new(MessagesEncoder::new(format!("msg_{nonce}"), model, performer.usage)),
    }
}

fn body_of(pieces: mpsc::Receiver<io::Result<Bytes>>) -> Body {
    Body::from_stream(futures::stream::unfold(pieces, |mut pieces| async move {
        let piece = pieces.recv().await?;
        if piece.is_err() {
            // What came before is written while the body has nothing to offer. Otherwise the error would discard it.
            tokio::task::yield_now().await;
        }
        Some((piece, pieces))
    }))
}

/// A response that breaks off.
fn broken() -> Response {
    let (body, pieces) = mpsc::channel(1);
    // The channel has room for it.
    let _ = body.try_send(Err(io::ErrorKind::ConnectionAborted.into()));
    Response::new(body_of(pieces))
}

fn json_response(status: StatusCode, body: &Value) -> Response {
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn fault_response(wire: Wire, fault: &Fault) -> Response {
    let status = StatusCode::from_u16(fault.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    json_response(status, &fault.body(wire))
}

fn unknown_model(wire: Wire, model: &str) -> Fault {
    match wire {
        Wire::Messages => Fault::invalid(format!("model: {model}")).status(404),
        Wire::Chat | Wire::Responses => {
            Fault::invalid(format!("The model `{model}` does not exist or you do not have access to it."))
                .status(404)
                .code("model_not_found")
        }
    }
}

async fn unknown(method: Method, uri: Uri) -> Response {
    let fault = Fault::invalid(format!("Invalid URL ({method} {})", uri.path())).status(404);
    fault_response(Wire::Chat, &fault)
}
