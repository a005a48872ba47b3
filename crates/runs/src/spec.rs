//! What a client wants of a run.

use coracle_models::{Effort, ModelRequest, ResponseFormat, ToolChoice, ToolDefinition};
use coracle_types::{ConversationId, Mode, RunId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The request for a run, as it is stored: enough to take the run up after a crash.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunSpec {
    /// Full name of the model.
    pub model: String,
    /// Instructions of the client.
    #[serde(default)]
    pub instructions: Option<String>,
    /// Options for the model.
    #[serde(default)]
    pub options: ModelOptions,
    /// Maximum number of calls that the agent makes, if the client limits it further.
    #[serde(default)]
    pub max_tool_calls: Option<u32>,
    /// The conversation that the run belongs to.
    #[serde(default)]
    pub conversation: Option<ConversationId>,
    /// The run that this one continues.
    #[serde(default)]
    pub previous: Option<RunId>,
    /// Whether the run goes on without its client.
    #[serde(default)]
    pub is_background: bool,
    /// Whether a person may be asked about calls that need an approval. Otherwise, they are refused.
    #[serde(default)]
    pub may_ask: bool,
    /// Whether the run ends when its calls wait for a person, so that its client can answer.
    #[serde(default)]
    pub parks: bool,
    /// Tools of which each call is asked about, whatever the policy allows.
    #[serde(default)]
    pub always_ask: Vec<AlwaysAsk>,
    /// Whether code of the run changes something, or its effects are collected as plans.
    #[serde(default)]
    pub mode: Mode,
    /// Whether the run is kept after its end.
    #[serde(default)]
    pub is_stored: bool,
    /// Data of the client.
    #[serde(default)]
    pub metadata: Map<String, Value>,
    /// Fields of the request that the response repeats.
    #[serde(default)]
    pub echo: Map<String, Value>,
}

/// Tools of which each call is asked about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlwaysAsk {
    /// The name of the server.
    pub server: String,
    /// Names of tools. `None` means all of them.
    #[serde(default)]
    pub tools: Option<Vec<String>>,
}

/// Options for the model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelOptions {
    /// The functions of the client.
    #[serde(default)]
    pub tools: Vec<ToolDefinition>,
    /// Whether the model may, must or must not call tools.
    #[serde(default)]
    pub tool_choice: ToolChoice,
    /// Whether one answer may contain several calls.
    #[serde(default)]
    pub parallel_calls: Option<bool>,
    /// Maximum number of tokens of one answer.
    #[serde(default)]
    pub max_output_tokens: Option<u64>,
    /// Sampling temperature.
    #[serde(default)]
    pub temperature: Option<f64>,
    /// Nucleus sampling.
    #[serde(default)]
    pub top_p: Option<f64>,
    /// How much the model reasons.
    #[serde(default)]
    pub effort: Option<Effort>,
    /// The required form of the answer.
    #[serde(default)]
    pub format: Option<ResponseFormat>,
    /// A key that groups requests with a common beginning.
    #[serde(default)]
    pub cache_key: Option<String>,
}

impl RunSpec {
    /// Whether the run goes on when its client is gone.
    pub fn outlives_client(&self) -> bool {
        self.is_background || self.conversation.is_some()
    }

    /// The names of the client's functions.
    pub(crate) fn functions(&self) -> Vec<String> {
        self.options.tools.iter().map(|tool| tool.name.clone()).collect()
    }

    /// Whether the client expects commands of a shell that the server runs: it has named such a shell among its tools.
    pub(crate) fn has_shell(&self) -> bool {
        let tools = self.echo.get("tools").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        tools.iter().filter(|tool| tool.get("type").is_some_and(|kind| kind == "shell")).any(|shell| {
            let environment = shell.pointer("/environment/type").and_then(Value::as_str);
            matches!(environment, Some("container_auto" | "container_reference"))
        })
    }

    /// The request to the model, without a conversation.
    pub(crate) fn model_request(&self, model: String, instructions: String) -> ModelRequest {
        let options = self.options.clone();
        ModelRequest {
            model,
            instructions,
            items: Vec::new(),
            tools: options.tools,
            tool_choice: options.tool_choice,
            parallel_calls: options.parallel_calls,
            max_output_tokens: options.max_output_tokens,
            temperature: options.temperature,
            top_p: options.top_p,
            stop: Vec::new(),
            effort: options.effort,
            format: options.format,
            cache_key: options.cache_key,
        }
    }
}
