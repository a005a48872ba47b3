//! The calls of one answer.

use crate::events::{Emitter, RunEvent};
use crate::tools::{AgentTools, CallUpdate, ToolOutput};
use coracle_models::Call;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, StreamExt};
use serde_json::{Map, Value};
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

/// Runs calls in parallel, and returns their results in the same order. Every call gets one.
pub(crate) fn run<'a>(
    calls: &'a [Call],
    tools: &'a dyn AgentTools,
    emitter: &'a Emitter,
    cancel: &'a CancellationToken,
) -> BoxStream<'a, ToolOutput> {
    let mut running: Vec<BoxFuture<'a, ToolOutput>> = Vec::with_capacity(calls.len());
    for call in calls {
        running.push(Box::pin(async move {
            let output = if cancel.is_cancelled() {
                ToolOutput::error(STOPPED)
            } else {
                one(call, tools, emitter, cancel).await
            };
            emitter.send(RunEvent::CallEnded { id: call.id.clone(), output: output.clone() }).await;
            output
        }));
    }
    stream::iter(running).buffered(PARALLEL).boxed()
}

async fn one(call: &Call, tools: &dyn AgentTools, emitter: &Emitter, cancel: &CancellationToken) -> ToolOutput {
    let arguments = match arguments(&call.arguments) {
        Ok(arguments) => arguments,
        Err(reason) => return ToolOutput::error(reason),
    };
    let definitions = tools.definitions();
    if !definitions.iter().any(|tool| tool.name == call.name) {
        let names: Vec<&str> = definitions.iter().map(|tool| tool.name.as_str()).collect();
        let wanted: String = call.name.chars().take(MAX_NAME_CHARS).collect();
        return ToolOutput::error(format!("there is no tool `{wanted}`; there are: {}", names.join(", ")));
    }
    emitter.send(RunEvent::CallStarted { id: call.id.clone() }).await;
    let (sender, mut updates) = mpsc::channel::<CallUpdate>(MAX_WAITING_UPDATES);
    let passing = async {
        while let Some(update) = updates.recv().await {
            emitter.send(RunEvent::CallUpdate { id: call.id.clone(), update }).await;
        }
    };
    let running = async {
        let output = tools.run(call, arguments, &sender, cancel).await;
        drop(sender);
        output
    };
    let (output, ()) = tokio::join!(running, passing);
    output
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
