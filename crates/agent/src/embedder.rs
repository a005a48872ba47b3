//! Embeddings over the API of OpenAI, which many servers implement, or of Azure.

use async_trait::async_trait;
use coracle_engine::{EmbedError, Embedder};
use coracle_types::Secret;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Client, Response, Url};
use serde::{Deserialize, Serialize};
use std::error::Error;
use std::fmt;
use std::time::Duration;
use tokio::sync::OnceCell;

/// Maximum time to connect, and to get one answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const TIMEOUT: Duration = Duration::from_secs(30);

/// The number of texts per request.
const BATCH: usize = 64;

/// The maximum size of an answer, enough for a batch of the longest vectors in use.
const MAX_ANSWER: usize = 32 << 20;

/// The version of Azure's API if none is configured.
const AZURE_VERSION: &str = "2024-10-21";
/// The domains of Azure's hosts.
const AZURE_HOSTS: [&str; 3] = [".openai.azure.com", ".cognitiveservices.azure.com", ".services.ai.azure.com"];

/// The settings of a remote embedder.
#[derive(Clone, Debug, Default)]
pub struct EmbedderSettings {
    /// The URL, with or without `/embeddings` at the end, or the endpoint of an Azure resource.
    pub url: String,
    /// The model, or the deployment on Azure.
    pub model: String,
    /// The API key, if the server requires one.
    pub api_key: Option<Secret>,
    /// The version of Azure's API. If it is set, the URL is one of Azure's.
    pub api_version: Option<String>,
    /// The length of the vectors.
    pub dimensions: Option<usize>,
}

/// Invalid settings. The error contains none of their values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EmbedderError {
    /// The URL is not valid.
    #[error("`url` is not an http or https URL")]
    Address,
    /// The URL contains a credential, which would appear wherever the URL is printed.
    #[error("`url` contains a user or a password: put the key into `api_key`")]
    UserInAddress,
    /// The model is missing.
    #[error("`model` is not set")]
    NoModel,
    /// The API key cannot be sent in a header.
    #[error("`api_key` has characters that cannot be sent in a header")]
    Key,
}

/// An embedder behind an HTTP API.
pub struct RemoteEmbedder {
    address: Url,
    key: Option<(HeaderName, HeaderValue)>,
    /// The model in the request body. Azure has it in the URL instead.
    model: Option<String>,
    identity: String,
    dimensions: Option<usize>,
    /// The HTTP client. Created on first use, because that reads the system's certificates.
    client: OnceCell<Client>,
}

impl RemoteEmbedder {
    /// Creates the embedder. Does not send anything yet.
    pub fn new(settings: &EmbedderSettings) -> Result<Self, EmbedderError> {
        let mut address = Url::parse(settings.url.trim()).map_err(|_| EmbedderError::Address)?;
        if !matches!(address.scheme(), "http" | "https") || !address.has_host() {
            return Err(EmbedderError::Address);
        }
        if !address.username().is_empty() || address.password().is_some() {
            return Err(EmbedderError::UserInAddress);
        }
        let model = settings.model.trim();
        if model.is_empty() {
            return Err(EmbedderError::NoModel);
        }
        let is_azure = is_azure(&address, settings);
        let is_whole = address.path().trim_end_matches('/').ends_with("/embeddings");
        {
            let mut path = address.path_segments_mut().map_err(|()| EmbedderError::Address)?;
            path.pop_if_empty();
            match (is_whole, is_azure) {
                (true, _) => {}
                (false, true) => drop(path.extend(["openai", "deployments", model, "embeddings"])),
                (false, false) => drop(path.push("embeddings")),
            }
        }
        if is_azure && !address.query_pairs().any(|(name, _)| name == "api-version") {
            let version = settings.api_version.as_deref().unwrap_or(AZURE_VERSION);
            address.query_pairs_mut().append_pair("api-version", version);
        }
        address.set_fragment(None);
        let key = settings.api_key.as_ref().map(|key| header(key, is_azure)).transpose()?;
        let mut plain = address.clone();
        plain.set_query(None);
        let length = settings.dimensions.map(|length| format!(" {length}")).unwrap_or_default();
        Ok(Self {
            identity: format!("{plain} {model}{length}"),
            address,
            key,
            model: (!is_azure).then(|| model.to_owned()),
            dimensions: settings.dimensions,
            client: OnceCell::new(),
        })
    }

    async fn batch(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let body = Asked { input: texts, model: self.model.as_deref(), dimensions: self.dimensions };
        let body = serde_json::to_vec(&body).map_err(|error| useless(&error.to_string()))?;
        let client = self.client.get_or_try_init(|| async { client() }).await.map_err(silent)?;
        let mut request = client.post(self.address.clone()).header(CONTENT_TYPE, "application/json").body(body);
        if let Some((name, value)) = &self.key {
            request = request.header(name, value);
        }
        let response = request.send().await.map_err(silent)?;
        // The body of an error response may contain a part of the key.
        if !response.status().is_success() {
            return Err(EmbedError::Refused(format!("HTTP {}", response.status().as_u16())));
        }
        let answer = read(response).await?;
        let answer: Answer = serde_json::from_slice(&answer).map_err(|_| useless("no embeddings in it"))?;
        self.checked(answer, texts.len())
    }

    fn checked(&self, answer: Answer, count: usize) -> Result<Vec<Vec<f32>>, EmbedError> {
        if answer.data.len() != count {
            return Err(useless(&format!("{} vectors for {count} texts", answer.data.len())));
        }
        let mut vectors = vec![Vec::new(); count];
        for (place, one) in answer.data.into_iter().enumerate() {
            let vector = vectors.get_mut(one.index.unwrap_or(place)).filter(|vector| vector.is_empty());
            *vector.ok_or_else(|| useless("vectors that belong to no text"))? = one.embedding;
        }
        let length = self.dimensions.or_else(|| vectors.first().map(Vec::len)).unwrap_or_default();
        if length == 0 || vectors.iter().any(|vector| vector.len() != length) {
            return Err(useless("vectors of another length"));
        }
        if !vectors.iter().flatten().all(|number| number.is_finite()) {
            return Err(useless("vectors with elements that are not numbers"));
        }
        Ok(vectors)
    }
}

/// Omits the key and the URL's query, which may hold credentials.
impl fmt::Debug for RemoteEmbedder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteEmbedder").field("identity", &self.identity).finish_non_exhaustive()
    }
}

#[async_trait]
impl Embedder for RemoteEmbedder {
    fn identity(&self) -> String {
        self.identity.clone()
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let mut vectors: Vec<Vec<f32>> = Vec::with_capacity(texts.len());
        for batch in texts.chunks(BATCH) {
            let more = self.batch(batch).await?;
            if vectors.first().map(Vec::len).is_some_and(|length| more.iter().any(|vector| vector.len() != length)) {
                return Err(useless("vectors of another length"));
            }
            vectors.extend(more);
        }
        Ok(vectors)
    }
}

#[derive(Serialize)]
struct Asked<'a> {
    input: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dimensions: Option<usize>,
}

#[derive(Deserialize)]
struct Answer {
    data: Vec<One>,
}

#[derive(Deserialize)]
struct One {
    index: Option<usize>,
    embedding: Vec<f32>,
}

/// Azure's newer URLs, which end in `v1`, work like OpenAI's.
fn is_azure(address: &Url, settings: &EmbedderSettings) -> bool {
    let host = address.host_str().unwrap_or_default();
    let is_plain = address.path().trim_end_matches('/').ends_with("/v1");
    settings.api_version.is_some() || (AZURE_HOSTS.iter().any(|end| host.ends_with(end)) && !is_plain)
}

fn header(key: &Secret, is_azure: bool) -> Result<(HeaderName, HeaderValue), EmbedderError> {
    let key = key.expose().trim();
    let (name, text) = if is_azure {
        (HeaderName::from_static("api-key"), key.to_owned())
    } else {
        (AUTHORIZATION, format!("Bearer {key}"))
    };
    let mut value = HeaderValue::from_str(&text).map_err(|_| EmbedderError::Key)?;
    value.set_sensitive(true);
    Ok((name, value))
}

fn client() -> Result<Client, reqwest::Error> {
    // An error means that the program has already installed a provider.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .timeout(TIMEOUT)
        .redirect(Policy::none())
        .user_agent(concat!("coracle/", env!("CARGO_PKG_VERSION")))
        .build()
}

async fn read(mut response: Response) -> Result<Vec<u8>, EmbedError> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(silent)? {
        if body.len() + chunk.len() > MAX_ANSWER {
            return Err(useless(&format!("more than {MAX_ANSWER} bytes")));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// The error with its causes, without the address.
fn silent(error: reqwest::Error) -> EmbedError {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    EmbedError::Silent(text)
}

fn useless(reason: &str) -> EmbedError {
    EmbedError::Useless(reason.to_owned())
}
