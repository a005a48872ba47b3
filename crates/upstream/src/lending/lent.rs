//! A lent connection: forwards requests of the command to the server, and the answers back, unchanged.

use super::{Ended, line};
use crate::call::{CallContext, Progress};
use crate::connection::Lease;
use crate::error::UpstreamError;
use crate::http::TOO_LARGE;
use crate::lines::{Line, Lines};
use crate::reverse::{Question, Refusal, Reverse};
use crate::status::{Change, Changed};
use crate::stdio::MAX_MESSAGE;
use async_trait::async_trait;
use rmcp::model::{ErrorCode, ProtocolVersion};
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{broadcast, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Requests that are forwarded. Those that would change the connection for its owner, such as subscriptions and the log
/// level, are not.
const PASSED_ON: &[&str] = &[
    "completion/complete",
    "prompts/get",
    "prompts/list",
    "resources/list",
    "resources/read",
    "resources/templates/list",
    "tools/call",
    "tools/list",
];
/// Requests during which a server may ask questions.
const MAY_ASK: &[&str] = &["prompts/get", "resources/read", "tools/call"];
/// Capabilities of a server that work over a lent connection.
const OFFERED: &[&str] = &["completions", "prompts", "resources", "tools"];

/// The maximum number of concurrent requests of one command.
const MAX_AT_ONCE: usize = 1024;
/// The time limit of a call. The command has its own time-outs, and cancels calls that take too long.
const LONGEST_CALL: Duration = Duration::from_hours(24);
/// The maximum number of messages that wait to be read by the command. Beyond it, its calls wait.
const MESSAGES_AHEAD: usize = 64;
/// The maximum number of progress reports that wait to be forwarded. Further reports are dropped.
const REPORTS_AHEAD: usize = 16;
/// Maximum time for a command to read why the connection ends.
const LAST_WORD: Duration = Duration::from_secs(2);

const UP_ENDS: &str = "it was the connection of the running `coracle up`, which is shutting down";

/// The state that the tasks of a lent connection share.
struct Lent {
    lease: Lease,
    out: mpsc::Sender<Value>,
    /// Requests of the command, by the JSON of their IDs.
    under_way: Mutex<HashMap<String, CancellationToken>>,
    /// Questions that the command has not answered yet.
    questions: Mutex<HashMap<u64, oneshot::Sender<Result<Value, Refusal>>>>,
    next_question: AtomicU64,
    /// The command's capabilities.
    capabilities: OnceLock<Map<String, Value>>,
}

/// Why a lent connection ends.
enum End {
    /// The command has disconnected, or violates the protocol.
    CommandGone,
    /// The connection to the server has ended, with this reason.
    ServerGone(String),
}

/// Forwards requests until the command disconnects, the connection ends, or `stop`.
pub(super) async fn serve(
    lease: Lease,
    mut lines: Lines<OwnedReadHalf>,
    write: OwnedWriteHalf,
    changes: broadcast::Receiver<Change>,
    stop: &CancellationToken,
) {
    lines.allow(MAX_MESSAGE);
    let (out, waiting) = mpsc::channel(MESSAGES_AHEAD);
    let mut writing = tokio::spawn(write_from(waiting, write));
    let lent = Arc::new(Lent {
        lease,
        out,
        under_way: Mutex::default(),
        questions: Mutex::default(),
        next_question: AtomicU64::new(1),
        capabilities: OnceLock::new(),
    });
    let mut requests = JoinSet::new();
    let end = tokio::select! {
        biased;
        () = stop.cancelled() => End::ServerGone(UP_ENDS.to_owned()),
        end = Arc::clone(&lent).listen(&mut lines, &mut requests, changes) => end,
    };
    // Cancels requests that are still in progress at the server.
    requests.shutdown().await;
    if let End::ServerGone(ended) = end {
        // A command that does not read notices the end of the stream.
        let _ = lent.out.try_send(json!(Ended { ended }));
    }
    drop(lent);
    if tokio::time::timeout(LAST_WORD, &mut writing).await.is_err() {
        writing.abort();
    }
}

async fn write_from(mut waiting: mpsc::Receiver<Value>, mut write: OwnedWriteHalf) {
    while let Some(message) = waiting.recv().await {
        let Ok(line) = line(&message) else { return };
        if write.write_all(&line).await.is_err() {
            return;
        }
    }
}

impl Lent {
    async fn listen(
        self: Arc<Self>,
        lines: &mut Lines<OwnedReadHalf>,
        requests: &mut JoinSet<Option<String>>,
        mut changes: broadcast::Receiver<Change>,
    ) -> End {
        let mut reason = None;
        let mut is_ending = false;
        loop {
            if is_ending && requests.is_empty() {
                return End::ServerGone(reason.unwrap_or_else(|| self.reason()));
            }
            tokio::select! {
                // Requests in progress may still be answered.
                () = self.lease.ending(), if !is_ending => is_ending = true,
                Some(done) = requests.join_next() => {
                    if let Ok(Some(why)) = done {
                        reason.get_or_insert(why);
                        is_ending = true;
                    }
                }
                change = changes.recv() => {
                    let is_ours = match &change {
                        Ok(change) => change.what == Changed::Tools && self.lease.is_of(change),
                        Err(broadcast::error::RecvError::Lagged(_)) => true,
                        Err(broadcast::error::RecvError::Closed) => return End::ServerGone(self.reason()),
                    };
                    if is_ours {
                        self.say(notification("notifications/tools/list_changed", json!({}))).await;
                    }
                }
                () = self.out.closed() => return End::CommandGone,
                line = lines.next() => {
                    let Ok(Line::Whole) = line else { return End::CommandGone };
                    let message = serde_json::from_slice(lines.current());
                    lines.clear();
                    let Ok(Value::Object(message)) = message else { return End::CommandGone };
                    self.take(message, requests, is_ending).await;
                }
            }
        }
    }

    /// Handles one message of the command.
    async fn take(
        self: &Arc<Self>,
        mut message: Map<String, Value>,
        requests: &mut JoinSet<Option<String>>,
        is_ending: bool,
    ) {
        let params = match message.remove("params") {
            Some(Value::Object(params)) => params,
            _ => Map::new(),
        };
        let method = message.get("method").and_then(Value::as_str).map(str::to_owned);
        match (method, message.remove("id")) {
            (Some(method), Some(id)) => self.request(&method, id, params, requests, is_ending).await,
            (Some(method), None) if method == "notifications/cancelled" => {
                let id = params.get("requestId").map(Value::to_string).unwrap_or_default();
                if let Some(cancel) = locked(&self.under_way).get(&id) {
                    cancel.cancel();
                }
            }
            (None, Some(id)) => {
                let asked = id.as_u64().and_then(|id| locked(&self.questions).remove(&id));
                let answer = match (message.remove("result"), message.remove("error")) {
                    (Some(result), None) => Ok(result),
                    (_, error) => Err(refusal(error.as_ref())),
                };
                // The request may be over already.
                asked.map(|asked| asked.send(answer));
            }
            (Some(_) | None, None) => {}
        }
    }

    async fn request(
        self: &Arc<Self>,
        method: &str,
        id: Value,
        params: Map<String, Value>,
        requests: &mut JoinSet<Option<String>>,
        is_ending: bool,
    ) {
        let answer = match method {
            "initialize" => {
                if let Some(Value::Object(capabilities)) = params.get("capabilities") {
                    // Only the first announcement counts.
                    let _ = self.capabilities.set(capabilities.clone());
                }
                result(&id, self.introduction())
            }
            "ping" => result(&id, json!({})),
            // The command learns about the end when its other requests are answered.
            _ if is_ending => return,
            _ if PASSED_ON.contains(&method) && requests.len() < MAX_AT_ONCE => {
                let cancel = CancellationToken::new();
                locked(&self.under_way).insert(id.to_string(), cancel.clone());
                requests.spawn(Arc::clone(self).pass_on(method.to_owned(), id, params, cancel));
                return;
            }
            _ if PASSED_ON.contains(&method) => {
                failed(&id, ErrorCode::INTERNAL_ERROR, &format!("more than {MAX_AT_ONCE} requests at once"))
            }
            _ => failed(&id, ErrorCode::METHOD_NOT_FOUND, "not supported over a connection of `coracle up`"),
        };
        self.say(answer).await;
    }

    /// Forwards one request. Returns the reason if the connection can no longer be used.
    async fn pass_on(
        self: Arc<Self>,
        method: String,
        id: Value,
        mut params: Map<String, Value>,
        cancel: CancellationToken,
    ) -> Option<String> {
        let meta = match params.remove("_meta") {
            Some(Value::Object(meta)) => meta,
            _ => Map::new(),
        };
        let token = meta.get("progressToken").cloned();
        let (progress, mut reports) = mpsc::channel(REPORTS_AHEAD);
        let reverse: Arc<dyn Reverse> = Arc::new(Asking(Arc::clone(&self)));
        let context = CallContext {
            cancel,
            timeout: Some(LONGEST_CALL),
            progress: token.is_some().then_some(progress),
            // Also for a command that cannot be asked: otherwise the question would go to another caller of this
            // connection.
            reverse: MAY_ASK.contains(&method.as_str()).then_some(reverse),
            capabilities: self.capabilities.get().cloned().unwrap_or_default(),
            meta,
            ..CallContext::default()
        };
        let outcome = {
            let asked = self.lease.ask(&method, params, &context, &method);
            tokio::pin!(asked);
            loop {
                tokio::select! {
                    biased;
                    Some(report) = reports.recv() => self.report(token.as_ref(), report).await,
                    outcome = &mut asked => break outcome,
                }
            }
        };
        // Reports that arrived together with the answer.
        while let Ok(report) = reports.try_recv() {
            self.report(token.as_ref(), report).await;
        }
        locked(&self.under_way).remove(&id.to_string());
        let answer = match outcome {
            Ok(answer) => result(&id, answer),
            Err(UpstreamError::Refused { number, message, data, .. }) => {
                let mut error = json!({"code": number, "message": message});
                if let Some(data) = data {
                    error["data"] = *data;
                }
                json!({"jsonrpc": "2.0", "id": id, "error": error})
            }
            Err(UpstreamError::TooLarge { reason, .. }) => failed(&id, TOO_LARGE, &reason),
            // The command no longer waits for the answer.
            Err(UpstreamError::Cancelled { .. }) => return None,
            Err(UpstreamError::Closed { reason, .. }) => return Some(reason),
            Err(
                error @ (UpstreamError::ShutDown
                | UpstreamError::Unauthorized { .. }
                | UpstreamError::Unavailable { .. }),
            ) => return Some(error.to_string()),
            Err(error) => failed(&id, ErrorCode::INTERNAL_ERROR, &error.to_string()),
        };
        self.say(answer).await;
        None
    }

    async fn report(&self, token: Option<&Value>, report: Progress) {
        let Progress { progress, total, message } = report;
        let mut params = json!({"progressToken": token, "progress": progress});
        if let Some(total) = total {
            params["total"] = total.into();
        }
        if let Some(message) = message {
            params["message"] = message.into();
        }
        self.say(notification("notifications/progress", params)).await;
    }

    /// The server's description of itself, limited to what works over a lent connection.
    fn introduction(&self) -> Value {
        let about = self.lease.introduction().and_then(|about| serde_json::to_value(&*about).ok()).unwrap_or_default();
        let member = |name: &str| about.get(name).cloned().filter(|value| !value.is_null());
        let mut offered = member("capabilities").unwrap_or_else(|| json!({}));
        if let Value::Object(offered) = &mut offered {
            offered.retain(|name, _| OFFERED.contains(&name.as_str()));
            if let Some(Value::Object(resources)) = offered.get_mut("resources") {
                resources.remove("subscribe");
            }
        }
        let mut introduction = json!({
            "protocolVersion": ProtocolVersion::LATEST_WITH_INITIALIZE,
            "capabilities": offered,
            "serverInfo": member("serverInfo").unwrap_or_else(|| json!({"name": self.lease.server(), "version": ""})),
        });
        if let Some(instructions) = member("instructions") {
            introduction["instructions"] = instructions;
        }
        introduction
    }

    fn reason(&self) -> String {
        match self.lease.ended() {
            UpstreamError::Closed { reason, .. } => reason,
            other => other.to_string(),
        }
    }

    async fn say(&self, message: Value) {
        // If the command has disconnected, the reader notices.
        let _ = self.out.send(message).await;
    }
}

/// Passes the server's questions to the command whose call is in progress.
struct Asking(Arc<Lent>);

#[async_trait]
impl Reverse for Asking {
    async fn ask(&self, question: Question) -> Result<Value, Refusal> {
        let lent = &self.0;
        let id = lent.next_question.fetch_add(1, Ordering::Relaxed);
        let (answered, answer) = oneshot::channel();
        locked(&lent.questions).insert(id, answered);
        let _asked = Asked { lent, id };
        let mut request = json!({"jsonrpc": "2.0", "id": id, "method": question.kind.method()});
        if !question.params.is_null() {
            request["params"] = question.params;
        }
        lent.say(request).await;
        answer.await.unwrap_or_else(|_| Err(Refusal::invalid("the command that was asked has disconnected")))
    }
}

/// A question to the command. It is withdrawn when the caller stops waiting.
struct Asked<'a> {
    lent: &'a Lent,
    id: u64,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if locked(&self.lent.questions).remove(&self.id).is_some() {
            let params = json!({"requestId": self.id, "reason": "the call is over"});
            // A command that does not read has not seen the question either.
            let _ = self.lent.out.try_send(notification("notifications/cancelled", params));
        }
    }
}

/// Builds an object without cloning its values, which may be large.
fn message(members: [(&str, Value); 2]) -> Value {
    let members = [("jsonrpc", "2.0".into())].into_iter().chain(members);
    members.map(|(name, value)| (name.to_owned(), value)).collect()
}

fn result(id: &Value, result: Value) -> Value {
    message([("id", id.clone()), ("result", result)])
}

fn failed(id: &Value, code: ErrorCode, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code.0, "message": message}})
}

fn notification(method: &str, params: Value) -> Value {
    message([("method", method.into()), ("params", params)])
}

fn refusal(error: Option<&Value>) -> Refusal {
    let member = |name: &str| error.and_then(|error| error.get(name));
    let number = member("code").and_then(Value::as_i64).and_then(|number| i32::try_from(number).ok());
    let message = member("message").and_then(Value::as_str).unwrap_or("it was not answered").to_owned();
    Refusal { number: number.unwrap_or(ErrorCode::INTERNAL_ERROR.0), message }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
