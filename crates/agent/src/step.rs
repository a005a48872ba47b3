//! One question to the model.

use crate::events::{Emitter, RunEvent};
use crate::tools::AgentTools;
use coracle_models::{ModelAnswer, ModelError, ModelEvent, ModelProvider, ModelRequest};
use std::collections::BTreeMap;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Events of a model that may wait to be passed on.
const MAX_WAITING_EVENTS: usize = 256;

/// Number of times that an answer that broke off is asked for again.
const MAX_REPETITIONS: u32 = 2;

/// Why a step has no answer.
#[derive(Debug)]
pub(crate) enum NoAnswer {
    Failed(ModelError),
    Cancelled,
}

/// Asks the model, and again if its answer breaks off.
pub(crate) async fn ask(
    provider: &dyn ModelProvider,
    request: &ModelRequest,
    tools: &dyn AgentTools,
    emitter: &Emitter,
    cancel: &CancellationToken,
) -> Result<ModelAnswer, NoAnswer> {
    let mut repetitions = 0;
    loop {
        let answer = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(NoAnswer::Cancelled),
            answer = once(provider, request, tools, emitter) => answer,
        };
        match answer {
            Err(ModelError::Interrupted { reason, .. }) if repetitions < MAX_REPETITIONS => {
                repetitions += 1;
                emitter.send(RunEvent::Repeated { reason }).await;
            }
            answer => return answer.map_err(NoAnswer::Failed),
        }
    }
}

async fn once(
    provider: &dyn ModelProvider,
    request: &ModelRequest,
    tools: &dyn AgentTools,
    emitter: &Emitter,
) -> Result<ModelAnswer, ModelError> {
    let (sender, mut receiver) = mpsc::channel(MAX_WAITING_EVENTS);
    let passing = async {
        let mut calls: BTreeMap<usize, (String, String)> = BTreeMap::new();
        while let Some(event) = receiver.recv().await {
            match &event {
                ModelEvent::CallBegan { index, name, .. } => drop(calls.insert(*index, (name.clone(), String::new()))),
                ModelEvent::CallArguments { index, delta } => {
                    if let Some((name, arguments)) = calls.get_mut(index) {
                        arguments.push_str(delta);
                        tools.anticipate(name, arguments, delta.len());
                    }
                }
                ModelEvent::Text(_) | ModelEvent::Reasoning(_) => {}
            }
            emitter.send(RunEvent::Model(event)).await;
        }
    };
    let asking = async {
        let answer = provider.ask(request, &sender).await;
        drop(sender);
        answer
    };
    let (answer, ()) = tokio::join!(asking, passing);
    answer
}
