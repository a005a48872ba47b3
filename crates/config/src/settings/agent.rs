//! Settings of the chat agent: its models and its limits.

use coracle_types::Secret;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Models for the chat agent, and its limits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Agent {
    /// Model to use if a request names none: `PROVIDER/MODEL`, such as `openai/gpt-5`, or the name alone if its
    /// provider is obvious. Defaults to `azure/DEPLOYMENT` if `azure_openai` has an endpoint and a deployment.
    pub default_model: Option<String>,
    /// Model providers by name. Coracle knows the addresses of `openai`, `anthropic`, `gemini`, `mistral`, `deepseek`,
    /// `groq`, `openrouter`, `ollama`, `lmstudio` and `llamacpp`; all others require `url`. A name consists of letters,
    /// digits, `-`, `_` and `.`. Entries from several sources are merged key by key.
    pub providers: BTreeMap<String, Provider>,
    /// Azure OpenAI resource: the provider `azure`, and the fallback of `search.embedder`. Keys of
    /// `agent.providers.azure` take precedence.
    pub azure_openai: AzureOpenAi,
    /// Look for Ollama, LM Studio and llama.cpp on this machine if no other provider is configured.
    pub find_local_servers: bool,
    /// Maximum number of requests to the model in one run.
    #[schemars(range(min = 1, max = 1_000))]
    pub max_steps: u64,
    /// Maximum number of tool calls in one run.
    #[schemars(range(min = 1, max = 10_000))]
    pub max_calls: u64,
    /// Maximum number of tokens in one run, input and output together.
    #[schemars(range(min = 1_000, max = 1_000_000_000_000_u64))]
    pub max_run_tokens: u64,
    /// Maximum number of tokens per user and day (UTC), input and output together. Further requests to a model are
    /// refused, those under way are completed.
    #[schemars(range(min = 1_000, max = 1_000_000_000_000_u64))]
    pub daily_tokens: Option<u64>,
    /// Text to add to the system prompt.
    pub instructions: Option<String>,
    /// Pass the addresses of images in requests on to the model's provider, which downloads them.
    pub allow_image_urls: bool,
    /// Let users who sign in set their own API keys of providers, with `PUT /api/providers/{name}/key`. They are used
    /// instead of the operator's, and `daily_tokens` does not apply to them.
    pub personal_keys: bool,
    /// Delete conversations that have not changed for this number of days, and responses without a conversation that
    /// ended as long ago. Runs that are under way are never deleted. By default, everything is kept.
    #[schemars(range(min = 1, max = 36_500))]
    pub keep_conversations_days: Option<u64>,
}

impl Default for Agent {
    fn default() -> Self {
        Self {
            default_model: None,
            providers: BTreeMap::new(),
            azure_openai: AzureOpenAi::default(),
            find_local_servers: true,
            max_steps: 50,
            max_calls: 200,
            max_run_tokens: 2_000_000,
            daily_tokens: None,
            instructions: None,
            allow_image_urls: false,
            personal_keys: false,
            keep_conversations_days: None,
        }
    }
}

/// Model provider. `${VAR}`, `${VAR:-default}` and `${env:VAR}` are expanded from the environment and `.env` in `url`,
/// `api_key` and `api_version`; `$${` is a literal `${`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Provider {
    /// Base URL of the API, such as `http://localhost:8000/v1`. For Azure, the endpoint of the resource.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub url: Option<Secret>,
    /// API key. Prefer an environment variable to the settings file.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub api_key: Option<Secret>,
    /// API of the provider. Defaults to that of a provider that Coracle knows, and to `chat` for all others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api: Option<Api>,
    /// Azure API version, such as `2024-10-21`. If set, models are deployments of an Azure OpenAI resource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// Code blocks in the text of an answer, for models that do not call tools reliably: run them if the model has not
    /// called a tool in this run (`auto`), `always` or `never`.
    pub code_fences: CodeFences,
    /// Size of the context of the provider's models, in tokens. Longer conversations are shortened.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1_000, max = 100_000_000))]
    pub context_tokens: Option<u64>,
    /// Names of the models to offer. If empty, the provider is asked.
    pub models: Vec<String>,
}

/// API of a model provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Api {
    /// OpenAI's Chat Completions, which most servers imitate.
    Chat,
    /// OpenAI's Responses.
    Responses,
    /// Anthropic's Messages.
    Messages,
}

/// Whether code blocks in the text of an answer are run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CodeFences {
    /// Run them if the model has not called a tool in this run.
    #[default]
    Auto,
    /// Run them whenever the answer has no tool calls.
    Always,
    /// Do not run them.
    Never,
}

/// Azure OpenAI resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AzureOpenAi {
    /// Endpoint URL of the resource.
    pub endpoint: Option<String>,
    /// API key. Prefer an environment variable to the settings file.
    #[schemars(with = "Option<String>")]
    pub api_key: Option<Secret>,
    /// API version, such as `2024-10-21`.
    pub api_version: Option<String>,
    /// Deployment name. Without `agent.default_model`, it is the default model.
    pub deployment: Option<String>,
}
