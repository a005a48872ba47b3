use crate::reverse::Reverse;
use serde_json::{Map, Value};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// The context of a call or of another request.
#[derive(Clone, Default)]
pub struct CallContext {
    /// Cancels the call; the server is notified.
    pub cancel: CancellationToken,
    /// Maximum time to wait for the answer, instead of the one in the server's settings. Time that a person takes to
    /// answer a question of the server does not count.
    pub timeout: Option<Duration>,
    /// Receives the server's progress reports. Reports that do not fit are dropped. Progress does not extend a
    /// time-out.
    pub progress: Option<mpsc::Sender<Progress>>,
    /// Receives the server's log messages: the parameters of `notifications/message`, unchanged. If a server does not
    /// say which call a message belongs to, it goes to the only call that wants messages, and to none of several.
    pub log: Option<mpsc::Sender<Value>>,
    /// Answers the server's questions during the call. Without it, questions are refused or, in the revision where a
    /// question is a result, that result is returned.
    pub reverse: Option<Arc<dyn Reverse>>,
    /// The questions that can be answered: client capabilities in the protocol's shape, of which `elicitation`,
    /// `sampling` and `roots` count. Servers from before 2026 only learn about those in [`Options`](crate::Options).
    pub capabilities: Map<String, Value>,
    /// Additional members of the request's `_meta`. Those that belong to the connection are ignored.
    pub meta: Map<String, Value>,
    /// Continues a request that was answered with questions.
    pub resume: Option<Resume>,
}

impl fmt::Debug for CallContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallContext").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

/// The answers to the questions of an `input_required` result.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Resume {
    /// The answers, by the keys of the questions.
    pub responses: Map<String, Value>,
    /// The state that the server sent, to be returned to it.
    pub state: Option<String>,
}

/// The progress of a call, as reported by its server.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// The progress so far.
    pub progress: f64,
    /// The total, if known.
    pub total: Option<f64>,
    /// A description, shortened. Untrusted text.
    pub message: Option<String>,
}
