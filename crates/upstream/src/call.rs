use crate::reverse::Reverse;
use serde_json::{Map, Value};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// What goes along with one call, or with another request.
#[derive(Clone, Default)]
pub struct CallContext {
    /// Ends the call; the server is told.
    pub cancel: CancellationToken,
    /// Longest wait for the answer, in place of what the server's settings say. The time that somebody needs to answer
    /// a question of the server does not count.
    pub timeout: Option<Duration>,
    /// Where the server's reports of progress go. What does not fit is left out; progress extends no time-out.
    pub progress: Option<mpsc::Sender<Progress>>,
    /// Where the server's log messages go: the parameters of `notifications/message` as they came. Where a server does
    /// not say to which call a message belongs, it goes to the only call that wants to know, and to none of several.
    pub log: Option<mpsc::Sender<Value>>,
    /// Who answers what the server asks during the call. Without one it is refused, or, in the revision where a
    /// question is a result, that result is what comes back.
    pub reverse: Option<Arc<dyn Reverse>>,
    /// What of it can be answered: client capabilities in the protocol's shape, of which `elicitation`, `sampling` and
    /// `roots` count. A server of before 2026 only learns of those in [`Options`](crate::Options).
    pub capabilities: Map<String, Value>,
    /// More members for the `_meta` of the request. Those that belong to the connection are left out.
    pub meta: Map<String, Value>,
    /// Goes on with a request that was answered by questions.
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
    /// By the keys of the questions.
    pub responses: Map<String, Value>,
    /// What the server gave to be given back.
    pub state: Option<String>,
}

/// How far a call has come, as its server says.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// Done so far.
    pub progress: f64,
    /// Of so much, if it is known.
    pub total: Option<f64>,
    /// In words, shortened. Hostile text.
    pub message: Option<String>,
}
