//! Coracle's own tools for the built-in agent: the same that MCP clients get in the profile `code`.

use super::code_request::CodeRequest;
use super::{Frontend, definitions, discovery, prompt, render};
use crate::profile::Profile;
use async_trait::async_trait;
use coracle_agent::{AgentTools, CallUpdate, ToolOutput};
use coracle_models::{Call, Part, ToolDefinition};
use coracle_policy::Approver;
use coracle_runs::{RunTools, StoreCallLog};
use coracle_types::ServerName;
use rmcp::model::{CallToolRequestParams, CallToolResult, ContentBlock};
use serde_json::{Map, Value};
use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// The definitions of the agent's tools. They are the same for everybody.
pub(crate) static DEFINITIONS: LazyLock<Vec<ToolDefinition>> = LazyLock::new(|| {
    let definitions = definitions::offered(Profile::Code).into_iter().map(|tool| ToolDefinition {
        name: tool.name.to_owned(),
        description: tool.description.to_owned(),
        parameters: tool.input_schema.as_object().cloned().unwrap_or_default(),
        strict: None,
    });
    definitions.collect()
});

/// The agent's tools for one user.
#[derive(Clone)]
pub struct FrontendTools {
    frontend: Frontend,
    approver: Arc<dyn Approver>,
    /// The run whose calls are recorded.
    run: Option<RunTools>,
    /// Servers that were started because code that is being written names them.
    anticipated: Arc<Mutex<HashSet<ServerName>>>,
}

impl FrontendTools {
    /// The tools of the user of this front end. The approver is asked about calls that need a person's approval.
    pub fn new(frontend: Frontend, approver: Arc<dyn Approver>) -> Self {
        Self { frontend, approver, run: None, anticipated: Arc::default() }
    }

    /// Records the calls of code, so that the run can be taken up after a crash.
    pub(crate) fn for_run(self, run: RunTools) -> Self {
        Self { run: Some(run), ..self }
    }

    /// The system prompt: how to work with code, and summaries of skills and servers.
    pub async fn instructions(&self) -> String {
        prompt::text(&self.frontend).await
    }

    async fn execute(
        &self,
        call: &Call,
        arguments: Map<String, Value>,
        updates: &mpsc::Sender<CallUpdate>,
        cancel: &CancellationToken,
    ) -> Result<CallToolResult, String> {
        let wanted: CodeRequest =
            serde_json::from_value(arguments.into()).map_err(|error| format!("invalid arguments: {error}"))?;
        let mut request = wanted.into_request(&self.frontend)?;
        request.events = Some(updates.clone());
        request.cancel = cancel.child_token();
        request.approver = Arc::clone(&self.approver);
        if let Some(run) = &self.run {
            let log = StoreCallLog::open(run, &self.frontend.user(), &call.id).await;
            let log = log.map_err(|error| format!("the recorded calls of the run cannot be read: {error}"))?;
            request.call_log = Some(Arc::new(log));
        }
        let (execution, output) = self.frontend.execute_with_output(request).await;
        Ok(render::for_agent(&self.frontend, execution, &output).await)
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
                "execute_code" => self.execute(call, arguments, updates, cancel).await,
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
