//! Requests to the engine: to run code, or to call one tool.

use crate::audience::Audience;
use crate::call_file::Resumption;
use crate::call_log::CallLog;
use crate::host_calls::{HostCallError, HostCalls, NoCalls};
use crate::plans::Planner;
use coracle_guardrails::Access;
use coracle_policy::{Approver, Interface, NobodyToAsk};
use coracle_store::Place;
use coracle_types::{Event, Language, Limits, Mode, ServerName, SessionId, UserId};
use coracle_upstream::CallContext;
use serde_json::{Map, Value};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Maximum length of code, in bytes.
pub const MAX_CODE_BYTES: usize = 1 << 20;

/// Maximum size of the variables of a request, as JSON.
pub(crate) const MAX_VARS_BYTES: u64 = 4 << 20;

/// A request to run code.
#[derive(Clone, Debug)]
pub struct Request {
    /// User whose code it is.
    pub user: UserId,
    /// Programming language of the code.
    pub language: Language,
    /// Source code.
    pub code: String,
    /// Variables to set before it runs.
    pub vars: Map<String, Value>,
    /// Session that it runs in, if any: an id, or a name, which creates a session if the user has none of that name. `new`
    /// creates one without a name.
    pub session: Option<SessionId>,
    /// Conversation or client that gets the answer: later requests may use its data.
    pub conversation: Option<Place>,
    /// Short description of the task, for the log.
    pub description: Option<String>,
    /// Folder to use as the workspace instead of the user's own.
    pub workspace: Option<PathBuf>,
    /// Resource limits.
    pub limits: Limits,
    /// Receives output, calls, questions and artifacts while the code runs.
    pub events: Option<mpsc::Sender<Event>>,
    /// Cancels the execution.
    pub cancel: CancellationToken,
    /// Answers the calls of the code to the host, except calls of tools.
    pub calls: Arc<dyn HostCalls>,
    /// Asks a person whether a tool may be called.
    pub approver: Arc<dyn Approver>,
    /// Log of the calls of the code.
    pub call_log: CallLogging,
    /// Who gets the answer and the events.
    pub audience: Audience,
    /// Where the code comes from, for policies.
    pub interface: Interface,
    /// What the task may do with tools. The broker refuses other calls.
    pub access: Access,
    /// Rules for the network that requests must satisfy in addition to those of the engine; all of these if it is `None`.
    pub network: Option<Vec<String>>,
    /// Whether calls that change something are made, or collected as a plan.
    pub mode: Mode,
    /// Whether the execution is listed. Those that the server runs for itself are not.
    pub is_listed: bool,
    /// Set if the workspace is a copy: the place that it is copied from, and changes may get to.
    pub(crate) copied_from: Option<Place>,
    /// Set if a skill is tried out: the folder that the code sees instead of the user's skills. No artifacts are kept.
    pub(crate) trial: Option<PathBuf>,
    /// Collects the calls in the mode `plan`.
    pub(crate) planner: Option<Arc<Planner>>,
}

impl Request {
    /// A request with defaults for everything else.
    pub fn new(user: UserId, language: Language, code: impl Into<String>) -> Self {
        Self {
            user,
            language,
            code: code.into(),
            vars: Map::new(),
            session: None,
            conversation: None,
            description: None,
            workspace: None,
            limits: Limits::default(),
            events: None,
            cancel: CancellationToken::new(),
            calls: Arc::new(NoCalls),
            approver: Arc::new(NobodyToAsk),
            call_log: CallLogging::Off,
            audience: Audience::default(),
            interface: Interface::default(),
            access: Access::Any,
            network: None,
            mode: Mode::Run,
            is_listed: true,
            copied_from: None,
            trial: None,
            planner: None,
        }
    }
}

/// Where the calls of code are logged. Calls that an earlier attempt has logged are not made again.
#[derive(Clone, Debug, Default)]
pub enum CallLogging {
    /// Nowhere.
    #[default]
    Off,
    /// In this log.
    In(Arc<dyn CallLog>),
    /// In a file of the engine, so that [`Engine::resume`](crate::Engine::resume) finds them.
    Resumable,
    /// In the file of the execution that is resumed.
    Resuming(Arc<Resumption>),
}

/// A call of one tool by a client, without code.
#[derive(Debug)]
pub struct DirectCall {
    /// User who calls it.
    pub user: UserId,
    /// Session that an approval for a session counts for.
    pub session: Option<SessionId>,
    /// Conversation or client that gets the answer: later requests may use its data.
    pub conversation: Option<Place>,
    /// Server of the tool.
    pub server: ServerName,
    /// Name of the tool on the wire.
    pub tool: String,
    /// Arguments of the call.
    pub arguments: Map<String, Value>,
    /// Asks a person whether the tool may be called.
    pub approver: Arc<dyn Approver>,
    /// Where the call comes from, for policies.
    pub interface: Interface,
    /// Cancellation, progress, and questions of the server during the call.
    pub context: CallContext,
}

/// A request of a client to a server that is no call of a tool.
#[derive(Clone, Debug)]
pub struct DirectRequest {
    /// User who makes it.
    pub user: UserId,
    /// Conversation or client that gets the answer: later requests may use its data.
    pub conversation: Option<Place>,
    /// Server that gets it.
    pub server: ServerName,
    /// Method of the protocol, such as `resources/read`.
    pub method: &'static str,
    /// What it names. Tokens in it are restored.
    pub arguments: Map<String, Value>,
    /// Where the request comes from, for policies.
    pub interface: Interface,
    /// Cancellation.
    pub cancel: CancellationToken,
}

/// Why a direct call has no answer.
#[derive(Clone, Debug, PartialEq)]
pub enum DirectError {
    /// The server answered with a protocol error. All of it is hostile.
    Refused {
        /// JSON-RPC error code.
        number: i64,
        /// Error message.
        message: String,
        /// Additional data of the error, unchanged.
        data: Option<Box<Value>>,
    },
    /// The call did not reach the server, or there was no answer.
    Failed(HostCallError),
}

impl DirectError {
    /// Stable error code.
    pub fn code(&self) -> &str {
        match self {
            Self::Refused { .. } => "refused",
            Self::Failed(error) => &error.code,
        }
    }
}

impl From<HostCallError> for DirectError {
    fn from(error: HostCallError) -> Self {
        Self::Failed(error)
    }
}
