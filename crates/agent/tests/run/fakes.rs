//! A model that plays a list of answers, and tools that record their calls.

use async_trait::async_trait;
use coracle_agent::{AgentTools, CallUpdate, Entry, JournalError, RunJournal, ToolOutput};
use coracle_models::{
    Call, Item, ModelAnswer, ModelError, ModelEvent, ModelProvider, ModelRequest, StopReason, ToolDefinition, Usage,
};
use serde_json::{Map, Value, json};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use tokio::sync::{Barrier, Notify, mpsc};
use tokio_util::sync::CancellationToken;

/// One answer of the model.
#[derive(Clone, Debug)]
pub(crate) enum Play {
    Text(&'static str),
    Calls(Vec<(&'static str, &'static str, Value)>),
    /// A call whose arguments are not JSON.
    Malformed,
    Cut(&'static str),
    Fail(ModelError),
    /// Never answers.
    Hang,
}

/// A model that plays answers in order; the last one is repeated.
#[derive(Debug, Default)]
pub(crate) struct Model {
    plays: Mutex<VecDeque<Play>>,
    pub(crate) requests: Mutex<Vec<ModelRequest>>,
    pub(crate) asked: Notify,
    /// Tokens of every answer.
    pub(crate) usage: Mutex<Usage>,
}

impl Model {
    pub(crate) fn new(plays: impl IntoIterator<Item = Play>) -> Self {
        Self { plays: Mutex::new(plays.into_iter().collect()), usage: Mutex::new(USAGE), ..Self::default() }
    }
}

/// Tokens of an answer, unless a test sets others.
pub(crate) const USAGE: Usage =
    Usage { input_tokens: 100, cached_tokens: 40, cache_write_tokens: 0, output_tokens: 10, reasoning_tokens: 0 };

#[async_trait]
impl ModelProvider for Model {
    fn identity(&self) -> &'static str {
        "fake"
    }

    async fn ask(&self, request: &ModelRequest, events: &mpsc::Sender<ModelEvent>) -> Result<ModelAnswer, ModelError> {
        self.requests.lock().unwrap().push(request.clone());
        let play = {
            let mut plays = self.plays.lock().unwrap();
            if plays.len() > 1 { plays.pop_front() } else { plays.front().cloned() }
        };
        self.asked.notify_one();
        let mut items = Vec::new();
        let stop = match play.expect("an answer") {
            Play::Fail(error) => return Err(error),
            Play::Hang => std::future::pending().await,
            Play::Text(text) => {
                events.send(ModelEvent::Text(text.to_owned())).await.ok();
                items.push(Item::Assistant { text: text.to_owned(), native: None });
                StopReason::End
            }
            Play::Cut(text) => {
                items.push(Item::Assistant { text: text.to_owned(), native: None });
                StopReason::Length
            }
            Play::Malformed => {
                items.push(call("bad", "run", "{\"code\": \"pri"));
                StopReason::Calls
            }
            Play::Calls(calls) => {
                items.extend(calls.iter().map(|(id, name, arguments)| call(id, name, &arguments.to_string())));
                StopReason::Calls
            }
        };
        Ok(ModelAnswer { items, stop, usage: *self.usage.lock().unwrap() })
    }

    async fn models(&self) -> Result<Vec<String>, ModelError> {
        Ok(Vec::new())
    }
}

fn call(id: &str, name: &str, arguments: &str) -> Item {
    Item::Call(Call { id: id.to_owned(), name: name.to_owned(), arguments: arguments.to_owned(), native: None })
}

/// Tools: `run` answers with its argument, `meet` waits until two calls have started, `hang` until it is cancelled, and
/// `late` takes longer than the others.
#[derive(Debug)]
pub(crate) struct Tools {
    pub(crate) called: Mutex<Vec<(String, Map<String, Value>)>>,
    pub(crate) started: Notify,
    /// A call of `late` has ended.
    late: Notify,
    meeting: Barrier,
}

impl Default for Tools {
    fn default() -> Self {
        Self { called: Mutex::default(), started: Notify::new(), late: Notify::new(), meeting: Barrier::new(2) }
    }
}

#[async_trait]
impl AgentTools for Tools {
    fn definitions(&self) -> Vec<ToolDefinition> {
        let tool = |name: &str| ToolDefinition {
            name: name.to_owned(),
            description: String::new(),
            parameters: Map::new(),
            strict: None,
        };
        ["run", "meet", "hang", "late"].map(tool).into()
    }

    fn code_tool(&self) -> Option<(&str, &str)> {
        Some(("run", "code"))
    }

    async fn run(
        &self,
        call: &Call,
        arguments: Map<String, Value>,
        updates: &mpsc::Sender<CallUpdate>,
        cancel: &CancellationToken,
    ) -> ToolOutput {
        self.called.lock().unwrap().push((call.name.clone(), arguments.clone()));
        self.started.notify_one();
        match call.name.as_str() {
            "meet" => {
                self.meeting.wait().await;
            }
            "hang" => cancel.cancelled().await,
            "late" => {
                for _ in 0..10 {
                    tokio::task::yield_now().await;
                }
                self.late.notify_one();
            }
            _ => {}
        }
        let bytes = b"working\n".to_vec();
        updates.send(CallUpdate::Output { stream: coracle_types::OutputStream::Stdout, bytes }).await.ok();
        ToolOutput::text(format!("{}: {}", call.name, json!(arguments)))
    }
}

/// A journal that cannot record the first result before the last call has ended, like a store that the call is using.
#[derive(Debug)]
pub(crate) struct Shared(pub(crate) Arc<Tools>);

#[async_trait]
impl RunJournal for Shared {
    async fn record(&self, entry: Entry<'_>) -> Result<(), JournalError> {
        if matches!(entry, Entry::Result { result, .. } if result.call_id == "first") {
            self.0.late.notified().await;
        }
        Ok(())
    }
}
