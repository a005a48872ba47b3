//! A server as a child process: one JSON-RPC message per line on its standard input and output.

mod inherited;
mod process;
mod tail;
mod warden;

pub use inherited::PassedEnvironment;
pub(crate) use inherited::{Inherited, suspicion};
pub(crate) use process::Process;
pub(crate) use tail::Tail;
pub(crate) use warden::Warden;
pub use warden::{WARDEN_ARGUMENT, warden_main};

use crate::connection_state::{ConnectionState, Fault, LOG_MESSAGE};
use crate::lines::{Line, Lines};
use crate::reverse::QuestionKind;
use crate::scrub::{Scrubber, shortened};
use coracle_types::ServerName;
use rmcp::RoleClient;
use rmcp::model::{
    CustomRequest, CustomResult, ErrorCode, ErrorData, JsonRpcMessage, RequestId, ServerRequest, ServerResult,
};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::Mutex;

/// The maximum size of a message over any transport. Longer messages end the connection before they are in memory.
pub(crate) const MAX_MESSAGE: usize = 32 * 1024 * 1024;

/// The maximum number of lines that are not messages. Some servers print greetings on standard output.
const MAX_GARBAGE_LINES: u64 = 100;

/// The maximum length of such a line in an error.
const SHOWN_GARBAGE: usize = 200;

/// The length up to which a line's method is parsed first, so that a flood of notifications costs little.
const PEEK_BELOW: usize = 16 * 1024;

/// Maximum time until the end of a child that has stopped reading is noticed.
const ENDS_WITHIN: Duration = Duration::from_secs(2);

/// The only notifications that are used; see `screen.rs`.
const WANTED_NOTIFICATIONS: &[&str] = &[
    "notifications/tools/list_changed",
    "notifications/resources/list_changed",
    "notifications/resources/updated",
    "notifications/prompts/list_changed",
    "notifications/progress",
    "notifications/cancelled",
    "notifications/subscriptions/acknowledged",
];

/// A child process as a transport.
pub(crate) struct Stdio {
    lines: Lines<ChildStdout>,
    waiting: VecDeque<RxJsonRpcMessage<RoleClient>>,
    write: Arc<Mutex<Option<ChildStdin>>>,
    server: ServerName,
    process: Process,
    state: Arc<ConnectionState>,
    scrubber: Arc<Scrubber>,
}

impl Stdio {
    pub(crate) fn new(
        server: ServerName,
        mut process: Process,
        state: Arc<ConnectionState>,
        scrubber: Arc<Scrubber>,
    ) -> io::Result<Self> {
        let (stdin, stdout) = process.pipes().ok_or_else(|| io::Error::other("the child has no pipes"))?;
        Ok(Self {
            lines: Lines::new(stdout, MAX_MESSAGE),
            waiting: VecDeque::new(),
            write: Arc::new(Mutex::new(Some(stdin))),
            server,
            process,
            state,
            scrubber,
        })
    }

    /// Parses the messages of one line. Returns `false` to end the connection.
    fn take_line(&mut self) -> bool {
        let line = self.lines.current().trim_ascii();
        let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
        let understood = if line.is_empty() || is_unwanted(line, &self.state) {
            true
        } else if line.starts_with(b"[") {
            serde_json::from_slice::<Vec<Value>>(line).is_ok_and(|batch| {
                batch
                    .into_iter()
                    .all(|value| message(value, &self.state).map(|message| self.waiting.push_back(message)).is_some())
            })
        } else {
            let message = serde_json::from_slice::<Value>(line).ok().and_then(|value| message(value, &self.state));
            message.map(|message| self.waiting.push_back(message)).is_some()
        };
        if !understood {
            let seen = self.state.garbage.fetch_add(1, Ordering::Relaxed) + 1;
            let shown = shortened(&self.scrubber.without_secrets(&String::from_utf8_lossy(line)), SHOWN_GARBAGE);
            // One line is enough for a person, and a server must not fill the log.
            if seen == 1 {
                let server = &self.server;
                tracing::warn!(%server, line = shown, "a server printed a line that is not a message; further lines are not reported");
            } else {
                tracing::debug!(server = %self.server, line = shown, "another line that is not a message");
            }
            if seen > MAX_GARBAGE_LINES {
                let reason = format!("it printed more than {MAX_GARBAGE_LINES} lines that are not messages: {shown:?}");
                self.state.fail(Fault::Protocol(reason));
                return false;
            }
        }
        self.lines.clear();
        true
    }
}

/// Fails the connection of a child that has stopped reading, unless its end gives a better reason first.
async fn give_up_on(state: Arc<ConnectionState>) {
    if tokio::time::timeout(ENDS_WITHIN, state.ended.cancelled()).await.is_err() {
        state.fail(Fault::Ended("the process closed its input".to_owned()));
    }
}

/// Whether a line is a notification that is not used.
fn is_unwanted(line: &[u8], state: &ConnectionState) -> bool {
    #[derive(Deserialize)]
    struct Peek<'a> {
        #[serde(borrow)]
        method: Option<Cow<'a, str>>,
        id: Option<IgnoredAny>,
    }
    line.len() < PEEK_BELOW
        && line.starts_with(b"{")
        && serde_json::from_slice::<Peek<'_>>(line).is_ok_and(|peek| {
            peek.id.is_none()
                && peek.method.is_some_and(|method| {
                    let wants = || method == LOG_MESSAGE && state.wants_logs();
                    !WANTED_NOTIFICATIONS.contains(&method.as_ref()) && !wants()
                })
        })
}

/// Parses a message. An invalid answer becomes an error with its ID, so that the caller is notified. Results and
/// questions stay unparsed, because the library's types would drop unknown members.
pub(crate) fn message(mut value: Value, state: &ConnectionState) -> Option<RxJsonRpcMessage<RoleClient>> {
    let id = value.get("id").cloned().and_then(|id| serde_json::from_value::<RequestId>(id).ok());
    let is_proper = value.get("jsonrpc").and_then(Value::as_str) == Some("2.0") && value.get("error").is_none();
    let kind = value.get("method").map(|method| method.as_str().and_then(QuestionKind::of));
    match (kind, &id) {
        (None, Some(id)) if is_proper && state.is_in_flight(id) => {
            if let Some(result) = value.get_mut("result") {
                let result = ServerResult::CustomResult(CustomResult(result.take()));
                return Some(JsonRpcMessage::response(result, id.clone()));
            }
        }
        (Some(Some(kind)), Some(id)) if is_proper => {
            let question = CustomRequest::new(kind.method(), value.get_mut("params").map(Value::take));
            return Some(JsonRpcMessage::request(ServerRequest::CustomRequest(question), id.clone()));
        }
        _ => {}
    }
    match serde_json::from_value(value) {
        Ok(message) => Some(message),
        Err(_) if kind.is_none() && id.is_some() => {
            Some(JsonRpcMessage::error(ErrorData::new(ErrorCode::INVALID_REQUEST, NOT_AN_ANSWER, None), id))
        }
        Err(_) => None,
    }
}

const NOT_AN_ANSWER: &str = "the answer does not conform to the protocol";

impl Transport<RoleClient> for Stdio {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let (write, state) = (Arc::clone(&self.write), Arc::clone(&self.state));
        async move {
            let mut line = serde_json::to_vec(&item).map_err(io::Error::other)?;
            line.push(b'\n');
            let mut write = write.lock().await;
            let stdin = write.as_mut().ok_or(io::ErrorKind::NotConnected)?;
            match stdin.write_all(&line).await {
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                    // The end of its output, which is read afterwards, has a better reason than a broken pipe.
                    tokio::spawn(give_up_on(state));
                    Ok(())
                }
                Err(error) => Err(error),
                Ok(()) => stdin.flush().await,
            }
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            if let Some(message) = self.waiting.pop_front() {
                return Some(message);
            }
            match self.lines.next().await {
                Ok(Line::Whole) => {
                    if !self.take_line() {
                        return None;
                    }
                }
                Ok(Line::TooLong) => {
                    let limit = MAX_MESSAGE / 1024 / 1024;
                    self.state.fail(Fault::TooLarge(format!("a message of more than {limit} MiB")));
                    return None;
                }
                Ok(Line::End) => {
                    let reason = self.process.exit_report().await;
                    self.state.fail(Fault::Ended(self.scrubber.clean(&reason)));
                    return None;
                }
                Err(error) => {
                    self.state.fail(Fault::Ended(self.scrubber.clean(&error.to_string())));
                    return None;
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        // A writer may hold the lock while the child does not read. Then the end of the child ends the writing.
        if let Ok(mut write) = self.write.try_lock() {
            drop(write.take());
        }
        if matches!(self.state.fault(), Some(Fault::TooLarge(_) | Fault::Protocol(_))) {
            self.process.kill();
        }
        self.process.end().await;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{ConnectionState, Fault, Process, Scrubber, Stdio, Warden, is_unwanted, message};
    use coracle_types::{Scope, Secret, ServerName, ServerSpec, Transport as Where};
    use rmcp::model::{JsonRpcMessage, RequestId};
    use rmcp::transport::Transport as _;
    use serde_json::json;
    use std::collections::BTreeMap;
    use std::sync::Arc;
    use std::time::Duration;

    #[test]
    fn only_useful_notifications_are_parsed() {
        let state = ConnectionState::default();
        assert!(is_unwanted(br#"{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#, &state));
        assert!(!is_unwanted(br#"{"jsonrpc":"2.0","method":"notifications/progress","params":{}}"#, &state));
        assert!(!is_unwanted(br#"{"jsonrpc":"2.0","method":"ping","id":1}"#, &state));
        assert!(!is_unwanted(br#"{"jsonrpc":"2.0","id":1,"result":{}}"#, &state));
        assert!(!is_unwanted(b"{", &state));
    }

    #[test]
    fn an_invalid_answer_becomes_an_error_with_its_id() {
        let answer = message(json!({"id": 7, "result": "no jsonrpc"}), &ConnectionState::default()).unwrap();
        assert!(matches!(answer, JsonRpcMessage::Error(error) if error.id == Some(RequestId::Number(7))));
        assert!(message(json!({"hello": 1}), &ConnectionState::default()).is_none());
    }

    #[tokio::test]
    async fn a_child_that_ended_before_the_first_request_says_why() {
        let (command, args) = ("/bin/sh".to_owned(), ["-c", "echo no key >&2; exit 3"].map(Secret::new).to_vec());
        let warden = Arc::new(Warden::new(None));
        let process = Process::start(&command, &args, &BTreeMap::new(), None, &warden).unwrap();
        let stat = format!("/proc/{}/stat", process.pid().unwrap());
        while !std::fs::read_to_string(&stat).unwrap().contains(") Z ") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let name = ServerName::new("gone").unwrap();
        let spec = ServerSpec {
            name: name.clone(),
            transport: Where::Stdio { command, args, env: BTreeMap::new(), cwd: None },
            scope: Scope::User,
            description: None,
            category: None,
            client: None,
            start_timeout: Duration::from_mins(1),
            call_timeout: Duration::from_mins(1),
        };
        let state = Arc::new(ConnectionState::default());
        let mut stdio = Stdio::new(name, process, Arc::clone(&state), Arc::new(Scrubber::new(&spec))).unwrap();
        let ping = serde_json::from_value(json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})).unwrap();
        stdio.send(ping).await.unwrap();
        assert!(stdio.receive().await.is_none());
        assert!(matches!(state.fault(), Some(Fault::Ended(why)) if why.contains("no key")));
    }
}
