//! `POST /v1/chat/completions`: one run of the agent, which ends with its client.

use super::chat_answer::{Deltas, Head};
use super::chat_request::ChatRequest;
use super::error::OpenAiError;
use super::file_references::InlineFiles;
use crate::http::App;
use crate::http::extract::{Body as JsonBody, Caller};
use crate::http::problem::ApiError;
use crate::mcp::{DEFINITIONS, FrontendTools};
use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use coracle_agent::{Agent, Ended, RunEvent, RunOutcome, RunRequest};
use coracle_models::ToolDefinition;
use coracle_policy::NobodyToAsk;
use coracle_types::UserId;
use futures::stream;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::DropGuard;

/// Events of a run that may wait for the client to read them.
const MAX_WAITING_EVENTS: usize = 256;
/// Time without data after which a comment is sent, so that proxies keep the connection open.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

pub(super) async fn complete(
    State(app): State<App>,
    caller: Result<Caller, ApiError>,
    body: Result<JsonBody<ChatRequest>, ApiError>,
) -> Result<Response, OpenAiError> {
    let (Caller(user), JsonBody(mut request)) = (caller?, body?);
    app.resolve_contents(&user, request.contents(), InlineFiles::Refused).await?;
    let streams = request.stream.unwrap_or_default();
    let includes_usage = request.includes_usage();
    let deltas = Deltas::new(request.coracle.activity);
    let mut run = start(&app, &user, request).await?;
    // An error before the first text is an error of the request.
    let first = run.events.recv_past_beginning().await;
    if first.is_none() {
        run = run.checked().await?;
    }
    let running = Running { run, deltas, first };
    if streams { Ok(running.streamed(includes_usage)) } else { running.whole().await }
}

/// A run that belongs to one request.
struct ChatRun {
    app: App,
    user: UserId,
    head: Head,
    events: Events,
    outcome: Outcome,
    /// Stops the run when the client is gone.
    _stop: DropGuard,
}

enum Outcome {
    Waiting(JoinHandle<RunOutcome>),
    There(Box<RunOutcome>),
}

/// The events of a run.
struct Events(mpsc::Receiver<RunEvent>);

impl Events {
    /// The first event after the beginning of the first step; `None` if the run ends before.
    async fn recv_past_beginning(&mut self) -> Option<RunEvent> {
        loop {
            match self.0.recv().await? {
                RunEvent::StepBegan { .. } => {}
                event => return Some(event),
            }
        }
    }
}

async fn start(app: &App, user: &UserId, request: ChatRequest) -> Result<ChatRun, OpenAiError> {
    let chosen = app.model(user, request.model.as_deref()).await??;
    let frontend = app.frontend.of_user(user);
    let tools = FrontendTools::new(frontend, Arc::new(NobodyToAsk)).in_mode(request.coracle.mode);
    let mut asked = request.into_model_request(app.agent.allows_image_urls)?;
    check_names(&asked.tools)?;
    asked.items = app.continuations.restore(user, asked.items);
    asked.instructions = app.agent.instructions(&tools.instructions().await, &asked.instructions);
    asked.model.clone_from(&chosen.model);
    let head = Head {
        id: format!("chatcmpl-{}", random_id()),
        created: SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_secs()),
        model: chosen.name(),
    };
    let mut run = RunRequest::new(Arc::clone(&chosen.provider), asked);
    run.fences = app.agent.fences(&chosen.provider_name);
    // A run may take long, so a server that stops does not wait for it.
    run.cancel = app.stop.child_token();
    let stop = run.cancel.clone().drop_guard();
    let agent = Agent::new(Arc::new(tools), app.agent.limits(&chosen.provider_name));
    let (sender, events) = mpsc::channel(MAX_WAITING_EVENTS);
    let outcome = Outcome::Waiting(tokio::spawn(async move { agent.run(run, sender).await }));
    Ok(ChatRun { app: app.clone(), user: user.clone(), head, events: Events(events), outcome, _stop: stop })
}

/// Two tools of one name would be ambiguous, and providers reject them.
pub(super) fn check_names(theirs: &[ToolDefinition]) -> Result<(), OpenAiError> {
    match theirs.iter().find(|tool| DEFINITIONS.iter().any(|own| own.name == tool.name)) {
        None => Ok(()),
        Some(tool) => {
            let message = format!("`{}` is a tool of the agent itself: use another name for yours", tool.name);
            Err(OpenAiError::parameter("tools", message))
        }
    }
}

fn random_id() -> String {
    let mut bytes = [0; 12];
    // The ID is only a name.
    let _ = getrandom::fill(&mut bytes);
    hex::encode(bytes)
}

impl ChatRun {
    /// The end of the run. Keeps what the client does not get.
    async fn ended(&mut self) -> Result<&RunOutcome, OpenAiError> {
        if let Outcome::Waiting(task) = &mut self.outcome {
            let outcome = task.await.map_err(|error| OpenAiError::from(ApiError::internal("run the agent", error)))?;
            if let Ended::ClientCalls(calls) = &outcome.ended {
                self.app.continuations.keep(&self.user, calls, outcome.items.clone());
            }
            self.outcome = Outcome::There(Box::new(outcome));
        }
        match &self.outcome {
            Outcome::There(outcome) => Ok(outcome),
            Outcome::Waiting(_) => Err(ApiError::internal("run the agent", "it has no outcome").into()),
        }
    }

    /// The run, if it did not fail.
    async fn checked(mut self) -> Result<Self, OpenAiError> {
        match &self.ended().await?.ended {
            Ended::Failed(error) => Err(error.clone().into()),
            _ => Ok(self),
        }
    }
}

/// A run whose events are written.
struct Running {
    run: ChatRun,
    deltas: Deltas,
    first: Option<RunEvent>,
}

impl Running {
    /// The deltas of the next event; `None` at the end.
    async fn next(&mut self) -> Option<Vec<Value>> {
        let event = match self.first.take() {
            Some(event) => event,
            None => self.run.events.0.recv().await?,
        };
        Some(self.deltas.of(event))
    }

    async fn whole(mut self) -> Result<Response, OpenAiError> {
        let mut all = Vec::new();
        while let Some(deltas) = self.next().await {
            all.extend(deltas);
        }
        let mut run = self.run.checked().await?;
        let head = run.head.clone();
        Ok(Json(head.completion(run.ended().await?, &all)).into_response())
    }

    fn streamed(self, includes_usage: bool) -> Response {
        let state = Stream { running: self, includes_usage, phase: Phase::Begin };
        let body = stream::unfold(state, |mut state| async move {
            let bytes = state.next().await?;
            Some((Ok::<Bytes, Infallible>(bytes), state))
        });
        let headers = [
            (header::CONTENT_TYPE, "text/event-stream; charset=utf-8"),
            (header::CACHE_CONTROL, "no-cache"),
            (header::HeaderName::from_static("x-accel-buffering"), "no"),
        ];
        (headers, Body::from_stream(body)).into_response()
    }
}

/// A streamed answer.
struct Stream {
    running: Running,
    includes_usage: bool,
    phase: Phase,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Begin,
    Middle,
    Done,
}

impl Stream {
    async fn next(&mut self) -> Option<Bytes> {
        match self.phase {
            Phase::Begin => {
                self.phase = Phase::Middle;
                let role = self.running.run.head.chunk(&json!({"role": "assistant", "content": ""}), None);
                Some(event(&role).into())
            }
            Phase::Middle => Some(self.middle().await),
            Phase::Done => None,
        }
    }

    async fn middle(&mut self) -> Bytes {
        loop {
            match tokio::time::timeout(KEEP_ALIVE, self.running.next()).await {
                Err(_) => return Bytes::from_static(b": keep-alive\n\n"),
                Ok(Some(deltas)) if deltas.is_empty() => {}
                Ok(Some(deltas)) => {
                    let head = &self.running.run.head;
                    return deltas.iter().map(|delta| event(&head.chunk(delta, None))).collect::<String>().into();
                }
                Ok(None) => return self.end().await,
            }
        }
    }

    async fn end(&mut self) -> Bytes {
        self.phase = Phase::Done;
        let head = self.running.run.head.clone();
        let chunks = match self.running.run.ended().await {
            Err(error) => vec![error.body()],
            Ok(outcome) => match &outcome.ended {
                Ended::Failed(error) => vec![OpenAiError::from(error.clone()).body()],
                _ => head.end(outcome, self.includes_usage),
            },
        };
        let mut text: String = chunks.iter().map(event).collect();
        text.push_str("data: [DONE]\n\n");
        text.into()
    }
}

fn event(value: &Value) -> String {
    format!("data: {value}\n\n")
}
