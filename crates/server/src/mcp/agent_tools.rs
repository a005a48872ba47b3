//! Coracle's own tools for the built-in agent: the same that MCP clients get in the profile `code`.

use super::code_request::CodeRequest;
use super::held::{HeldExecution, HeldExecutions};
use super::{Frontend, definitions, discovery, prompt, render};
use crate::late_approver::LateAnswers;
use crate::profile::Profile;
use async_trait::async_trait;
use coracle_agent::{AgentTools, CallUpdate, Ran, ToolOutput};
use coracle_engine::CallLogging;
use coracle_models::{Call, Part, ToolDefinition};
use coracle_policy::{Approver, Interface};
use coracle_runs::{RunTools, StoreCallLog};
use coracle_store::Place;
use coracle_types::{Mode, ServerName};
use rmcp::model::{CallToolRequestParams, CallToolResult, ContentBlock};
use serde_json::{Map, Value};
use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// The definitions of the agent's tools. They are the same for everybody.
pub(crate) static DEFINITIONS: LazyLock<Vec<ToolDefinition>> = LazyLock::new(|| {
    let definitions = definitions::offered(Profile::Code).into_iter().map(|mut tool| {
        if tool.name == definitions::EXECUTE_CODE {
            definitions::leave_out_resume(&mut tool.input_schema);
        }
        ToolDefinition {
            name: tool.name.to_owned(),
            description: tool.description.to_owned(),
            parameters: tool.input_schema.as_object().cloned().unwrap_or_default(),
            strict: None,
        }
    });
    definitions.collect()
});

/// The agent's tools for one user.
#[derive(Clone)]
pub struct FrontendTools {
    frontend: Frontend,
    approver: Arc<dyn Approver>,
    mode: Mode,
    /// The run whose calls are recorded.
    run: Option<RunTools>,
    /// The conversation, or the run, that gets what code returns.
    conversation: Option<Place>,
    /// IDs of calls that a parked run has left to this one.
    taken_over: Arc<Mutex<HashSet<String>>>,
    /// Answers for them.
    late: LateAnswers,
    /// Where executions are held that wait for a person when their run ends.
    held: Option<HeldExecutions>,
    /// Servers that were started because code that is being written names them.
    anticipated: Arc<Mutex<HashSet<ServerName>>>,
}

impl FrontendTools {
    /// The tools of the user of this front end. The approver is asked about calls that need a person's approval.
    pub fn new(frontend: Frontend, approver: Arc<dyn Approver>) -> Self {
        Self {
            frontend,
            approver,
            mode: Mode::Run,
            run: None,
            conversation: None,
            taken_over: Arc::default(),
            late: LateAnswers::default(),
            held: None,
            anticipated: Arc::default(),
        }
    }

    /// Records the calls of code, so that the run can be taken up after a crash.
    pub(crate) fn for_run(self, run: RunTools) -> Self {
        let continued = run.continued.clone();
        let (calls, late) = continued.map(|continued| (continued.calls, continued.late)).unwrap_or_default();
        let taken_over = Arc::new(Mutex::new(calls.into_iter().collect()));
        Self { run: Some(run), taken_over, late: LateAnswers::new(late), ..self }
    }

    /// Code can use what was read in this conversation before, and is noted in it.
    #[must_use]
    pub fn in_conversation(self, conversation: Place) -> Self {
        Self { conversation: Some(conversation), ..self }
    }

    /// Makes plans instead of changing anything, in the mode `plan`.
    #[must_use]
    pub(crate) fn in_mode(self, mode: Mode) -> Self {
        Self { mode, ..self }
    }

    /// Lets executions wait for a person when their run has ended.
    pub(crate) fn holding(self, held: HeldExecutions) -> Self {
        Self { held: Some(held), ..self }
    }

    /// The system prompt: how to work with code, and summaries of skills and servers.
    pub async fn instructions(&self) -> String {
        prompt::text(&self.frontend).await
    }

    async fn execute(
        &self,
        call: &Call,
        arguments: Map<String, Value>,
        approver: Arc<dyn Approver>,
        updates: &mpsc::Sender<CallUpdate>,
        cancel: &CancellationToken,
    ) -> Result<CallToolResult, String> {
        let wanted: CodeRequest =
            serde_json::from_value(arguments.into()).map_err(|error| format!("invalid arguments: {error}"))?;
        let mut request = wanted.without_resume(&self.frontend)?;
        request.interface = Interface::Agent;
        request.events = Some(updates.clone());
        request.cancel = cancel.child_token();
        request.approver = approver;
        request.conversation = self.conversation.clone().or(request.conversation);
        if self.mode == Mode::Plan {
            request.mode = Mode::Plan;
        }
        if let Some(run) = &self.run {
            let log = StoreCallLog::open(run, &self.frontend.user(), &call.id).await;
            let log = log.map_err(|error| format!("the recorded calls of the run cannot be read: {error}"))?;
            request.call_log = CallLogging::In(Arc::new(log));
        }
        let (execution, output) = self.frontend.execute_with_output(request).await;
        Ok(render::for_agent(&self.frontend, execution, &output).await)
    }
}

impl FrontendTools {
    /// The approver of a call. The first call with an ID that a parked run has left may have late answers.
    fn approver(&self, call: &str) -> Arc<dyn Approver> {
        let approver = Arc::clone(&self.approver);
        let mut taken_over = self.taken_over.lock().unwrap_or_else(PoisonError::into_inner);
        if taken_over.remove(call) { self.late.before(approver) } else { approver }
    }

    /// Takes over the execution that the parked run has left, or begins one.
    fn held_execution(
        &self,
        held: &HeldExecutions,
        run: &RunTools,
        call: &Call,
        arguments: Map<String, Value>,
    ) -> HeldExecution {
        let approver = self.approver(&call.id);
        let left = run.continued.as_ref();
        if let Some(left) = left.and_then(|left| held.take(&self.frontend.user(), &left.run, &call.id)) {
            return left;
        }
        let (tools, call) = (self.clone(), call.clone());
        HeldExecution::begin(run.owner.clone(), |updates, cancel| async move {
            let result = tools.execute(&call, arguments, approver, &updates, &cancel).await;
            result.map_or_else(ToolOutput::error, output)
        })
    }
}

impl fmt::Debug for FrontendTools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrontendTools").finish_non_exhaustive()
    }
}

#[async_trait]
impl AgentTools for FrontendTools {
    fn definitions(&self) -> Vec<ToolDefinition> {
        DEFINITIONS.clone()
    }

    fn code_tool(&self) -> Option<(&str, &str)> {
        Some(("execute_code", "code"))
    }

    fn anticipate(&self, name: &str, so_far: &str, added: usize) {
        let Some(toolbox) = self.frontend.toolbox().filter(|_| name == "execute_code") else { return };
        let mut begun = self.anticipated.lock().unwrap_or_else(PoisonError::into_inner);
        toolbox.anticipate(&self.frontend.user(), so_far, added, &mut begun);
    }

    async fn run(
        &self,
        call: &Call,
        arguments: Map<String, Value>,
        updates: &mpsc::Sender<CallUpdate>,
        cancel: &CancellationToken,
    ) -> ToolOutput {
        let name = call.name.as_str();
        let request = |arguments| CallToolRequestParams::new(name.to_owned()).with_arguments(arguments);
        let finding = async {
            match name {
                "search_tools" => discovery::search_tools(&self.frontend, &request(arguments)).await,
                "get_tool_definition" => discovery::get_tool_definition(&self.frontend, &request(arguments)).await,
                "execute_code" => self.execute(call, arguments, Arc::clone(&self.approver), updates, cancel).await,
                _ => Err(format!("unknown tool: {name}")),
            }
        };
        let result = if name == "execute_code" {
            // Ends by itself when it is cancelled, with what the code has written.
            finding.await
        } else {
            tokio::select! {
                result = finding => result,
                () = cancel.cancelled() => Err("the run was stopped".to_owned()),
            }
        };
        result.map_or_else(ToolOutput::error, output)
    }

    async fn run_or_park(
        &self,
        call: &Call,
        arguments: Map<String, Value>,
        updates: &mpsc::Sender<CallUpdate>,
        cancel: &CancellationToken,
        park: &CancellationToken,
    ) -> Ran {
        let (Some(run), Some(held), "execute_code") = (&self.run, &self.held, call.name.as_str()) else {
            return Ran::Ended(self.run(call, arguments, updates, cancel).await);
        };
        let execution = self.held_execution(held, run, call, arguments);
        execution.listen(updates).await;
        tokio::select! {
            biased;
            output = execution.ended() => Ran::Ended(output),
            () = cancel.cancelled() => Ran::Ended(execution.stop().await),
            () = park.cancelled() => {
                execution.leave();
                held.keep(&self.frontend.user(), &run.run, &call.id, execution);
                Ran::Parked
            }
        }
    }
}

fn output(result: CallToolResult) -> ToolOutput {
    let parts = result.content.into_iter().filter_map(|block| match block {
        ContentBlock::Text(text) => Some(Part::Text { text: text.text }),
        ContentBlock::Image(image) => Some(Part::Image { mime: image.mime_type, data: image.data }),
        // The text names artifacts already.
        _ => None,
    });
    ToolOutput {
        parts: parts.collect(),
        is_error: result.is_error.unwrap_or_default(),
        structured: result.structured_content,
    }
}
