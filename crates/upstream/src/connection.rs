//! A live connection: its tools, its calls, and the task that maintains it.

mod keeper;
mod lists;
mod pending;
mod requests;
mod watching;

pub(crate) use keeper::{Idle, keep};
pub(crate) use lists::{PROMPTS, RESOURCES, TEMPLATES};
pub(crate) use requests::capabilities;

use crate::call::CallContext;
use crate::connection_state::{ConnectionState, Fault, InFlight};
use crate::content;
use crate::error::UpstreamError;
use crate::http::TOO_LARGE;
use crate::screen::Ticket;
use crate::scrub::{Scrubber, shortened};
use crate::status::{Change, Changed, Owner, ServerInfo};
use crate::tools::{Intake, ToolList};
use coracle_types::{ServerName, ServerSpec, ToolResult};
use pending::Pending;
use rmcp::model::{ClientRequest, CustomRequest, GetExtensions as _, ServerPeerInfo, ServerResult};
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

/// The maximum size of additional data in an error.
const MAX_ERROR_DATA: usize = 64 * 1024;
/// The maximum length of a tool's name in an error.
const SHOWN_NAME: usize = 100;
/// How long to wait for the reason after a failed write: the end of the process, which causes it, is noticed
/// separately.
const REASON_COMES_WITHIN: Duration = Duration::from_secs(1);

/// The properties of a connection that are known when it starts.
pub(crate) struct Origin {
    pub(crate) spec: Arc<ServerSpec>,
    pub(crate) scrubber: Arc<Scrubber>,
    pub(crate) state: Arc<ConnectionState>,
    pub(crate) info: ServerInfo,
    pub(crate) pid: Option<u32>,
    pub(crate) owner: Owner,
    /// Announces changes.
    pub(crate) changes: broadcast::Sender<Change>,
    /// Whether the connection uses a revision of the protocol with stateless requests.
    pub(crate) is_modern: bool,
}

/// A connection that is ready for use.
pub(crate) struct Connection {
    origin: Origin,
    peer: Peer<RoleClient>,
    tools: RwLock<Arc<ToolList>>,
    /// Held while tools are listed, so that concurrent callers list them once.
    refreshing: tokio::sync::Mutex<()>,
    activity: Mutex<Activity>,
    watching: watching::Watching,
    /// The minimum level of log messages.
    level: Mutex<Option<String>>,
    /// Tells the keeper to end the connection.
    pub(crate) close: CancellationToken,
    /// Cancelled when the connection gets no new calls. It ends when its current calls are done.
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
            watching: watching::Watching::default(),
            level: Mutex::default(),
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

    /// The server's answer to the handshake.
    pub(crate) fn introduction(&self) -> Option<Arc<ServerPeerInfo>> {
        self.peer.peer_info()
    }

    /// Whether the connection uses a stored sign-in.
    pub(crate) fn is_signed_in(&self) -> bool {
        self.origin.state.signed_in.load(Ordering::Relaxed)
    }

    /// Whether the change is one of this connection.
    pub(crate) fn is_of(&self, change: &Change) -> bool {
        change.server == *self.server() && change.owner == self.origin.owner
    }

    /// Returns when the connection has ended or gets no new calls.
    pub(crate) async fn ending(&self) {
        tokio::select! {
            () = self.origin.state.ended.cancelled() => {}
            () = self.close.cancelled() => {}
            () = self.retired.cancelled() => {}
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.origin.state.ended.is_cancelled() || self.close.is_cancelled() || self.retired.is_cancelled()
    }

    /// The tools as currently known.
    pub(crate) fn known_tools(&self) -> Arc<ToolList> {
        Arc::clone(&self.tools.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The current tools. Lists them again if the server announced a change.
    pub(crate) async fn current_tools(&self) -> Result<Arc<ToolList>, UpstreamError> {
        if self.origin.state.tools_stale.load(Ordering::Acquire) {
            self.refresh().await?;
        }
        Ok(self.known_tools())
    }

    /// Lists the tools if they may have changed, and announces it if they have.
    pub(crate) async fn refresh(&self) -> Result<(), UpstreamError> {
        let _one_at_a_time = self.refreshing.lock().await;
        if !self.origin.state.tools_stale.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        match self.load_tools().await {
            Ok(has_changed) => {
                if has_changed {
                    self.tell(Changed::Tools);
                }
                Ok(())
            }
            Err(error) => {
                self.origin.state.tools_stale.store(true, Ordering::Release);
                Err(error)
            }
        }
    }

    fn tell(&self, what: Changed) {
        let change = Change { owner: self.origin.owner.clone(), server: self.server().clone(), what };
        // There may be no listeners.
        let _ = self.origin.changes.send(change);
    }

    /// Lists all tools, page by page. Returns whether they have changed.
    pub(crate) async fn load_tools(&self) -> Result<bool, UpstreamError> {
        let mut intake = Intake::new(self.server());
        self.pages(lists::TOOLS, |definition| {
            intake.take(definition);
            if intake.is_full() { lists::Wanted::NoMore } else { lists::Wanted::More }
        })
        .await?;
        let list = Arc::new(intake.finish());
        for warning in &list.warnings {
            let (tool, problem) = (self.origin.scrubber.clean(&warning.tool), &warning.problem);
            tracing::warn!(server = %self.server(), tool, problem, kept = warning.kept, "invalid tool definition");
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
        let result = self.call_raw(tool, arguments, context).await?;
        if requests::wants_input(&result) {
            let (server, tool) = (self.server().clone(), shortened(tool, SHOWN_NAME));
            return Err(UpstreamError::InputRequired { server, tool });
        }
        content::result(result).ok_or_else(|| self.protocol("it did not send a valid result"))
    }

    /// Sends a request and returns its answer. If the caller stops waiting for any reason, the server is notified.
    pub(crate) async fn ask(
        &self,
        method: &str,
        params: Map<String, Value>,
        context: &CallContext,
        what: &str,
    ) -> Result<Value, UpstreamError> {
        let after = context.timeout.unwrap_or(self.origin.spec.call_timeout);
        let flight = Arc::new(InFlight::new(context));
        let mut request = request(method, params);
        request.extensions_mut().insert(Ticket(Arc::clone(&flight)));
        let options = PeerRequestOptions::no_options().with_meta(self.meta(context));
        let mut pending = Pending::new(&self.origin.state, Arc::clone(&flight));
        let answer = async {
            let handle = self.peer.send_cancellable_request(request, options).await?;
            receive(pending.started(handle)).await
        };
        let outcome = tokio::select! {
            biased;
            answer = answer => Ok(answer),
            () = context.cancel.cancelled() => Err(UpstreamError::Cancelled { server: self.server().clone() }),
            () = self.origin.state.ended.cancelled() => Err(self.ended()),
            () = flight.time_out(after) => Err(self.timed_out(what, after)),
        };
        match outcome {
            Ok(answer) => {
                pending.answered();
                match answer {
                    Ok(ServerResult::CustomResult(answer)) => Ok(answer.0),
                    Ok(answer) => serde_json::to_value(answer).map_err(|_| self.protocol("its answer is not valid")),
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
                let fits = |data: &Value| data.to_string().len() <= MAX_ERROR_DATA;
                let data = error.data.filter(fits).map(Box::new);
                UpstreamError::Refused { server, number: error.code.0.into(), message: clean(&error.message), data }
            }
            ServiceError::Cancelled { .. } => UpstreamError::Cancelled { server },
            ServiceError::TransportSend(error) => {
                // The state of the connection is unknown, so the next call makes a new one.
                self.retired.cancel();
                if wants_sign_in(&error) {
                    return UpstreamError::Unauthorized { server, reason: "it answered 401".to_owned() };
                }
                let reason = clean(&chain(error.error.as_ref()));
                if self.origin.pid.is_some() {
                    let ended = self.origin.state.ended.cancelled();
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

    /// Why the connection ended, for callers that are still waiting.
    pub(crate) fn ended(&self) -> UpstreamError {
        let server = self.server().clone();
        match self.origin.state.fault() {
            Some(Fault::TooLarge(reason)) => UpstreamError::TooLarge { server, reason: reason.clone() },
            Some(Fault::Protocol(reason)) => UpstreamError::Protocol { server, reason: reason.clone() },
            Some(Fault::Ended(reason)) => UpstreamError::Closed { server, reason: reason.clone() },
            None => UpstreamError::Closed { server, reason: "the connection ended".to_owned() },
        }
    }

    fn timed_out(&self, what: &str, after: Duration) -> UpstreamError {
        let note = match self.origin.state.garbage.load(Ordering::Relaxed) {
            0 => String::new(),
            1 => "; so far it printed one line that is not a message".to_owned(),
            count => format!("; so far it printed {count} lines that are not messages"),
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

/// A typed request if the library knows the method, or else a custom one.
fn request(method: &str, params: Map<String, Value>) -> ClientRequest {
    let whole = Value::from_iter([("method", Value::from(method)), ("params", Value::Object(params.clone()))]);
    let known = serde_json::from_value(whole);
    known.unwrap_or_else(|_| ClientRequest::CustomRequest(CustomRequest::new(method, Some(Value::Object(params)))))
}

async fn receive(handle: &mut RequestHandle<RoleClient>) -> Result<ServerResult, ServiceError> {
    (&mut handle.rx).await.unwrap_or(Err(ServiceError::TransportClosed))
}

/// The right to use a connection. While there is a lease, the connection is not idle.
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
