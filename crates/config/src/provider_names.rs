//! Names of model providers: which ones are known, and what to do about others.

use crate::keys::PROVIDERS;
use crate::settings::Agent;
use crate::suggest::nearest;

/// The maximum length of a provider's name.
const MAX_NAME: usize = 64;
/// The provider that `agent.azure_openai` describes.
pub(crate) const AZURE: &str = "azure";
/// Providers whose address is known.
const KNOWN: [&str; 10] =
    ["openai", "anthropic", "gemini", "mistral", "deepseek", "groq", "openrouter", "ollama", "lmstudio", "llamacpp"];

/// Whether a text can be the name of a provider.
pub(crate) fn is_name(text: &str) -> bool {
    let is_valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !text.is_empty() && text.len() <= MAX_NAME && text.chars().all(is_valid)
}

/// Whether a provider must have a `url`, because its address is not known.
pub(crate) fn needs_url(name: &str, agent: &Agent) -> bool {
    if name == AZURE { agent.azure_openai.endpoint.is_none() } else { !KNOWN.contains(&name) }
}

/// The name of the provider that a key is about.
pub(crate) fn name_in(key: &str) -> Option<&str> {
    key.strip_prefix(PROVIDERS)?.strip_prefix('.')
}

/// What to do about a provider without `url`.
pub(crate) fn hint_without_url(name: &str) -> String {
    match nearest(name, KNOWN) {
        Some(meant) if meant != name => format!("did you mean `{meant}`?"),
        _ => format!("add the base URL of its API; only these need none: {}", KNOWN.join(", ")),
    }
}
