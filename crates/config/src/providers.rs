//! Model providers: known names, variables that other programs use, too, and the providers that can be used.

use crate::expand::{ExpandError, expand};
use crate::origin::Origin;
use crate::problem::Warning;
use crate::provider_names::AZURE;
use crate::settings::{Agent, Provider};
use coracle_types::Secret;
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// A model provider as its sources define it, before variables are expanded.
#[derive(Clone, Debug, Default)]
pub(crate) struct GatheredProvider {
    pub(crate) origin: Origin,
    pub(crate) fields: BTreeMap<&'static str, Field>,
}

/// The value of a key of a provider.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) value: Value,
    pub(crate) origin: Origin,
    /// Whether `${VAR}` in the value is plain text, because the value is already that of a variable.
    pub(crate) is_literal: bool,
}

/// The key with the address of [`AZURE`].
const AZURE_ENDPOINT: &str = "agent.azure_openai.endpoint";
/// The port of Ollama.
const OLLAMA_PORT: u16 = 11_434;

/// A key of a provider that other programs read from a variable, too.
#[derive(Debug)]
pub(crate) struct ProviderVariable {
    pub(crate) provider: &'static str,
    pub(crate) field: &'static str,
    /// The variables, strongest first.
    pub(crate) names: &'static [&'static str],
    pub(crate) form: Form,
}

/// The form of a variable's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// An API key.
    Key,
    /// A base URL.
    Url,
    /// A base URL without `/v1`.
    UrlBeforeV1,
    /// A host with an optional port, or a URL without `/v1`.
    Host,
}

/// Variables of providers. Azure's are those of the keys in `agent.azure_openai`.
pub(crate) const PROVIDER_VARIABLES: &[ProviderVariable] = &[
    api_key("openai", &["OPENAI_API_KEY"]),
    ProviderVariable { provider: "openai", field: "url", names: &["OPENAI_BASE_URL"], form: Form::Url },
    api_key("anthropic", &["ANTHROPIC_API_KEY"]),
    ProviderVariable { provider: "anthropic", field: "url", names: &["ANTHROPIC_BASE_URL"], form: Form::UrlBeforeV1 },
    api_key("gemini", &["GEMINI_API_KEY", "GOOGLE_API_KEY"]),
    api_key("mistral", &["MISTRAL_API_KEY"]),
    api_key("deepseek", &["DEEPSEEK_API_KEY"]),
    api_key("groq", &["GROQ_API_KEY"]),
    api_key("openrouter", &["OPENROUTER_API_KEY"]),
    ProviderVariable { provider: "ollama", field: "url", names: &["OLLAMA_HOST"], form: Form::Host },
];

const fn api_key(provider: &'static str, names: &'static [&'static str]) -> ProviderVariable {
    ProviderVariable { provider, field: "api_key", names, form: Form::Key }
}

impl Form {
    /// The value of the key for the text of a variable. `None` if the text has another form.
    pub(crate) fn read(self, text: &str) -> Option<String> {
        match self {
            Self::Key => Some(text.to_owned()),
            Self::Url => check_url(text).is_ok().then(|| text.to_owned()),
            Self::UrlBeforeV1 => check_url(text).is_ok().then(|| with_v1(text)),
            Self::Host => host_url(text).filter(|url| check_url(url).is_ok()),
        }
    }
}

fn with_v1(url: &str) -> String {
    let url = url.trim_end_matches('/');
    if url.ends_with("/v1") { url.to_owned() } else { format!("{url}/v1") }
}

/// The base URL for a value of `OLLAMA_HOST`, which is also the address that a server listens on.
fn host_url(text: &str) -> Option<String> {
    if text.contains("://") {
        return Some(with_v1(text));
    }
    let text = text.trim_end_matches('/');
    let (host, port) = match text.parse::<IpAddr>() {
        Ok(ip) => (ip.to_string(), OLLAMA_PORT),
        Err(_) => match text.rsplit_once(':').filter(|(_, port)| !port.ends_with(']')) {
            Some((host, port)) => (host.to_owned(), port.parse().ok()?),
            None => (text.to_owned(), OLLAMA_PORT),
        },
    };
    let host = match host.trim_start_matches('[').trim_end_matches(']') {
        // A server listens on all addresses; a client needs one of them.
        "" | "0.0.0.0" => "127.0.0.1".to_owned(),
        "::" => "[::1]".to_owned(),
        bare if bare.contains(':') => format!("[{bare}]"),
        bare => bare.to_owned(),
    };
    Some(format!("http://{host}:{port}/v1"))
}

/// Why a provider cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum Fault {
    #[error("`{field}` needs the variable {variable}, which is not set")]
    MissingVariable { field: &'static str, variable: String },
    #[error("`{field}` has an invalid `${{…}}`")]
    BadReference { field: &'static str },
    #[error("`{field}` is too long")]
    TooLong { field: &'static str },
    #[error("its `url` is not an address that begins with http:// or https://")]
    Url,
    #[error("its `url` contains a user name or a password; use `api_key` instead")]
    UserInUrl,
    #[error("its `api_key` has characters that cannot be sent")]
    Characters,
}

fn check_url(url: &str) -> Result<(), Fault> {
    let (scheme, rest) = url.split_once("://").ok_or(Fault::Url)?;
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let is_http = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
    if !is_http || authority.is_empty() || url.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(Fault::Url);
    }
    if authority.contains('@') { Err(Fault::UserInUrl) } else { Ok(()) }
}

/// The providers that can be used, with all variables expanded. There is a warning for each of the others.
pub(crate) fn resolve_all<'a>(
    gathered: &BTreeMap<String, GatheredProvider>,
    agent: &Agent,
    origins: &BTreeMap<String, Origin>,
    variable: &dyn Fn(&str) -> Option<&'a str>,
    warnings: &mut Vec<Warning>,
) -> BTreeMap<String, Provider> {
    let mut providers = BTreeMap::new();
    let mut add = |name: &str, origin: &Origin, resolved: Result<Provider, Fault>| match resolved {
        Ok(provider) => {
            providers.insert(name.to_owned(), provider);
        }
        Err(fault) => {
            let message = format!("the model provider `{name}` cannot be used: {fault}");
            warnings.push(Warning { origin: origin.clone(), message });
        }
    };
    for (name, gathered) in gathered {
        let Some(entry) = agent.providers.get(name) else { continue };
        let mut resolved = expanded(entry.clone(), gathered, variable);
        if name == AZURE {
            resolved = resolved.map(|entry| with_azure(entry, agent));
        }
        add(name, &gathered.origin, resolved.and_then(checked));
    }
    if agent.azure_openai.endpoint.is_some() && !gathered.contains_key(AZURE) {
        let origin = origins.get(AZURE_ENDPOINT).cloned().unwrap_or_default();
        add(AZURE, &origin, checked(with_azure(Provider::default(), agent)));
    }
    providers
}

fn expanded<'a>(
    mut provider: Provider,
    gathered: &GatheredProvider,
    variable: &dyn Fn(&str) -> Option<&'a str>,
) -> Result<Provider, Fault> {
    let filled = |field: &'static str, text: &str| {
        if gathered.fields.get(field).is_some_and(|field| field.is_literal) {
            return Ok(text.to_owned());
        }
        expand(text, variable).map_err(|error| match error {
            ExpandError::Missing(variable) => Fault::MissingVariable { field, variable },
            ExpandError::Malformed => Fault::BadReference { field },
            ExpandError::TooLong => Fault::TooLong { field },
        })
    };
    // An empty value, such as that of `${VAR:-}`, leaves the key unset.
    let text = |field, value: Option<&str>| -> Result<Option<String>, Fault> {
        let value = value.map(|value| filled(field, value)).transpose()?;
        Ok(value.map(|value| value.trim().to_owned()).filter(|value| !value.is_empty()))
    };
    provider.url = text("url", provider.url.as_ref().map(Secret::expose))?.map(Secret::new);
    provider.api_key = text("api_key", provider.api_key.as_ref().map(Secret::expose))?.map(Secret::new);
    provider.api_version = text("api_version", provider.api_version.as_deref())?;
    Ok(provider)
}

/// Uses `agent.azure_openai` for keys that the entry does not set.
fn with_azure(mut provider: Provider, agent: &Agent) -> Provider {
    let azure = &agent.azure_openai;
    provider.url = provider.url.or_else(|| azure.endpoint.as_deref().map(Secret::new));
    provider.api_key = provider.api_key.or_else(|| azure.api_key.clone());
    provider.api_version = provider.api_version.or_else(|| azure.api_version.clone());
    if provider.models.is_empty() {
        provider.models.extend(azure.deployment.clone());
    }
    provider
}

fn checked(provider: Provider) -> Result<Provider, Fault> {
    if let Some(url) = &provider.url {
        check_url(url.expose())?;
    }
    let has_control = |key: &Secret| key.expose().chars().any(char::is_control);
    if provider.api_key.as_ref().is_some_and(has_control) { Err(Fault::Characters) } else { Ok(provider) }
}
