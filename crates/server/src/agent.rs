//! The agent behind `/v1`: its models and limits.

use coracle_agent::{CodeFences, RunLimits};
use coracle_models::Directory;
use coracle_types::Secret;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Options of the agent.
#[derive(Clone, Debug, Default)]
pub struct AgentOptions {
    /// The models.
    pub models: Arc<Directory>,
    /// The key that requests to `/v1` need on a server without users. Without one, they are rejected.
    pub local_key: Option<Secret>,
    /// The limits of one run.
    pub limits: RunLimits,
    /// Maximum number of tokens per user and day.
    pub daily_tokens: Option<u64>,
    /// Whether users who sign in may use their own keys of providers.
    pub allows_personal_keys: bool,
    /// Text to add to the system prompt.
    pub instructions: String,
    /// How long conversations are kept after their last change. Without a limit, for ever.
    pub kept_for: Option<Duration>,
    /// Whether requests may name addresses of images, which the provider then fetches.
    pub allows_image_urls: bool,
    /// Options of single providers, by name.
    pub providers: BTreeMap<String, ProviderOptions>,
}

/// Options of the models of one provider.
#[derive(Clone, Debug, Default)]
pub struct ProviderOptions {
    /// Names of the models to offer. If there are none, the provider is asked.
    pub models: Vec<String>,
    /// Whether code in the text of an answer is run.
    pub fences: CodeFences,
    /// Size of the context in tokens.
    pub context_tokens: Option<u64>,
}

impl AgentOptions {
    /// The system prompt: how to use the tools (`own`), then what the operator and the client add.
    pub fn instructions(&self, own: &str, of_client: &str) -> String {
        let parts = [own, self.instructions.as_str(), of_client];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n\n")
    }

    /// Whether code in the text of a model of this provider is run.
    pub fn fences(&self, provider: &str) -> CodeFences {
        self.providers.get(provider).map(|options| options.fences).unwrap_or_default()
    }

    /// The limits of a run with a model of this provider.
    pub fn limits(&self, provider: &str) -> RunLimits {
        let context_tokens = self.providers.get(provider).and_then(|options| options.context_tokens);
        RunLimits { context_tokens: context_tokens.or(self.limits.context_tokens), ..self.limits }
    }
}
