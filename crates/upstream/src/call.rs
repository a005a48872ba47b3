use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// What goes along with one call.
#[derive(Clone, Debug, Default)]
pub struct CallContext {
    /// Ends the call; the server is told.
    pub cancel: CancellationToken,
    /// Longest wait for the answer, in place of what the server's settings say.
    pub timeout: Option<Duration>,
    /// Where the server's reports of progress go. What does not fit is left out; progress extends no time-out.
    pub progress: Option<mpsc::Sender<Progress>>,
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
