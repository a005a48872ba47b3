//! Forwards calls, reads and other requests to their server.

use super::super::client_requests::{Way, attribute_all, capabilities};
use super::super::progress::Progress;
use super::super::run::{Answer, Call, Run};
use super::super::{refusal, unknown_tool};
use super::questions::OfServer;
use super::{read, refused};
use crate::mcp::Frontend;
use coracle_engine::{DirectCall, DirectError, DirectRequest, HostCallError};
use coracle_policy::Interface;
use coracle_types::ServerName;
use coracle_upstream::{CallContext, Progress as Reported, Resume, Reverse};
use rmcp::ErrorData;
use rmcp::model::{
    CallToolRequestParams, CallToolResult, CompleteRequestParams, CompleteResult, GetPromptRequestParams,
    GetPromptResponse, GetPromptResult, InputRequiredResult, InputResponses, LoggingLevel,
    LoggingMessageNotificationParam, ProgressNotificationParam, ProgressToken, ProtocolVersion,
    ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, Reference,
};
use rmcp::service::{Peer, RequestContext, RoleServer};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Maximum number of notifications of a server that wait to be forwarded; more are dropped.
const QUEUE: usize = 256;

impl Frontend {
    /// Forwards a call to a tool of a server.
    pub(crate) async fn pass_on(
        &self,
        mut request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Answer {
        let user = self.user();
        let call = Call { user: &user, request: &request };
        if let Some(resumed) = self.parked.resume(call) {
            return resumed?.follow(self.client(), call, &context).await;
        }
        let tools = self.named_tools().await;
        let Some(tool) = tools.into_iter().find(|tool| tool.name == request.name) else {
            return Err(unknown_tool(&request.name));
        };
        let way = self.way(&tool.server, &context).await;
        let resume = self.resume(request.request_state.take(), request.input_responses.take()).await?;
        // Only a call that may have to wait for its client is recognised by its arguments later.
        let arguments = match Way::of(&context) {
            Way::Request => request.arguments.take(),
            Way::InputRequired => request.arguments.clone(),
        };
        let arguments = arguments.unwrap_or_default();
        let (token, logs) = (context.meta.get_progress_token(), Logs::of(&context));
        let (peer, meta, asks) = (context.peer.clone(), meta(&context), capabilities(&context));
        let run = Run::start(&context, Progress::none(), |cancel, client| {
            let frontend = self.clone();
            async move {
                let (upward, mut reports) = Reports::new(logs);
                let call = DirectCall {
                    user: frontend.user(),
                    session: None,
                    conversation: Some(frontend.client_place.clone()),
                    server: tool.server.clone(),
                    tool: tool.wire,
                    arguments,
                    approver: Arc::clone(&client) as _,
                    interface: Interface::Mcp,
                    context: upward.context(
                        cancel,
                        way,
                        OfServer { client, server: tool.server.clone(), frontend: frontend.clone() },
                        asks,
                        meta,
                        resume,
                    ),
                };
                let under_way = frontend.metrics.begin();
                let answer = reports.beside(&frontend, &peer, token, frontend.engine.call_tool(call)).await;
                drop(under_way);
                frontend.metrics.passed_on(tool.server.as_str(), answer.is_ok());
                match answer {
                    Ok(value) if is_input_required(&value) => {
                        frontend.questions(value, &tool.server).await.map(Into::into)
                    }
                    Ok(value) => read::<CallToolResult>(value, &tool.server).map(Into::into),
                    Err(DirectError::Refused { number, message, data }) => Err(refused(number, message, data)),
                    Err(DirectError::Failed(error)) => {
                        Ok(refusal(format!("{} ({})", error.message, error.code)).into())
                    }
                }
            }
        });
        run.follow(self.client(), Call { user: &user, request: &request }, &context).await
    }

    pub(crate) async fn pass_on_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let prompts = self.named_prompts().await;
        let Some(prompt) = prompts.into_iter().find(|prompt| prompt.name == request.name) else {
            let name: String = request.name.chars().take(100).collect();
            return Err(ErrorData::invalid_params(format!("there is no prompt {name:?}"), None));
        };
        let passed = plain(&context, self.resume(request.request_state, request.input_responses).await?);
        let named = json!({ "name": prompt.wire, "arguments": request.arguments.unwrap_or_default() });
        let wanted = self.wanted(&prompt.server, "prompts/get", named, &passed);
        let (upstream, user) = (self.upstream()?, self.user());
        let answer = self.engine.pass_on(wanted, |mut named| {
            let arguments = named.remove("arguments").and_then(|arguments| arguments.as_object().cloned());
            upstream.get_prompt(&user, &prompt.server, &prompt.wire, arguments.unwrap_or_default(), passed)
        });
        let value = answer.await.map_err(not_passed_on)?;
        if is_input_required(&value) {
            return self.questions(value, &prompt.server).await.map(Into::into);
        }
        read::<GetPromptResult>(value, &prompt.server).map(Into::into)
    }

    pub(crate) async fn pass_on_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let mut last = None;
        for server in self.holders(&request.uri).await {
            let resume = self.resume(request.request_state.clone(), request.input_responses.clone()).await?;
            let passed = plain(&context, resume);
            let wanted = self.wanted(&server, "resources/read", json!({ "uri": request.uri }), &passed);
            let (upstream, user) = (self.upstream()?, self.user());
            let make = |_| upstream.read_resource(&user, &server, &request.uri, passed);
            match self.engine.pass_on(wanted, make).await {
                Ok(value) if is_input_required(&value) => return self.questions(value, &server).await.map(Into::into),
                Ok(value) => return read::<ReadResourceResult>(value, &server).map(Into::into),
                Err(error) => last = Some(not_passed_on(error)),
            }
        }
        let uri: String = request.uri.chars().take(300).collect();
        Err(last.unwrap_or_else(|| ErrorData::resource_not_found(format!("there is no resource {uri}"), None)))
    }

    pub(crate) async fn pass_on_completion(
        &self,
        mut request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let servers = match &mut request.r#ref {
            Reference::Prompt(prompt) => {
                let prompts = self.named_prompts().await;
                let Some(found) = prompts.into_iter().find(|named| named.name == prompt.name) else {
                    return Err(ErrorData::invalid_params("there is no such prompt", None));
                };
                prompt.name = found.wire;
                vec![found.server]
            }
            Reference::Resource(resource) => {
                let uri = resource.uri.clone();
                self.holders(&uri).await
            }
            _ => Vec::new(),
        };
        request.meta = None;
        let Ok(params @ Value::Object(_)) = serde_json::to_value(&request) else {
            return Err(ErrorData::invalid_params("the request is malformed", None));
        };
        let mut last = None;
        for server in servers {
            let passed = plain(&context, None);
            let wanted = self.wanted(&server, "completion/complete", params.clone(), &passed);
            let (upstream, user) = (self.upstream()?, self.user());
            let make = |params| upstream.complete(&user, &server, params, passed);
            match self.engine.pass_on(wanted, make).await {
                Ok(value) => return read(value, &server),
                Err(error) => last = Some(not_passed_on(error)),
            }
        }
        Err(last.unwrap_or_else(|| ErrorData::invalid_params("nothing to complete", None)))
    }

    /// A request for the engine, which decides about it.
    fn wanted(
        &self,
        server: &ServerName,
        method: &'static str,
        arguments: Value,
        context: &CallContext,
    ) -> DirectRequest {
        let arguments = if let Value::Object(arguments) = arguments { arguments } else { Map::new() };
        let (server, cancel) = (server.clone(), context.cancel.clone());
        DirectRequest {
            user: self.user(),
            conversation: Some(self.client_place.clone()),
            server,
            method,
            arguments,
            interface: Interface::Mcp,
            cancel,
        }
    }

    /// Subscribes to changes of a resource.
    pub(super) async fn subscribe_at(&self, server: &ServerName, uri: &str) -> Result<(), ErrorData> {
        let wanted = self.wanted(server, "resources/subscribe", json!({ "uri": uri }), &CallContext::default());
        let (upstream, user) = (self.upstream()?, self.user());
        let make = |_| async { upstream.subscribe(&user, server, uri).await.map(|()| Value::Null) };
        self.engine.pass_on(wanted, make).await.map(drop).map_err(not_passed_on)
    }

    /// Questions in the result of a server.
    async fn questions(&self, mut value: Value, server: &ServerName) -> Result<InputRequiredResult, ErrorData> {
        attribute_all(server, &mut value).map_err(|reason| {
            ErrorData::internal_error(format!("cannot forward the question of server {server}: {reason}"), None)
        })?;
        self.questions_for_model(&mut value).await?;
        read(value, server)
    }

    /// The answers to questions in an earlier result.
    async fn resume(
        &self,
        state: Option<String>,
        responses: Option<InputResponses>,
    ) -> Result<Option<Resume>, ErrorData> {
        if state.is_none() && responses.is_none() {
            return Ok(None);
        }
        let mut restored = Map::new();
        for (key, response) in responses.unwrap_or_default() {
            restored.insert(key, self.restored(response).await?);
        }
        Ok(Some(Resume { responses: restored, state }))
    }

    /// How questions of the server reach the client: unchanged if both use the stateless revision.
    async fn way(&self, server: &ServerName, context: &RequestContext<RoleServer>) -> Passing {
        if Way::of(context) == Way::Request {
            return Passing::Translated;
        }
        let Ok(upstream) = self.upstream() else { return Passing::Translated };
        let info = upstream.info(&self.user(), server).await;
        let is_stateless = info.is_ok_and(|info| info.protocol.as_str() >= ProtocolVersion::V_2026_07_28.as_str());
        if is_stateless { Passing::AsItIs } else { Passing::Translated }
    }
}

/// Why a request was not made, or has no answer, for the client.
fn not_passed_on(error: DirectError) -> ErrorData {
    match error {
        DirectError::Refused { number, message, data } => refused(number, message, data),
        DirectError::Failed(HostCallError { code, message, .. }) => {
            let message = format!("{message} ({code})");
            if code.starts_with("denied") {
                ErrorData::invalid_request(message, Some(json!({ "code": code })))
            } else {
                ErrorData::internal_error(message, None)
            }
        }
    }
}

/// Context of a request whose only questions are in its result.
fn plain(context: &RequestContext<RoleServer>, resume: Option<Resume>) -> CallContext {
    CallContext {
        cancel: context.ct.child_token(),
        capabilities: capabilities(context),
        meta: meta(context),
        resume,
        ..CallContext::default()
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Passing {
    AsItIs,
    Translated,
}

/// Log messages that a client wants. In the stateless revision each request says so; earlier ones set a level once.
#[derive(Clone, Copy, PartialEq)]
enum Logs {
    Nothing,
    From(LoggingLevel),
    /// The servers know the level and filter themselves.
    AsTheyCome,
}

impl Logs {
    fn of(context: &RequestContext<RoleServer>) -> Self {
        match (Way::of(context), context.meta.log_level()) {
            (Way::Request, _) => Self::AsTheyCome,
            (Way::InputRequired, Some(level)) => Self::From(level),
            (Way::InputRequired, None) => Self::Nothing,
        }
    }

    fn want(self, level: LoggingLevel) -> bool {
        match self {
            Self::Nothing => false,
            Self::From(least) => level as u8 >= least as u8,
            Self::AsTheyCome => true,
        }
    }
}

/// Notifications of a server during a call.
struct Reports {
    progress: mpsc::Receiver<Reported>,
    log: mpsc::Receiver<Value>,
    logs: Logs,
}

struct Upward {
    progress: mpsc::Sender<Reported>,
    log: Option<mpsc::Sender<Value>>,
}

impl Upward {
    fn context(
        self,
        cancel: CancellationToken,
        passing: Passing,
        reverse: OfServer,
        capabilities: Map<String, Value>,
        meta: Map<String, Value>,
        resume: Option<Resume>,
    ) -> CallContext {
        let reverse = (passing == Passing::Translated).then(|| Arc::new(reverse) as Arc<dyn Reverse>);
        let (progress, log) = (Some(self.progress), self.log);
        CallContext { cancel, progress, log, reverse, capabilities, meta, resume, ..CallContext::default() }
    }
}

impl Reports {
    fn new(logs: Logs) -> (Upward, Self) {
        let ((progress, heard), (log, logged)) = (mpsc::channel(QUEUE), mpsc::channel(QUEUE));
        let log = (logs != Logs::Nothing).then_some(log);
        (Upward { progress, log }, Self { progress: heard, log: logged, logs })
    }

    /// Forwards notifications of the server until the call has ended, including those that are still queued then.
    async fn beside<T>(
        &mut self,
        frontend: &Frontend,
        peer: &Peer<RoleServer>,
        token: Option<ProgressToken>,
        call: impl Future<Output = T>,
    ) -> T {
        tokio::pin!(call);
        let answer = loop {
            tokio::select! {
                biased;
                Some(report) = self.progress.recv() => tell_progress(frontend, peer, token.as_ref(), report).await,
                Some(message) = self.log.recv() => tell_log(frontend, peer, self.logs, message).await,
                answer = &mut call => break answer,
            }
        };
        while let Ok(report) = self.progress.try_recv() {
            tell_progress(frontend, peer, token.as_ref(), report).await;
        }
        while let Ok(message) = self.log.try_recv() {
            tell_log(frontend, peer, self.logs, message).await;
        }
        answer
    }
}

async fn tell_progress(frontend: &Frontend, peer: &Peer<RoleServer>, token: Option<&ProgressToken>, report: Reported) {
    let Some(token) = token else { return };
    let mut param = ProgressNotificationParam::new(token.clone(), report.progress);
    (param.total, param.message) = (report.total, frontend.report_for_model(report.message).await);
    if let Err(error) = peer.notify_progress(param).await {
        tracing::debug!(%error, "cannot forward progress");
    }
}

async fn tell_log(frontend: &Frontend, peer: &Peer<RoleServer>, logs: Logs, message: Value) {
    let Ok(message) = frontend.for_model::<Value>(Ok(message)).await else { return };
    let Ok(message) = serde_json::from_value::<LoggingMessageNotificationParam>(message) else { return };
    if !logs.want(message.level) {
        return;
    }
    if let Err(error) = peer.notify_logging_message(message).await {
        tracing::debug!(%error, "cannot forward a log message");
    }
}

fn is_input_required(value: &Value) -> bool {
    value.get("resultType").and_then(Value::as_str) == Some("input_required")
}

/// Metadata of the client's request, without what belongs to its own connection.
fn meta(context: &RequestContext<RoleServer>) -> Map<String, Value> {
    match serde_json::to_value(&context.meta) {
        Ok(Value::Object(mut meta)) => {
            meta.remove("progressToken");
            meta
        }
        _ => Map::new(),
    }
}
