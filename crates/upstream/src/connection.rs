//! One live connection: its tools, its calls, and the task that keeps it.

mod keeper;
mod pending;

pub(crate) use keeper::{Idle, keep};

use crate::call::CallContext;
use crate::content;
use crate::error::UpstreamError;
use crate::http::TOO_LARGE;
use crate::screen::{Desk, Fault, ProgressSink};
use crate::scrub::{Scrubber, shortened};
use crate::status::{Change, Owner, ServerInfo};
use crate::tools::{Intake, ToolList};
use coracle_types::{ServerName, ServerSpec, ToolResult};
use pending::Pending;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, ErrorCode, ListToolsRequest, PaginatedRequestParams,
    ServerResult,
};
use rmcp::service::{PeerRequestOptions, RequestHandle, ServiceError};
use rmcp::transport::streamable_http_client::{AuthRequiredError, InsufficientScopeError};
use rmcp::{Peer, RoleClient};
use serde_json::{Map, Value};
use std::error::Error;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

/// Most pages of a list of tools.
const MAX_PAGES: usize = 100;
/// Longest name of a tool in an error.
const SHOWN_NAME: usize = 100;
/// A failed write and the end of a process are seen apart, but are one event: so long is waited for its reason.
const REASON_COMES_WITHIN: Duration = Duration::from_secs(1);

/// What is known about a connection from the outset.
pub(crate) struct Origin {
    pub(crate) spec: Arc<ServerSpec>,
    pub(crate) scrubber: Arc<Scrubber>,
    pub(crate) desk: Arc<Desk>,
    pub(crate) info: ServerInfo,
    pub(crate) pid: Option<u32>,
    pub(crate) owner: Owner,
    /// Learns when the tools have changed.
    pub(crate) changes: broadcast::Sender<Change>,
}

/// A connection that can be used.
pub(crate) struct Connection {
    origin: Origin,
    peer: Peer<RoleClient>,
    tools: RwLock<Arc<ToolList>>,
    /// Held while the tools are asked for, so that many who want to know ask once.
    refreshing: tokio::sync::Mutex<()>,
    activity: Mutex<Activity>,
    /// Asks the keeper to end it.
    pub(crate) close: CancellationToken,
    /// It gets no new calls, and ends when those that it has are done.
    retired: CancellationToken,
}

struct Activity {
    calls: usize,
    last: Instant,
}

impl Connection {
    pub(crate) fn new(origin: Origin, peer: Peer<RoleClient>) -> Self {
        Self {
            origin,
            peer,
            tools: RwLock::default(),
            refreshing: tokio::sync::Mutex::default(),
            activity: Mutex::new(Activity { calls: 0, last: Instant::now() }),
            close: CancellationToken::new(),
            retired: CancellationToken::new(),
        }
    }

    pub(crate) fn info(&self) -> &ServerInfo {
        &self.origin.info
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        self.origin.pid
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.origin.desk.ended.is_cancelled() || self.close.is_cancelled() || self.retired.is_cancelled()
    }

    /// What is known of the tools now.
    pub(crate) fn known_tools(&self) -> Arc<ToolList> {
        Arc::clone(&self.tools.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The tools as the server has them: asks again if it has said that they changed.
    pub(crate) async fn current_tools(&self) -> Result<Arc<ToolList>, UpstreamError> {
        if self.origin.desk.tools_stale.load(Ordering::Acquire) {
            self.refresh().await?;
        }
        Ok(self.known_tools())
    }

    /// Asks for the tools if they may have changed, and tells those who want to know if they have.
    pub(crate) async fn refresh(&self) -> Result<(), UpstreamError> {
        let _one_at_a_time = self.refreshing.lock().await;
        if !self.origin.desk.tools_stale.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        match self.load_tools().await {
            Ok(has_changed) => {
                if has_changed {
                    let change = Change { owner: self.origin.owner.clone(), server: self.server().clone() };
                    // It is no error if nobody listens.
                    let _ = self.origin.changes.send(change);
                }
                Ok(())
            }
            Err(error) => {
                self.origin.desk.tools_stale.store(true, Ordering::Release);
                Err(error)
            }
        }
    }

    /// Asks for all tools, page by page; tells whether they are others than before.
    pub(crate) async fn load_tools(&self) -> Result<bool, UpstreamError> {
        let mut intake = Intake::new(self.server());
        let mut cursor: Option<String> = None;
        for _ in 0..MAX_PAGES {
            let params = PaginatedRequestParams::default().with_cursor(cursor.clone());
            let request = ClientRequest::ListToolsRequest(ListToolsRequest::with_param(params));
            let context = CallContext::default();
            let (definitions, next) = match self.ask(request, &context, "tools/list").await {
                Ok(ServerResult::ListToolsResult(page)) => {
                    let definitions = page.tools.iter().filter_map(|tool| serde_json::to_value(tool).ok()).collect();
                    (definitions, page.next_cursor)
                }
                // One bad definition makes a list that the library does not know.
                Ok(ServerResult::CustomResult(other)) => lenient_page(other.0)
                    .ok_or_else(|| self.protocol("what it sent in place of its tools is no list of tools"))?,
                Ok(_) => return Err(self.protocol("what it sent in place of its tools is no list of tools")),
                // It has none.
                Err(UpstreamError::Refused { number, .. })
                    if number == i64::from(ErrorCode::METHOD_NOT_FOUND.0) && cursor.is_none() =>
                {
                    (Vec::new(), None)
                }
                Err(error) => return Err(error),
            };
            for definition in definitions {
                intake.take(definition);
            }
            let is_last = next.is_none() || next == cursor || intake.is_full();
            cursor = next;
            if is_last {
                break;
            }
        }
        let list = Arc::new(intake.finish());
        for warning in &list.warnings {
            let (tool, problem) = (self.origin.scrubber.clean(&warning.tool), &warning.problem);
            tracing::warn!(server = %self.server(), tool, problem, kept = warning.kept, "a tool is not as it should be");
        }
        let mut tools = self.tools.write().unwrap_or_else(PoisonError::into_inner);
        let has_changed = **tools != *list;
        *tools = list;
        Ok(has_changed)
    }

    /// Calls a tool.
    pub(crate) async fn call(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
        context: &CallContext,
    ) -> Result<ToolResult, UpstreamError> {
        let unknown =
            || UpstreamError::ToolNotFound { server: self.server().clone(), tool: shortened(tool, SHOWN_NAME) };
        if self.known_tools().get(tool).is_none() && self.current_tools().await?.get(tool).is_none() {
            return Err(unknown());
        }
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let mut request = CallToolRequest::new(params);
        if let Some(progress) = &context.progress {
            request.extensions.insert(ProgressSink(progress.clone()));
        }
        match self.ask(ClientRequest::CallToolRequest(request), context, "the call").await? {
            ServerResult::CallToolResult(result) => Ok(content::result(result)),
            ServerResult::InputRequiredResult(_) => {
                Err(UpstreamError::InputRequired { server: self.server().clone(), tool: shortened(tool, SHOWN_NAME) })
            }
            // A result with nothing in it.
            ServerResult::EmptyResult(_) | ServerResult::TaskAckResult(_) => Ok(ToolResult::default()),
            ServerResult::CustomResult(other) => content::lenient_result(other.0)
                .ok_or_else(|| self.protocol("what it sent in place of a result is none")),
            _ => Err(self.protocol("what it sent in place of a result is none")),
        }
    }

    /// One request and its answer. If the caller stops waiting, for whatever reason, the server is told.
    async fn ask(
        &self,
        request: ClientRequest,
        context: &CallContext,
        what: &str,
    ) -> Result<ServerResult, UpstreamError> {
        let after = context.timeout.unwrap_or(self.origin.spec.call_timeout);
        let mut pending = Pending::new(&self.origin.desk);
        let answer = async {
            let handle = self.peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await?;
            receive(pending.started(handle)).await
        };
        let outcome = tokio::select! {
            biased;
            answer = answer => Ok(answer),
            () = context.cancel.cancelled() => Err(UpstreamError::Cancelled { server: self.server().clone() }),
            () = self.origin.desk.ended.cancelled() => Err(self.ended()),
            () = tokio::time::sleep(after) => Err(self.timed_out(what, after)),
        };
        match outcome {
            Ok(answer) => {
                pending.answered();
                match answer {
                    Ok(answer) => Ok(answer),
                    Err(error) => Err(self.explained(error).await),
                }
            }
            Err(error) => {
                pending.abandon(error.code());
                Err(error)
            }
        }
    }

    async fn explained(&self, error: ServiceError) -> UpstreamError {
        let server = self.server().clone();
        let clean = |text: &str| self.origin.scrubber.clean(text);
        match error {
            ServiceError::McpError(error) if error.code == TOO_LARGE => {
                UpstreamError::TooLarge { server, reason: clean(&error.message) }
            }
            ServiceError::McpError(error) => {
                UpstreamError::Refused { server, number: error.code.0.into(), message: clean(&error.message) }
            }
            ServiceError::Cancelled { .. } => UpstreamError::Cancelled { server },
            ServiceError::TransportSend(error) => {
                // What state the connection is in is anybody's guess: the next call makes another.
                self.retired.cancel();
                if wants_sign_in(&error) {
                    return UpstreamError::Unauthorized { server, reason: "its answer is 401".to_owned() };
                }
                let reason = clean(&chain(error.error.as_ref()));
                if self.origin.pid.is_some() {
                    let ended = self.origin.desk.ended.cancelled();
                    if tokio::time::timeout(REASON_COMES_WITHIN, ended).await.is_ok() {
                        return self.ended();
                    }
                }
                UpstreamError::Unavailable { server, reason, retry_in: None }
            }
            ServiceError::TransportClosed => self.ended(),
            other => UpstreamError::Protocol { server, reason: clean(&other.to_string()) },
        }
    }

    /// Why it ended, for those who still waited.
    pub(crate) fn ended(&self) -> UpstreamError {
        let server = self.server().clone();
        match self.origin.desk.fault() {
            Some(Fault::TooLarge(reason)) => UpstreamError::TooLarge { server, reason: reason.clone() },
            Some(Fault::Protocol(reason)) => UpstreamError::Protocol { server, reason: reason.clone() },
            Some(Fault::Ended(reason)) => UpstreamError::Closed { server, reason: reason.clone() },
            None => UpstreamError::Closed { server, reason: "the connection ended".to_owned() },
        }
    }

    fn timed_out(&self, what: &str, after: Duration) -> UpstreamError {
        let note = match self.origin.desk.garbage.load(Ordering::Relaxed) {
            0 => String::new(),
            1 => "; so far it printed one line that is no message".to_owned(),
            count => format!("; so far it printed {count} lines that are no messages"),
        };
        UpstreamError::Timeout { server: self.server().clone(), what: what.to_owned(), after, note }
    }

    fn protocol(&self, reason: &str) -> UpstreamError {
        UpstreamError::Protocol { server: self.server().clone(), reason: reason.to_owned() }
    }

    pub(crate) fn server(&self) -> &ServerName {
        &self.origin.spec.name
    }

    fn activity(&self) -> std::sync::MutexGuard<'_, Activity> {
        self.activity.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn receive(handle: &mut RequestHandle<RoleClient>) -> Result<ServerResult, ServiceError> {
    (&mut handle.rx).await.unwrap_or(Err(ServiceError::TransportClosed))
}

/// Whoever holds one may use the connection; while there is one, it is not idle.
pub(crate) struct Lease(Arc<Connection>);

impl Lease {
    pub(crate) fn new(connection: &Arc<Connection>) -> Self {
        connection.activity().calls += 1;
        Self(Arc::clone(connection))
    }
}

impl std::ops::Deref for Lease {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.0
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut activity = self.0.activity();
        activity.calls = activity.calls.saturating_sub(1);
        activity.last = Instant::now();
    }
}

/// An error with its causes.
pub(crate) fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

pub(crate) fn wants_sign_in(error: &(dyn Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(current) = next {
        if current.is::<AuthRequiredError>()
            || current.is::<InsufficientScopeError>()
            || current.downcast_ref().is_some_and(crate::sse::wants_sign_in)
        {
            return true;
        }
        next = current.source();
    }
    false
}

fn lenient_page(value: Value) -> Option<(Vec<Value>, Option<String>)> {
    let Value::Object(mut page) = value else {
        return None;
    };
    let Some(Value::Array(tools)) = page.remove("tools") else {
        return None;
    };
    Some((tools, page.get("nextCursor").and_then(Value::as_str).map(str::to_owned)))
}
