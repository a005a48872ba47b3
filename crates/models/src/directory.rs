//! Finds the provider of a model by the model's name.

use crate::chat_completions::{ChatCompletions, Dialect};
use crate::endpoint::{Endpoint, EndpointSettings, KeyHeader};
use crate::error::SettingsError;
use crate::messages::Messages;
use crate::provider::ModelProvider;
use crate::responses::Responses;
use coracle_types::Secret;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The version of Anthropic's API.
const ANTHROPIC_VERSION: &str = "2023-06-01";

/// A wire format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Api {
    /// OpenAI's Chat Completions.
    Chat,
    /// OpenAI's Responses.
    Responses,
    /// Anthropic's Messages.
    Messages,
}

/// The settings of one provider. Every field has a default for providers that Coracle knows.
#[derive(Clone, Debug, Default)]
pub struct ProviderSettings {
    /// The base URL.
    pub url: Option<String>,
    /// The API key.
    pub api_key: Option<Secret>,
    /// The wire format. Defaults to that of the provider, or to Chat Completions.
    pub api: Option<Api>,
    /// The version of Azure's API. If it is set, models are deployments and in the path.
    pub api_version: Option<String>,
}

/// A provider that Coracle knows.
#[derive(Debug)]
struct Known {
    name: &'static str,
    url: &'static str,
    api: Api,
    /// Beginnings of the names of its models.
    models: &'static [&'static str],
    needs_key: bool,
}

const KNOWN: &[Known] = &[
    cloud("openai", "https://api.openai.com/v1", Api::Responses, &["gpt-", "chatgpt-", "o1", "o3", "o4"]),
    cloud("anthropic", "https://api.anthropic.com/v1", Api::Messages, &["claude-"]),
    cloud("gemini", "https://generativelanguage.googleapis.com/v1beta/openai", Api::Chat, &["gemini-"]),
    cloud("mistral", "https://api.mistral.ai/v1", Api::Chat, &["mistral-", "codestral-", "devstral-", "magistral-"]),
    cloud("deepseek", "https://api.deepseek.com/v1", Api::Chat, &["deepseek-"]),
    cloud("groq", "https://api.groq.com/openai/v1", Api::Chat, &[]),
    cloud("openrouter", "https://openrouter.ai/api/v1", Api::Chat, &[]),
    local("ollama", "http://127.0.0.1:11434/v1"),
    local("lmstudio", "http://127.0.0.1:1234/v1"),
    local("llamacpp", "http://127.0.0.1:8080/v1"),
];

/// Azure has no address of its own: it is that of the customer's resource.
const AZURE: &str = "azure";

const fn cloud(name: &'static str, url: &'static str, api: Api, models: &'static [&'static str]) -> Known {
    Known { name, url, api, models, needs_key: true }
}

const fn local(name: &'static str, url: &'static str) -> Known {
    Known { name, url, api: Api::Chat, models: &[], needs_key: false }
}

/// The base URL of a provider that Coracle knows.
pub(crate) fn known_url(name: &str) -> Option<&'static str> {
    KNOWN.iter().find(|known| known.name == name).map(|known| known.url)
}

/// A model at a provider.
#[derive(Clone, Debug)]
pub struct ChosenModel {
    /// The provider.
    pub provider: Arc<dyn ModelProvider>,
    /// The provider's name in the configuration.
    pub provider_name: String,
    /// The model's name at the provider.
    pub model: String,
}

impl ChosenModel {
    /// The full name: provider and model.
    pub fn name(&self) -> String {
        format!("{}/{}", self.provider_name, self.model)
    }
}

/// A model cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChoiceError {
    /// No model is named, and there is no default.
    #[error("no model is configured")]
    NoModel,
    /// There is no provider that has the model.
    #[error("no provider for the model `{model}` is configured")]
    NoProvider {
        /// The model.
        model: String,
        /// The providers that are configured.
        providers: Vec<String>,
    },
    /// The provider needs a key.
    #[error("the provider `{provider}` needs an API key")]
    NoKey {
        /// The provider.
        provider: String,
    },
}

impl ChoiceError {
    /// The error code, for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoModel => "no_model",
            Self::NoProvider { .. } => "model_not_found",
            Self::NoKey { .. } => "no_api_key",
        }
    }

    /// How to fix the error.
    pub fn hint(&self) -> String {
        match self {
            Self::NoModel => "set `agent.default_model`, for example to `openai/gpt-5`, and the provider's key".to_owned(),
            Self::NoProvider { providers, .. } if providers.is_empty() => {
                "set the key of a provider, such as OPENAI_API_KEY or ANTHROPIC_API_KEY, or add one to `agent.providers`"
                    .to_owned()
            }
            Self::NoProvider { providers, .. } => {
                format!("name one of the configured providers before the model: {}", providers.join(", "))
            }
            Self::NoKey { provider } if provider == AZURE => {
                "set AZURE_OPENAI_ENDPOINT and AZURE_OPENAI_API_KEY, or `agent.azure_openai`".to_owned()
            }
            Self::NoKey { provider } => {
                format!("set {}_API_KEY, or `api_key` of this provider in `agent.providers`", provider.to_uppercase())
            }
        }
    }
}

/// Invalid settings of a provider.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("agent.providers.{provider}: {error}")]
pub struct DirectoryError {
    /// The provider.
    pub provider: String,
    /// What is wrong.
    pub error: SettingsError,
}

/// The providers that are configured.
#[derive(Debug, Default)]
pub struct Directory {
    providers: BTreeMap<String, Arc<dyn ModelProvider>>,
    default_model: Option<String>,
    /// The settings that the providers were made from.
    settings: BTreeMap<String, ProviderSettings>,
}

impl Directory {
    /// Creates clients of all providers that can be used: those with a key or an address. Does not send anything yet.
    pub fn new(
        settings: &BTreeMap<String, ProviderSettings>,
        default_model: Option<String>,
    ) -> Result<Self, DirectoryError> {
        let mut providers = BTreeMap::new();
        for (name, settings) in settings {
            let built = build(name, settings).map_err(|error| DirectoryError { provider: name.clone(), error })?;
            if let Some(provider) = built {
                providers.insert(name.clone(), provider);
            }
        }
        Ok(Self { providers, default_model, settings: settings.clone() })
    }

    /// The providers that can be used with another key: those in the settings, and those that Coracle knows and that
    /// need one.
    pub fn keyed(&self) -> BTreeSet<&str> {
        let known = KNOWN.iter().filter(|known| known.needs_key).map(|known| known.name);
        self.settings.keys().map(String::as_str).chain(known).collect()
    }

    /// The same providers, but with these keys for some of them. A provider that does not accept a key is left out.
    pub fn with_keys(&self, keys: &BTreeMap<String, Secret>) -> Result<Self, DirectoryError> {
        let mut providers = self.providers.clone();
        for (name, key) in keys.iter().filter(|(name, _)| self.keyed().contains(name.as_str())) {
            let settings = self.settings.get(name).cloned().unwrap_or_default();
            let settings = ProviderSettings { api_key: Some(key.clone()), ..settings };
            let built = build(name, &settings).map_err(|error| DirectoryError { provider: name.clone(), error })?;
            if let Some(provider) = built {
                providers.insert(name.clone(), provider);
            }
        }
        Ok(Self { providers, default_model: self.default_model.clone(), settings: self.settings.clone() })
    }

    /// The providers by name.
    pub fn providers(&self) -> &BTreeMap<String, Arc<dyn ModelProvider>> {
        &self.providers
    }

    /// Adds a provider, or replaces one with the same name.
    #[must_use]
    pub fn with(mut self, name: &str, provider: Arc<dyn ModelProvider>) -> Self {
        self.providers.insert(name.to_owned(), provider);
        self
    }

    /// The model that is used if a request names none.
    pub fn default_model(&self) -> Option<&str> {
        self.default_model.as_deref()
    }

    /// Finds a model: `provider/model`, or the name alone if its provider is obvious. Without a name, the default.
    pub fn find(&self, name: Option<&str>) -> Result<ChosenModel, ChoiceError> {
        let name = name.map(str::trim).filter(|name| !name.is_empty());
        let name = name.or(self.default_model.as_deref()).ok_or(ChoiceError::NoModel)?;
        if let Some((prefix, model)) = name.split_once('/').filter(|(_, model)| !model.is_empty()) {
            if let Some(provider) = self.providers.get(prefix) {
                return Ok(chosen(prefix, provider, model));
            }
            if KNOWN.iter().any(|known| known.name == prefix && known.needs_key) || prefix == AZURE {
                return Err(ChoiceError::NoKey { provider: prefix.to_owned() });
            }
        }
        let known = KNOWN.iter().find(|known| known.models.iter().any(|begin| name.starts_with(begin)));
        if let Some((known, provider)) = known.and_then(|known| Some((known, self.providers.get(known.name)?))) {
            return Ok(chosen(known.name, provider, name));
        }
        let mut all = self.providers.iter();
        match (all.next(), all.next()) {
            (Some((only, provider)), None) => Ok(chosen(only, provider, name)),
            _ => Err(ChoiceError::NoProvider {
                model: name.to_owned(),
                providers: self.providers.keys().cloned().collect(),
            }),
        }
    }
}

fn chosen(name: &str, provider: &Arc<dyn ModelProvider>, model: &str) -> ChosenModel {
    ChosenModel { provider: Arc::clone(provider), provider_name: name.to_owned(), model: model.to_owned() }
}

/// The client of a provider; `None` if it is one that Coracle knows, and it lacks the key.
fn build(name: &str, settings: &ProviderSettings) -> Result<Option<Arc<dyn ModelProvider>>, SettingsError> {
    if name == AZURE || settings.api_version.is_some() {
        return azure(settings);
    }
    let known = KNOWN.iter().find(|known| known.name == name);
    let is_elsewhere = settings.url.as_deref().is_some_and(|url| known.is_none_or(|known| !url.starts_with(known.url)));
    if known.is_some_and(|known| known.needs_key && !is_elsewhere) && settings.api_key.is_none() {
        return Ok(None);
    }
    let url = settings.url.clone().or_else(|| known.map(|known| known.url.to_owned())).ok_or(SettingsError::Address)?;
    // Servers that imitate OpenAI's have Chat Completions, and rarely Responses.
    let own = known.map(|known| known.api).filter(|api| *api != Api::Responses || !is_elsewhere);
    let api = settings.api.or(own).unwrap_or(Api::Chat);
    let mut endpoint = EndpointSettings { url, api_key: settings.api_key.clone(), ..EndpointSettings::default() };
    if api == Api::Messages {
        endpoint.key_header = KeyHeader::XApiKey;
        endpoint.headers.push(("anthropic-version", ANTHROPIC_VERSION.to_owned()));
    }
    let endpoint = Endpoint::new(&endpoint)?;
    let dialect = if name == "openai" && !is_elsewhere { Dialect::OpenAi } else { Dialect::Compatible };
    Ok(Some(match api {
        Api::Chat => Arc::new(ChatCompletions::new(endpoint, dialect)),
        Api::Responses => Arc::new(Responses::new(endpoint)),
        Api::Messages => Arc::new(Messages::new(endpoint)),
    }))
}

/// Azure: without a version of its API by the address that works like OpenAI's, else by the path of deployments.
fn azure(settings: &ProviderSettings) -> Result<Option<Arc<dyn ModelProvider>>, SettingsError> {
    let Some(url) = &settings.url else { return Ok(None) };
    let base = url.trim().trim_end_matches('/').trim_end_matches("/openai/v1").trim_end_matches("/openai").to_owned();
    let mut endpoint = EndpointSettings {
        key_header: KeyHeader::ApiKey,
        api_key: settings.api_key.clone(),
        ..EndpointSettings::default()
    };
    let Some(version) = &settings.api_version else {
        endpoint.url = format!("{base}/openai/v1");
        let endpoint = Endpoint::new(&endpoint)?;
        return Ok(Some(match settings.api {
            Some(Api::Responses) => Arc::new(Responses::new(endpoint)),
            _ => Arc::new(ChatCompletions::new(endpoint, Dialect::OpenAi)),
        }));
    };
    endpoint.url = format!("{base}/openai");
    endpoint.query.push(("api-version".to_owned(), version.clone()));
    Ok(Some(Arc::new(ChatCompletions::new(Endpoint::new(&endpoint)?, Dialect::AzureDeployments))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(settings: &[(&str, ProviderSettings)], default_model: Option<&str>) -> Directory {
        let settings = settings.iter().map(|(name, settings)| ((*name).to_owned(), settings.clone())).collect();
        Directory::new(&settings, default_model.map(str::to_owned)).unwrap()
    }

    fn with_key() -> ProviderSettings {
        ProviderSettings { api_key: Some(Secret::new("canary")), ..ProviderSettings::default() }
    }

    fn at(url: &str) -> ProviderSettings {
        ProviderSettings { url: Some(url.to_owned()), ..ProviderSettings::default() }
    }

    fn found(directory: &Directory, name: &str) -> (String, String, String) {
        let found = directory.find(Some(name)).unwrap();
        (found.provider_name, found.model, found.provider.identity().to_owned())
    }

    #[test]
    fn a_prefix_names_the_provider() {
        let all =
            directory(&[("openai", with_key()), ("anthropic", with_key()), ("lab", at("http://lab:8000/v1"))], None);
        let expected =
            |provider: &str, model: &str, identity: &str| (provider.to_owned(), model.to_owned(), identity.to_owned());
        let openai = expected("openai", "gpt-5", "responses https://api.openai.com/v1");
        assert_eq!(found(&all, "openai/gpt-5"), openai);
        assert_eq!(found(&all, "gpt-5"), openai);
        let claude = expected("anthropic", "claude-sonnet", "messages https://api.anthropic.com/v1");
        assert_eq!(found(&all, "claude-sonnet"), claude);
        assert_eq!(found(&all, "lab/org/model"), expected("lab", "org/model", "chat http://lab:8000/v1"));
    }

    #[test]
    fn an_obvious_provider_need_not_be_named() {
        let only = directory(&[("lab", at("http://lab:8000/v1"))], Some("qwen"));
        assert_eq!(only.find(None).unwrap().name(), "lab/qwen");
        assert_eq!(only.find(Some("org/model")).unwrap().name(), "lab/org/model");
    }

    #[test]
    fn what_is_missing_is_named() {
        let none = directory(&[("openai", ProviderSettings::default())], None);
        assert!(none.providers().is_empty());
        assert_eq!(none.find(None).unwrap_err(), ChoiceError::NoModel);
        let error = none.find(Some("openai/gpt-5")).unwrap_err();
        assert_eq!(error, ChoiceError::NoKey { provider: "openai".to_owned() });
        assert!(error.hint().contains("OPENAI_API_KEY"));
        let two = directory(&[("one", at("http://one/v1")), ("two", at("http://two/v1"))], None);
        assert!(two.find(Some("qwen")).unwrap_err().hint().contains("one, two"));
    }

    #[test]
    fn azure_has_two_addresses() {
        let v1 = ProviderSettings { url: Some("https://r.openai.azure.com/".to_owned()), ..with_key() };
        let old = ProviderSettings { api_version: Some("2024-10-21".to_owned()), ..v1.clone() };
        let address = |settings| found(&directory(&[("azure", settings)], None), "azure/mine").2;
        assert_eq!(address(v1), "chat https://r.openai.azure.com/openai/v1");
        assert_eq!(address(old), "chat https://r.openai.azure.com/openai");
    }

    #[test]
    fn an_imitation_of_openai_is_asked_for_chat_completions() {
        let elsewhere = directory(&[("openai", at("http://gateway/v1"))], None);
        assert_eq!(found(&elsewhere, "gpt-5").2, "chat http://gateway/v1");
    }

    #[test]
    fn another_key_is_used_for_known_and_configured_providers_only() {
        let operators = directory(&[("lab", at("http://lab:8000/v1"))], Some("lab/x"));
        let key = |name: &str| BTreeMap::from([(name.to_owned(), Secret::new("canary"))]);
        assert_eq!(operators.find(Some("gpt-5")).unwrap().name(), "lab/gpt-5", "the only provider");
        let own = operators.with_keys(&key("openai")).unwrap();
        assert_eq!(found(&own, "gpt-5").2, "responses https://api.openai.com/v1");
        assert_eq!(own.find(None).unwrap().name(), "lab/x");
        let own = operators.with_keys(&key("lab")).unwrap();
        assert!(!Arc::ptr_eq(&own.providers()["lab"], &operators.providers()["lab"]));
        for unknown in ["ollama", "elsewhere"] {
            assert!(!operators.keyed().contains(unknown), "{unknown}");
            assert_eq!(operators.with_keys(&key(unknown)).unwrap().providers().len(), 1, "{unknown}");
        }
        let invalid = BTreeMap::from([("openai".to_owned(), Secret::new("two\nlines"))]);
        assert_eq!(operators.with_keys(&invalid).unwrap_err().error, SettingsError::Key);
        assert!(operators.keyed().contains("lab") && operators.keyed().contains("anthropic"));
        assert!(!format!("{own:?}").contains("canary"));
    }

    #[test]
    fn nothing_shows_a_key() {
        let all = directory(&[("openai", with_key()), ("anthropic", with_key()), ("mistral", with_key())], None);
        assert!(!format!("{all:?}").contains("canary"));
    }
}
