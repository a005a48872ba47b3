//! The calls of one answer.

use crate::events::{Emitter, RunEvent};
use crate::tools::{AgentTools, CallUpdate, Ran, ToolOutput};
use coracle_models::Call;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, StreamExt};
use serde_json::{Map, Value};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Calls of one answer that run at once.
const PARALLEL: usize = 8;
/// Updates of a call that may wait to be passed on.
const MAX_WAITING_UPDATES: usize = 64;
/// Maximum length of a name that is repeated in an error.
const MAX_NAME_CHARS: usize = 80;

/// The result of calls that did not run because the run was stopped.
pub(crate) const STOPPED: &str = "the run was stopped before this call had a result";

/// What a run does about calls that wait for a person.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Questions {
    /// It waits.
    #[default]
    Wait,
    /// It ends as soon as all its calls wait, and another run takes them over.
    Park,
}

/// The calls of one answer that are under way.
#[derive(Debug)]
struct Board {
    questions: Questions,
    counts: Mutex<Counts>,
    /// Cancelled when the run does not wait any longer.
    park: CancellationToken,
}

#[derive(Debug, Default)]
struct Counts {
    /// Calls that have begun and not ended.
    under_way: usize,
    /// Those of them that wait for a person.
    waiting: usize,
}

impl Board {
    /// Counts, and gives up waiting if every call under way waits for a person.
    fn count(&self, change: impl FnOnce(&mut Counts)) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut counts);
        if self.questions == Questions::Park && counts.waiting > 0 && counts.waiting == counts.under_way {
            self.park.cancel();
        }
    }
}

/// Counts the open questions of one call.
struct Asking<'a> {
    board: &'a Board,
    open: usize,
}

impl<'a> Asking<'a> {
    fn begin(board: &'a Board) -> Self {
        board.count(|counts| counts.under_way += 1);
        Self { board, open: 0 }
    }

    fn heard(&mut self, update: &CallUpdate) {
        match update {
            CallUpdate::Asked { .. } => self.change(self.open + 1),
            CallUpdate::Answered { .. } => self.change(self.open.saturating_sub(1)),
            _ => {}
        }
    }

    fn change(&mut self, open: usize) {
        let (before, after) = (usize::from(self.open > 0), usize::from(open > 0));
        self.open = open;
        self.board.count(|counts| counts.waiting = counts.waiting + after - before);
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        let waited = usize::from(self.open > 0);
        self.board.count(|counts| {
            counts.waiting -= waited;
            counts.under_way -= 1;
        });
    }
}

/// Runs calls in parallel, and returns their results in the same order. Every call gets one, or is parked.
pub(crate) fn run<'a>(
    calls: &'a [Call],
    tools: &'a dyn AgentTools,
    emitter: &'a Emitter,
    cancel: &'a CancellationToken,
    questions: Questions,
) -> BoxStream<'a, Ran> {
    let board = Arc::new(Board { questions, counts: Mutex::default(), park: CancellationToken::new() });
    let mut running: Vec<BoxFuture<'a, Ran>> = Vec::with_capacity(calls.len());
    for call in calls {
        let board = Arc::clone(&board);
        running.push(Box::pin(async move {
            let ran = if cancel.is_cancelled() {
                Ran::Ended(ToolOutput::error(STOPPED))
            } else if board.park.is_cancelled() {
                Ran::Parked
            } else {
                one(call, tools, emitter, cancel, &board).await
            };
            if let Ran::Ended(output) = &ran {
                emitter.send(RunEvent::CallEnded { id: call.id.clone(), output: output.clone() }).await;
            }
            ran
        }));
    }
    stream::iter(running).buffered(PARALLEL).boxed()
}

async fn one(call: &Call, tools: &dyn AgentTools, emitter: &Emitter, cancel: &CancellationToken, board: &Board) -> Ran {
    let mut asking = Asking::begin(board);
    let arguments = match arguments(&call.arguments) {
        Ok(arguments) => arguments,
        Err(reason) => return Ran::Ended(ToolOutput::error(reason)),
    };
    let definitions = tools.definitions();
    if !definitions.iter().any(|tool| tool.name == call.name) {
        let names: Vec<&str> = definitions.iter().map(|tool| tool.name.as_str()).collect();
        let wanted: String = call.name.chars().take(MAX_NAME_CHARS).collect();
        let reason = format!("there is no tool `{wanted}`; there are: {}", names.join(", "));
        return Ran::Ended(ToolOutput::error(reason));
    }
    emitter.send(RunEvent::CallStarted { id: call.id.clone() }).await;
    let (sender, mut updates) = mpsc::channel::<CallUpdate>(MAX_WAITING_UPDATES);
    let passing = async {
        while let Some(update) = updates.recv().await {
            let event = RunEvent::CallUpdate { id: call.id.clone(), update: update.clone() };
            emitter.send(event).await;
            // After the event, so that everybody knows of the question that the run does not wait for.
            asking.heard(&update);
        }
    };
    let running = async {
        let ran = tools.run_or_park(call, arguments, &sender, cancel, &board.park).await;
        drop(sender);
        ran
    };
    let (ran, ()) = tokio::join!(running, passing);
    ran
}

/// The argument that holds the text of arguments that are not JSON.
pub(crate) const MALFORMED: &str = "malformed_arguments";

/// The arguments as an object. The error is for the model.
fn arguments(text: &str) -> Result<Map<String, Value>, &'static str> {
    match serde_json::from_str(text) {
        Ok(Value::Object(arguments)) if arguments.contains_key(MALFORMED) => {
            Err("the arguments were not valid JSON: send the call again")
        }
        Ok(Value::Object(arguments)) => Ok(arguments),
        _ => Err("the arguments must be a JSON object"),
    }
}
