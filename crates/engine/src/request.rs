//! What callers ask of the engine: run this code, or call this one tool.

use crate::host_calls::{HostCallError, HostCalls, NoCalls};
use coracle_policy::{Approver, NobodyToAsk};
use coracle_types::{Event, Language, Limits, ServerName, SessionId, UserId};
use coracle_upstream::CallContext;
use serde_json::{Map, Value};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// No code is longer.
pub const MAX_CODE_BYTES: usize = 1 << 20;

/// No variables that come with the code are longer, as JSON.
pub(crate) const MAX_VARS_BYTES: usize = 4 << 20;

/// Run this code.
#[derive(Clone, Debug)]
pub struct Request {
    /// For whom.
    pub user: UserId,
    /// What it is written in.
    pub language: Language,
    /// The source.
    pub code: String,
    /// Variables to set before it runs.
    pub vars: Map<String, Value>,
    /// The session it runs in, if any: an id, or a name by which the user's own is found or made. `new` makes one
    /// without a name.
    pub session: Option<SessionId>,
    /// What it is for, in a few words: for the log.
    pub description: Option<String>,
    /// A folder to use as the workspace instead of the user's own.
    pub workspace: Option<PathBuf>,
    /// What it may use.
    pub limits: Limits,
    /// Where output goes while it runs.
    pub events: Option<mpsc::Sender<Event>>,
    /// Ends it at any moment.
    pub cancel: CancellationToken,
    /// What answers the code's calls to the host that are no calls of tools.
    pub calls: Arc<dyn HostCalls>,
    /// Who is asked whether a tool may be called.
    pub approver: Arc<dyn Approver>,
    /// A skill is tried out: this folder is what it sees of the user's skills, and nothing of it is kept.
    pub(crate) trial: Option<PathBuf>,
}

impl Request {
    /// With defaults for everything else.
    pub fn new(user: UserId, language: Language, code: impl Into<String>) -> Self {
        Self {
            user,
            language,
            code: code.into(),
            vars: Map::new(),
            session: None,
            description: None,
            workspace: None,
            limits: Limits::default(),
            events: None,
            cancel: CancellationToken::new(),
            calls: Arc::new(NoCalls),
            approver: Arc::new(NobodyToAsk),
            trial: None,
        }
    }
}

/// Call this tool as it is, without code.
#[derive(Debug)]
pub struct DirectCall {
    /// For whom.
    pub user: UserId,
    /// What it is allowed for, if it is allowed for a session.
    pub session: Option<SessionId>,
    /// Whose tool.
    pub server: ServerName,
    /// Its name on the wire.
    pub tool: String,
    /// What it is called with.
    pub arguments: Map<String, Value>,
    /// Who is asked whether it may be called.
    pub approver: Arc<dyn Approver>,
    /// Its end, its progress, and what its server asks meanwhile.
    pub context: CallContext,
}

/// Why a call that was to be passed on has no answer.
#[derive(Clone, Debug, PartialEq)]
pub enum DirectError {
    /// The server refused it by an error of the protocol: its number, its words, and what it gave along. Hostile.
    Refused {
        /// The error's number in JSON-RPC.
        number: i64,
        /// What it said.
        message: String,
        /// More of it, as it came.
        data: Option<Box<Value>>,
    },
    /// It did not get there, or nothing came back.
    Failed(HostCallError),
}

impl DirectError {
    /// For programs.
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
