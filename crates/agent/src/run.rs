//! The loop: ask the model, run its calls, go on.

use crate::calls::{self, Questions, STOPPED};
use crate::compaction::compact;
use crate::events::{Emitter, RunEvent};
use crate::fences::fenced_code;
use crate::journal::{Earlier, Entry, JournalError, NoJournal, RunJournal};
use crate::steering::Steering;
use crate::step::{self, NoAnswer};
use crate::tools::{AgentTools, Ran, ToolOutput};
use coracle_models::{
    Call, CallResult, Item, ModelAnswer, ModelError, ModelProvider, ModelRequest, Part, StopReason, Usage,
};
use futures::stream::{self, StreamExt as _};
use serde::de::IgnoredAny;
use serde_json::json;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Number of equal answers in a row after which the model is told that it repeats itself, and after which it is stopped.
const LOOP_WARNING: usize = 3;
const LOOP_END: usize = 5;
/// Share of the context, in percent, at which a conversation is shortened.
const COMPACT_PERCENT: u64 = 80;
/// The result of calls in an answer that was cut off.
const TOO_LONG: &str =
    "not run: the answer reached its maximum length, so this call may be incomplete. Write less at once.";

/// An agent: tools and limits. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Agent {
    tools: Arc<dyn AgentTools>,
    limits: RunLimits,
}

/// The limits of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunLimits {
    /// Maximum number of questions to the model.
    pub steps: u32,
    /// Maximum number of calls that the agent runs.
    pub calls: u32,
    /// Maximum number of tokens, input and output together.
    pub tokens: u64,
    /// Size of the model's context in tokens, if it is known.
    pub context_tokens: Option<u64>,
}

impl Default for RunLimits {
    fn default() -> Self {
        Self { steps: 50, calls: 200, tokens: 2_000_000, context_tokens: None }
    }
}

/// Whether code in the text of an answer is run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CodeFences {
    /// If the model has not called a tool in this run.
    #[default]
    Auto,
    /// Always, if the answer has no calls.
    Always,
    /// Never.
    Never,
}

/// A task for the agent.
#[derive(Clone, Debug)]
pub struct RunRequest {
    /// The model's provider.
    pub provider: Arc<dyn ModelProvider>,
    /// Model, instructions, conversation and options. Its tools are those of the client: a call of one ends the run.
    pub request: ModelRequest,
    /// Whether code in the text of an answer is run.
    pub fences: CodeFences,
    /// Messages of the user that arrive during the run.
    pub steering: Steering,
    /// Stops the run.
    pub cancel: CancellationToken,
    /// Records the progress.
    pub journal: Arc<dyn RunJournal>,
    /// Where an earlier attempt of the same run ended. Its items are in the conversation of the request.
    pub earlier: Earlier,
    /// What to do about calls that wait for a person.
    pub questions: Questions,
}

impl RunRequest {
    /// A task with defaults for everything else.
    pub fn new(provider: Arc<dyn ModelProvider>, request: ModelRequest) -> Self {
        Self {
            provider,
            request,
            fences: CodeFences::default(),
            steering: Steering::default(),
            cancel: CancellationToken::new(),
            journal: Arc::new(NoJournal),
            earlier: Earlier::default(),
            questions: Questions::default(),
        }
    }
}

/// The end of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunOutcome {
    /// The items that the run added to the conversation.
    pub items: Vec<Item>,
    /// The conversation as the model last saw it, if it was shortened.
    pub compacted: Option<Vec<Item>>,
    /// Why the run ended.
    pub ended: Ended,
    /// The tokens of all steps.
    pub usage: Usage,
    /// The number of questions to the model.
    pub steps: u32,
}

impl RunOutcome {
    /// The text of the last answer.
    pub fn text(&self) -> &str {
        let texts = self.items.iter().rev().find_map(|item| match item {
            Item::Assistant { text, .. } => Some(text.as_str()),
            _ => None,
        });
        texts.unwrap_or_default()
    }
}

/// Why a run ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Ended {
    /// The model is done.
    Done,
    /// The model calls tools of the client, who continues with their results.
    ClientCalls(Vec<Call>),
    /// Calls wait for a person, and another run goes on with them.
    Parked {
        /// The calls of the agent's tools that wait.
        calls: Vec<Call>,
        /// Calls of tools of the client in the same answer, who continues with their results.
        of_client: Vec<Call>,
    },
    /// The model refused.
    Refused,
    /// The limit on the tokens of one answer was reached.
    Length,
    /// The limit on steps was reached.
    Steps(u32),
    /// The limit on calls was reached.
    Calls(u32),
    /// The limit on tokens was reached.
    Tokens(u64),
    /// The model repeated itself.
    Loop,
    /// The run was stopped.
    Cancelled,
    /// The model failed.
    Failed(ModelError),
    /// The progress could not be recorded.
    NotRecorded(JournalError),
}

impl Agent {
    /// An agent with these tools.
    pub fn new(tools: Arc<dyn AgentTools>, limits: RunLimits) -> Self {
        Self { tools, limits }
    }

    /// The limits of a run.
    pub fn limits(&self) -> RunLimits {
        self.limits
    }

    /// The same agent with other limits.
    #[must_use]
    pub fn with_limits(self, limits: RunLimits) -> Self {
        Self { limits, ..self }
    }

    /// Works on a task until the model is done, calls a tool of the client, or a limit is reached.
    pub async fn run(&self, request: RunRequest, events: mpsc::Sender<RunEvent>) -> RunOutcome {
        let mut run = Run::new(self, request, Emitter::new(events));
        let ended = run.work().await;
        run.close(ended)
    }
}

/// Makes arguments that are not JSON acceptable to servers, which would otherwise reject the conversation. Such a call
/// has an error as its result.
fn repair(call: &mut Call) {
    if serde_json::from_str::<IgnoredAny>(&call.arguments).is_err() {
        call.arguments = json!({ calls::MALFORMED: call.arguments }).to_string();
        call.native = None;
    }
}

/// A run under way.
struct Run<'a> {
    tools: &'a dyn AgentTools,
    limits: RunLimits,
    provider: Arc<dyn ModelProvider>,
    /// What the model is asked next, with the whole conversation.
    request: ModelRequest,
    fences: CodeFences,
    steering: Steering,
    cancel: CancellationToken,
    journal: Arc<dyn RunJournal>,
    /// Calls of an earlier attempt that have no result.
    open: Vec<Call>,
    /// Why the last answer of an earlier attempt ended, if it has no calls.
    last: Option<StopReason>,
    questions: Questions,
    emitter: Emitter,
    added: Vec<Item>,
    is_compacted: bool,
    has_called: bool,
    usage: Usage,
    /// Input tokens of the last step.
    context: u64,
    steps: u32,
    calls: u32,
    /// The calls of the last answer, and how often they came in a row.
    last_calls: (Vec<(String, String)>, usize),
    repetitions: usize,
}

/// Why a run cannot go on.
enum Stopped {
    Ended(Ended),
    NoAnswer(NoAnswer),
}

impl From<NoAnswer> for Stopped {
    fn from(reason: NoAnswer) -> Self {
        Self::NoAnswer(reason)
    }
}

impl From<JournalError> for Stopped {
    fn from(error: JournalError) -> Self {
        Self::Ended(Ended::NotRecorded(error))
    }
}

/// Where the outputs of calls come from.
#[derive(Clone, Copy)]
enum Outputs {
    /// The tools run.
    OfTools,
    /// The answer was cut off, so no call runs.
    TooLong,
}

impl<'a> Run<'a> {
    fn new(agent: &'a Agent, run: RunRequest, emitter: Emitter) -> Self {
        let RunRequest { provider, mut request, fences, steering, cancel, journal, earlier, questions } = run;
        request.tools.splice(..0, agent.tools.definitions());
        Self {
            tools: &*agent.tools,
            limits: agent.limits,
            provider,
            request,
            fences,
            steering,
            cancel,
            journal,
            open: earlier.open,
            last: earlier.last,
            questions,
            emitter,
            added: Vec::new(),
            is_compacted: false,
            has_called: earlier.calls > 0,
            usage: earlier.usage,
            context: 0,
            steps: earlier.steps,
            calls: earlier.calls,
            last_calls: (Vec::new(), 0),
            repetitions: 0,
        }
    }

    async fn work(&mut self) -> Ended {
        match self.try_work().await {
            Ok(ended) | Err(Stopped::Ended(ended)) => ended,
            Err(Stopped::NoAnswer(NoAnswer::Cancelled)) => Ended::Cancelled,
            Err(Stopped::NoAnswer(NoAnswer::Failed(error))) => Ended::Failed(error),
        }
    }

    async fn try_work(&mut self) -> Result<Ended, Stopped> {
        let open = std::mem::take(&mut self.open);
        if !open.is_empty() {
            let (own, of_client) = self.divided(open);
            if let Some(ended) = self.run_calls(own, of_client, Outputs::OfTools).await? {
                return Ok(ended);
            }
        }
        if let Some(ended) = self.last.take().and_then(|stop| self.without_calls(stop)) {
            return Ok(ended);
        }
        loop {
            for parts in self.steering.take() {
                self.journal.record(Entry::Steered { parts: &parts }).await?;
                self.add(Item::User { parts: parts.clone() });
                self.emitter.send(RunEvent::Steered { parts }).await;
            }
            if let Some(ended) = self.limit_reached() {
                return Ok(ended);
            }
            let answer = self.ask().await?;
            if let Some(ended) = self.answered(answer).await? {
                return Ok(ended);
            }
        }
    }

    fn limit_reached(&self) -> Option<Ended> {
        let tokens = self.usage.input_tokens.saturating_add(self.usage.output_tokens);
        if self.cancel.is_cancelled() {
            return Some(Ended::Cancelled);
        }
        if self.steps >= self.limits.steps {
            return Some(Ended::Steps(self.limits.steps));
        }
        (tokens >= self.limits.tokens).then_some(Ended::Tokens(self.limits.tokens))
    }

    /// Asks the model, and shortens the conversation if it is too long.
    async fn ask(&mut self) -> Result<ModelAnswer, Stopped> {
        if self
            .limits
            .context_tokens
            .is_some_and(|most| self.context.saturating_mul(100) >= most.saturating_mul(COMPACT_PERCENT))
        {
            self.compact().await?;
        }
        self.steps += 1;
        self.journal.record(Entry::Asking { step: self.steps }).await?;
        self.emitter.send(RunEvent::StepBegan { step: self.steps }).await;
        let answer = match self.ask_once().await {
            Err(NoAnswer::Failed(ModelError::ContextFull { message })) => {
                if !self.compact().await? {
                    return Err(NoAnswer::Failed(ModelError::ContextFull { message }).into());
                }
                self.ask_once().await?
            }
            answer => answer?,
        };
        self.usage += answer.usage;
        self.context = answer.usage.input_tokens.saturating_add(answer.usage.output_tokens);
        Ok(answer)
    }

    async fn ask_once(&self) -> Result<ModelAnswer, NoAnswer> {
        step::ask(&*self.provider, &self.request, self.tools, &self.emitter, &self.cancel).await
    }

    /// Returns whether the conversation became shorter.
    async fn compact(&mut self) -> Result<bool, Stopped> {
        self.journal.record(Entry::Compacting).await?;
        let compacting = compact(&*self.provider, &self.request.model, &self.request.items);
        let compacted = tokio::select! {
            biased;
            () = self.cancel.cancelled() => return Err(NoAnswer::Cancelled.into()),
            compacted = compacting => compacted.map_err(NoAnswer::Failed)?,
        };
        let Some(compacted) = compacted else { return Ok(false) };
        self.journal.record(Entry::Compacted { items: &compacted.items, usage: compacted.usage }).await?;
        self.request.items = compacted.items;
        self.usage += compacted.usage;
        self.context = 0;
        self.is_compacted = true;
        self.emitter.send(RunEvent::Compacted).await;
        Ok(true)
    }

    /// Adds an answer and runs its calls. Returns why the run ends, if it does.
    async fn answered(&mut self, answer: ModelAnswer) -> Result<Option<Ended>, Stopped> {
        let ModelAnswer { mut items, stop, usage } = answer;
        if let Some(call) = self.fenced(&items) {
            items.push(Item::Call(call));
        }
        let mut calls = Vec::new();
        for item in &mut items {
            if let Item::Call(call) = item {
                repair(call);
                calls.push(call.clone());
            }
        }
        let (own, of_client) = self.divided(calls.clone());
        let entry = Entry::Answered { step: self.steps, items: &items, stop, usage, own: &own, of_client: &of_client };
        self.journal.record(entry).await?;
        self.emitter.send(RunEvent::StepEnded { items: items.clone(), usage }).await;
        for item in items {
            self.add(item);
        }
        if calls.is_empty() {
            return Ok(self.without_calls(stop));
        }
        self.has_called = true;
        let repeated = self.repeated(&calls);
        if repeated >= LOOP_END {
            return Ok(Some(Ended::Loop));
        }
        let count = u32::try_from(own.len()).unwrap_or(u32::MAX);
        if self.calls.saturating_add(count) > self.limits.calls {
            return Ok(Some(Ended::Calls(self.limits.calls)));
        }
        self.calls += count;
        // If the answer was cut off, the last call may be incomplete, and the others may depend on it.
        let outputs = if stop == StopReason::Length { Outputs::TooLong } else { Outputs::OfTools };
        self.repetitions = repeated;
        self.run_calls(own, of_client, outputs).await
    }

    /// Why the run ends after an answer without calls, if it does.
    fn without_calls(&self, stop: StopReason) -> Option<Ended> {
        match stop {
            StopReason::Length => Some(Ended::Length),
            StopReason::Refusal => Some(Ended::Refused),
            StopReason::End | StopReason::Calls if self.steering.end_if_empty() => Some(Ended::Done),
            // A message has arrived while the model wrote its last answer.
            StopReason::End | StopReason::Calls => None,
        }
    }

    /// Runs calls and adds their results in the order of the calls, each as soon as those before it have one.
    async fn run_calls(
        &mut self,
        own: Vec<Call>,
        of_client: Vec<Call>,
        outputs: Outputs,
    ) -> Result<Option<Ended>, Stopped> {
        let (tools, emitter, cancel) = (self.tools, self.emitter.clone(), self.cancel.clone());
        let mut results = match outputs {
            Outputs::OfTools => calls::run(&own, tools, &emitter, &cancel, self.questions),
            Outputs::TooLong => stream::iter(own.iter().map(|_| Ran::Ended(ToolOutput::error(TOO_LONG)))).boxed(),
        };
        // Calls go on while a result is recorded: one of them may hold what the journal waits for.
        let (sender, mut ready) = mpsc::channel(own.len().max(1));
        let running = async move {
            while let Some(output) = results.next().await {
                if sender.send(output).await.is_err() {
                    break;
                }
            }
            Ok::<(), Stopped>(())
        };
        let mut parked = Vec::new();
        let recording = async {
            for call in &own {
                let Some(ran) = ready.recv().await else { break };
                let Ran::Ended(mut output) = ran else {
                    parked.push(call.clone());
                    continue;
                };
                if self.repetitions >= LOOP_WARNING {
                    output.parts.push(Part::text(format!(
                        "\nThis is the same call as the last {} times. Do something else, or finish.",
                        self.repetitions - 1
                    )));
                }
                let result = CallResult { call_id: call.id.clone(), parts: output.parts, is_error: output.is_error };
                let entry = Entry::Result { result: &result, structured: output.structured.as_ref() };
                self.journal.record(entry).await?;
                self.add(Item::Result(result));
            }
            Ok(())
        };
        tokio::try_join!(running, recording)?;
        if !parked.is_empty() {
            return Ok(Some(Ended::Parked { calls: parked, of_client }));
        }
        if self.cancel.is_cancelled() {
            return Ok(Some(Ended::Cancelled));
        }
        Ok((!of_client.is_empty()).then_some(Ended::ClientCalls(of_client)))
    }

    /// Divides calls into those of the agent's tools and those of the client's.
    fn divided(&self, calls: Vec<Call>) -> (Vec<Call>, Vec<Call>) {
        calls.into_iter().partition(|call| !self.is_of_client(call))
    }

    /// Whether a call is of a tool of the client. The agent's own tools win if both have the same name.
    fn is_of_client(&self, call: &Call) -> bool {
        let own = self.tools.definitions();
        !own.iter().any(|tool| tool.name == call.name) && self.request.tools.iter().any(|tool| tool.name == call.name)
    }

    /// The call that code in the text of an answer without calls stands for.
    fn fenced(&self, items: &[Item]) -> Option<Call> {
        let is_wanted = match self.fences {
            CodeFences::Always => true,
            CodeFences::Auto => !self.has_called,
            CodeFences::Never => false,
        };
        if !is_wanted || items.iter().any(|item| matches!(item, Item::Call(_))) {
            return None;
        }
        let (name, argument) = self.tools.code_tool()?;
        let text = items
            .iter()
            .rev()
            .find_map(|item| if let Item::Assistant { text, .. } = item { Some(text) } else { None })?;
        let found = fenced_code(text)?;
        let arguments = json!({ argument: found.code, "language": found.language }).to_string();
        let id = format!("call_fence_{}", self.steps);
        Some(Call { id, name: name.to_owned(), arguments, native: None })
    }

    /// How often the model has made these calls in a row.
    fn repeated(&mut self, calls: &[Call]) -> usize {
        let calls: Vec<_> = calls.iter().map(|call| (call.name.clone(), call.arguments.clone())).collect();
        let (last, times) = &mut self.last_calls;
        *times = if *last == calls { *times + 1 } else { 1 };
        *last = calls;
        *times
    }

    fn add(&mut self, item: Item) {
        self.request.items.push(item.clone());
        self.added.push(item);
    }

    /// Gives every call a result, except those of the client, who has them. Messages that the model has not got become
    /// part of the conversation, unless the results of the client come next.
    fn close(mut self, ended: Ended) -> RunOutcome {
        let waiting = match &ended {
            Ended::ClientCalls(calls) => calls.clone(),
            Ended::Parked { calls, of_client } => [calls.as_slice(), of_client].concat(),
            _ => Vec::new(),
        };
        // Models may use an ID again in a later answer, so calls and results are counted.
        let mut open: Vec<String> = Vec::new();
        for item in &self.added {
            match item {
                Item::Call(call) => open.push(call.id.clone()),
                Item::Result(result) => {
                    if let Some(place) = open.iter().position(|id| *id == result.call_id) {
                        open.remove(place);
                    }
                }
                _ => {}
            }
        }
        open.retain(|id| !waiting.iter().any(|call| call.id == *id));
        for call_id in open {
            self.add(Item::Result(CallResult { call_id, parts: vec![Part::text(STOPPED)], is_error: true }));
        }
        let left = self.steering.end();
        if waiting.is_empty() {
            for parts in left {
                self.add(Item::User { parts });
            }
        }
        RunOutcome {
            compacted: self.is_compacted.then_some(self.request.items),
            items: self.added,
            ended,
            usage: self.usage,
            steps: self.steps,
        }
    }
}
