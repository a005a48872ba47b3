//! A layer between every transport and the MCP library: it forwards answers, handles notifications itself, and
//! remembers why a connection ended.

use crate::call::Progress;
use crate::connection_state::{ConnectionState, Fault, InFlight};
use crate::reverse::QuestionKind;
use crate::scrub::{MAX_REASON, shortened};
use rmcp::RoleClient;
use rmcp::model::{
    ClientRequest, CustomRequest, CustomResult, ErrorCode, ErrorData, GetExtensions as _, GetMeta as _, JsonRpcMessage,
    RequestId, ServerNotification, ServerRequest, ServerResult,
};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::Value;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Maximum time for an answer to `server/discover` before `initialize` is sent. Servers from before 2026 may not answer
/// at all.
const PROBE_TIMEOUT: Duration = Duration::from_secs(3);

/// The maximum number of ignored messages that are read in a row before other tasks get their turn.
const TURN: u32 = 64;

/// The maximum number of requests of a server within [`REQUEST_WINDOW`], because each of them must be answered. Beyond
/// it, the connection ends.
const MAX_REQUESTS: u32 = 1000;
const REQUEST_WINDOW: Duration = Duration::from_secs(1);

/// Attached to a request up to this layer; see [`InFlight`].
#[derive(Clone)]
pub(crate) struct Ticket(pub(crate) Arc<InFlight>);

/// Whether this layer gives up on a probe that gets no answer. Over HTTP, the library does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Silence {
    GivesUp,
    IsLeftAlone,
}

struct Probe {
    id: RequestId,
    until: tokio::time::Instant,
}

/// A transport whose messages are screened.
pub(crate) struct Screen<T> {
    inner: T,
    state: Arc<ConnectionState>,
    silence: Silence,
    probe: Option<Probe>,
    /// The ID of a probe that was given up. Its answer may come late, and must be ignored.
    late: Option<RequestId>,
    requests: (Instant, u32),
}

impl<T> Screen<T> {
    pub(crate) fn new(inner: T, state: Arc<ConnectionState>, silence: Silence) -> Self {
        Self { inner, state, silence, probe: None, late: None, requests: (Instant::now(), 0) }
    }

    /// Whether to pass a message to the library.
    fn admits(&mut self, message: &mut RxJsonRpcMessage<RoleClient>) -> bool {
        match message {
            JsonRpcMessage::Response(response) => {
                if let Some(result) = self.state.take_result(&response.id) {
                    let result = raw_result(result, &response.result);
                    response.result = ServerResult::CustomResult(CustomResult(result));
                }
                self.admits_answer(Some(&response.id))
            }
            JsonRpcMessage::Error(error) => self.admits_answer(error.id.as_ref()),
            JsonRpcMessage::Request(request) => {
                let params = self.state.take_question(&request.id);
                if let Some(question) = question(&mut request.request, params) {
                    request.request = ServerRequest::CustomRequest(question);
                }
                let (since, count) = &mut self.requests;
                if since.elapsed() > REQUEST_WINDOW {
                    (*since, *count) = (Instant::now(), 0);
                }
                *count += 1;
                if *count > MAX_REQUESTS {
                    let reason = format!("it made more than {MAX_REQUESTS} requests of its own within a second");
                    self.state.fail(Fault::Protocol(reason));
                }
                *count <= MAX_REQUESTS
            }
            JsonRpcMessage::Notification(notification) => self.admits_notification(&notification.notification),
        }
    }

    fn admits_answer(&mut self, id: Option<&RequestId>) -> bool {
        if id.is_some() && id == self.late.as_ref() {
            self.late = None;
            return false;
        }
        if id.is_none() || id == self.probe.as_ref().map(|probe| &probe.id) {
            self.probe = None;
        }
        true
    }

    fn admits_notification(&self, notification: &ServerNotification) -> bool {
        match notification {
            ServerNotification::ToolListChangedNotification(_) => {
                self.state.mark(&self.state.tools_stale);
                false
            }
            ServerNotification::ResourceListChangedNotification(_) => {
                self.state.mark(&self.state.resources_changed);
                false
            }
            ServerNotification::PromptListChangedNotification(_) => {
                self.state.mark(&self.state.prompts_changed);
                false
            }
            ServerNotification::ResourceUpdatedNotification(update) => {
                self.state.report_update(&update.params.uri);
                false
            }
            ServerNotification::LoggingMessageNotification(log) => {
                if self.state.wants_logs() {
                    self.state.report_log(None, serde_json::to_value(&log.params).unwrap_or_default());
                }
                false
            }
            ServerNotification::ProgressNotification(progress) => {
                let params = &progress.params;
                self.state.report_progress(&params.progress_token, || Progress {
                    progress: params.progress,
                    total: params.total,
                    message: params.message.as_deref().map(|message| shortened(message, MAX_REASON)),
                });
                false
            }
            // The library needs these two to track its own requests.
            ServerNotification::SubscriptionsAcknowledgedNotification(_)
            | ServerNotification::CancelledNotification(_) => true,
            _ => false,
        }
    }

    fn note_outgoing(&mut self, message: &mut TxJsonRpcMessage<RoleClient>) {
        let JsonRpcMessage::Request(request) = message else {
            return;
        };
        if let ClientRequest::DiscoverRequest(_) = &request.request
            && self.silence == Silence::GivesUp
        {
            let until = tokio::time::Instant::now() + PROBE_TIMEOUT;
            self.probe = Some(Probe { id: request.id.clone(), until });
        }
        let token = request.request.get_meta().get_progress_token();
        if let Some(Ticket(flight)) = request.request.extensions_mut().remove::<Ticket>() {
            self.state.register(request.id.clone(), token, flight);
        }
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Screen<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        mut item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.note_outgoing(&mut item);
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let mut in_a_row = 0;
        loop {
            let message = match &self.probe {
                None => self.inner.receive().await,
                Some(probe) => tokio::select! {
                    biased;
                    message = self.inner.receive() => message,
                    () = tokio::time::sleep_until(probe.until) => {
                        let id = probe.id.clone();
                        self.late = Some(id.clone());
                        self.probe = None;
                        let silence = ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "no answer to the probe", None);
                        return Some(JsonRpcMessage::error(silence, Some(id)));
                    }
                },
            };
            let Some(mut message) = message else {
                self.state.fail(Fault::Ended("the connection was closed".to_owned()));
                return None;
            };
            if self.admits(&mut message) {
                return Some(message);
            }
            if self.state.ended.is_cancelled() {
                return None;
            }
            in_a_row += 1;
            if in_a_row % TURN == 0 {
                tokio::task::yield_now().await;
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.state.fail(Fault::Ended("the connection was closed by Coracle".to_owned()));
        self.inner.close().await
    }
}

/// The unparsed result, without tools that the library removed on purpose: those whose definitions require headers that
/// must not be sent.
fn raw_result(mut result: Value, seen: &ServerResult) -> Value {
    if let (ServerResult::ListToolsResult(seen), Some(Value::Array(tools))) = (seen, result.get_mut("tools"))
        && seen.tools.len() < tools.len()
    {
        tools.retain(|tool| {
            let name = tool.get("name").and_then(Value::as_str);
            name.is_some_and(|name| seen.tools.iter().any(|seen| seen.name == name))
        });
    }
    result
}

/// A question to a person or a model, with all its parameters.
fn question(request: &mut ServerRequest, as_they_came: Option<Value>) -> Option<CustomRequest> {
    let (kind, params) = match request {
        ServerRequest::CreateMessageRequest(request) => {
            (QuestionKind::Sampling, serde_json::to_value(&request.params).ok())
        }
        ServerRequest::ElicitRequest(request) => {
            (QuestionKind::Elicitation, serde_json::to_value(&request.params).ok())
        }
        ServerRequest::ListRootsRequest(_) => (QuestionKind::Roots, None),
        _ => return None,
    };
    let mut question = CustomRequest::new(kind.method(), as_they_came.or(params));
    // They include the stream that the question arrived on.
    question.extensions = std::mem::take(request.extensions_mut());
    Some(question)
}
