//! Sends requests to a provider: address, key, repetition and errors. Knows no wire format.

use crate::error::{ModelError, SettingsError, causes};
use crate::events::Events;
use bytes::Bytes;
use coracle_types::Secret;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::redirect::Policy;
use reqwest::{Client, Method, Response, StatusCode, Url};
use serde_json::Value;
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;
use tokio::sync::OnceCell;

/// Maximum time to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum time until the server begins to answer. A local server may have to load the model first.
const FIRST_BYTE_TIMEOUT: Duration = Duration::from_mins(5);
/// Maximum time for a list of models.
const LIST_TIMEOUT: Duration = Duration::from_secs(15);

/// Maximum size of the body of an error.
const MAX_ERROR_BYTES: usize = 64 << 10;
/// Maximum size of an answer that is not a stream.
pub(crate) const MAX_BODY_BYTES: usize = 16 << 20;
/// Maximum length of a message of the server in an error, in characters.
const MAX_MESSAGE_CHARS: usize = 600;

/// Number of times that a request is sent.
const ATTEMPTS: u32 = 4;
/// Wait before the first repetition. Doubles each time.
const FIRST_WAIT: Duration = Duration::from_millis(500);
/// Longest wait that a server may ask for. If it asks for more, the request fails at once.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// The settings of an endpoint.
#[derive(Clone, Debug, Default)]
pub struct EndpointSettings {
    /// The base URL, for example `https://api.openai.com/v1`.
    pub url: String,
    /// The API key, if the server requires one.
    pub api_key: Option<Secret>,
    /// The header that carries the key.
    pub key_header: KeyHeader,
    /// Parameters of every request.
    pub query: Vec<(String, String)>,
    /// Headers of every request.
    pub headers: Vec<(&'static str, String)>,
    /// Wait before the first repetition of a request. Defaults to half a second.
    pub first_wait: Option<Duration>,
}

/// The header that carries an API key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyHeader {
    /// `Authorization: Bearer …`.
    #[default]
    Bearer,
    /// `api-key`, which Azure uses.
    ApiKey,
    /// `x-api-key`, which Anthropic uses.
    XApiKey,
}

/// A server with models.
pub struct Endpoint {
    base: Url,
    /// Host and port, for errors.
    name: String,
    key: Option<Secret>,
    headers: HeaderMap,
    first_wait: Duration,
    /// The HTTP client. Created on first use, because that reads the system's certificates.
    client: OnceCell<Client>,
}

/// The body of an answer.
pub(crate) enum Body {
    /// A stream of events.
    Events(Events),
    /// One JSON value, from a server that does not stream.
    Json(Value),
}

impl Endpoint {
    /// Creates the endpoint. Does not send anything yet.
    pub fn new(settings: &EndpointSettings) -> Result<Self, SettingsError> {
        let mut base = Url::parse(settings.url.trim()).map_err(|_| SettingsError::Address)?;
        if !matches!(base.scheme(), "http" | "https") || base.cannot_be_a_base() {
            return Err(SettingsError::Address);
        }
        if !base.username().is_empty() || base.password().is_some() {
            return Err(SettingsError::UserInAddress);
        }
        let host = base.host_str().ok_or(SettingsError::Address)?;
        let name = base.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        base.set_fragment(None);
        for (key, value) in &settings.query {
            base.query_pairs_mut().append_pair(key, value);
        }
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        for (name, value) in &settings.headers {
            let value = HeaderValue::from_str(value).map_err(|_| SettingsError::Key)?;
            headers.insert(HeaderName::from_static(name), value);
        }
        let key = settings
            .api_key
            .as_ref()
            .map(|key| Secret::new(key.expose().trim()))
            .filter(|key| !key.expose().is_empty());
        if let Some(key) = &key {
            let (header, text) = match settings.key_header {
                KeyHeader::Bearer => (AUTHORIZATION, format!("Bearer {}", key.expose())),
                KeyHeader::ApiKey => (HeaderName::from_static("api-key"), key.expose().to_owned()),
                KeyHeader::XApiKey => (HeaderName::from_static("x-api-key"), key.expose().to_owned()),
            };
            let mut value = HeaderValue::from_str(&text).map_err(|_| SettingsError::Key)?;
            value.set_sensitive(true);
            headers.insert(header, value);
        }
        let first_wait = settings.first_wait.unwrap_or(FIRST_WAIT);
        Ok(Self { base, name, key, headers, first_wait, client: OnceCell::new() })
    }

    /// Host and port.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Scheme, host, port and path, which identify the provider.
    pub(crate) fn address(&self) -> String {
        let mut address = self.base.clone();
        address.set_query(None);
        address.to_string()
    }

    /// Sends a request until the server begins to answer. The body is JSON.
    pub(crate) async fn post(&self, path: &str, body: &(impl fmt::Display + Sync)) -> Result<Body, ModelError> {
        let body = Bytes::from(body.to_string());
        let mut wait = self.first_wait;
        for attempt in 1.. {
            let (error, asked) = match self.send(Method::POST, path, body.clone(), FIRST_BYTE_TIMEOUT).await {
                Ok(response) if response.status().is_success() => return self.body(response).await,
                Ok(response) => {
                    let asked = retry_after(response.headers());
                    let is_temporary = is_temporary(response.status());
                    let (error, is_used_up) = self.refusal(response).await;
                    if !is_temporary || is_used_up || asked.is_some_and(|asked| asked > LONGEST_WAIT) {
                        return Err(error);
                    }
                    (error, asked)
                }
                Err(error) => (error, None),
            };
            if attempt >= ATTEMPTS {
                return Err(error);
            }
            tracing::debug!(%error, attempt, "repeating a request to a model");
            let jitter = wait.mul_f64(fastrand::f64() / 2.0);
            tokio::time::sleep(asked.unwrap_or(wait) + jitter).await;
            wait *= 2;
        }
        unreachable!("the last attempt returns")
    }

    /// Fetches a JSON value. The path may have a query.
    pub(crate) async fn get(&self, path: &str) -> Result<Value, ModelError> {
        self.get_at_most(path, MAX_BODY_BYTES).await
    }

    /// Fetches a JSON value of at most `most` bytes.
    pub(crate) async fn get_at_most(&self, path: &str, most: usize) -> Result<Value, ModelError> {
        let response = self.send(Method::GET, path, Bytes::new(), LIST_TIMEOUT).await?;
        if !response.status().is_success() {
            return Err(self.refusal(response).await.0);
        }
        let body = tokio::time::timeout(LIST_TIMEOUT, read(response, most)).await;
        let body = body.map_err(|_| self.unreachable("no answer in time"))?.map_err(|reason| self.malformed(reason))?;
        serde_json::from_slice(&body).map_err(|_| self.malformed("not JSON"))
    }

    async fn send(&self, method: Method, path: &str, body: Bytes, limit: Duration) -> Result<Response, ModelError> {
        let client = self.client.get_or_try_init(|| async { client(is_loopback(&self.base)) }).await;
        let client = client.map_err(|error| self.unreachable(causes(error)))?;
        let mut url = self.base.clone();
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        if !query.is_empty() {
            let query = url.query().map_or_else(|| query.to_owned(), |base| format!("{base}&{query}"));
            url.set_query(Some(&query));
        }
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path.split('/'));
        }
        let request = client.request(method, url).headers(self.headers.clone()).body(body);
        match tokio::time::timeout(limit, request.send()).await {
            Ok(sent) => sent.map_err(|error| self.unreachable(causes(error))),
            Err(_) => Err(self.unreachable(format!("no answer within {} seconds", limit.as_secs()))),
        }
    }

    async fn body(&self, response: Response) -> Result<Body, ModelError> {
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if !kind.trim_start().starts_with("application/json") {
            return Ok(Body::Events(Events::new(response, self.name.clone())));
        }
        let body = tokio::time::timeout(FIRST_BYTE_TIMEOUT, read(response, MAX_BODY_BYTES)).await;
        let body = body.map_err(|_| self.unreachable("no answer in time"))?.map_err(|reason| self.malformed(reason))?;
        serde_json::from_slice(&body).map(Body::Json).map_err(|_| self.malformed("not JSON"))
    }

    /// The error that a response with an error status means, and whether a quota is used up,
    /// so that waiting a little does not help.
    async fn refusal(&self, response: Response) -> (ModelError, bool) {
        let status = response.status();
        let asked = retry_after(response.headers());
        let body = tokio::time::timeout(LIST_TIMEOUT, read(response, MAX_ERROR_BYTES)).await;
        let body = body.ok().and_then(Result::ok).unwrap_or_default();
        let error = serde_json::from_slice::<Value>(&body).unwrap_or_default();
        let error = Reported::find(&error).unwrap_or_default();
        // Some servers call any rate limit a quota, but say how long to wait.
        let is_used_up = error.has_kind(&["insufficient_quota"]) || asked.is_none() && error.message.contains("quota");
        (self.classified(Some(status), &error, asked), is_used_up)
    }

    /// The error that an error object of the server means, also within a stream.
    pub(crate) fn reported(&self, value: &Value) -> ModelError {
        let error = Reported::find(value).unwrap_or_default();
        self.classified(None, &error, None)
    }

    fn classified(&self, status: Option<StatusCode>, error: &Reported, retry_after: Option<Duration>) -> ModelError {
        let provider = self.name.clone();
        let number = status.map_or(0, |status| status.as_u16());
        // What a server says about a key may contain part of it.
        if matches!(number, 401 | 403) {
            return ModelError::Unauthorized { provider, status: number };
        }
        let message = match (self.clean(&error.message), status) {
            (message, _) if !message.is_empty() => message,
            (_, Some(status)) => format!("HTTP {}", status.as_u16()),
            (_, None) => "no reason given".to_owned(),
        };
        if error.is_context_full() {
            return ModelError::ContextFull { message };
        }
        if number == 429 || error.is_rate_limit() {
            return ModelError::RateLimited { provider, message, retry_after };
        }
        match status {
            Some(status) if status.is_client_error() || status.is_redirection() => {
                ModelError::Rejected { provider, status: number, message }
            }
            _ => ModelError::Failed { provider, message },
        }
    }

    /// A message of the server, without the key, control characters and excess length.
    fn clean(&self, message: &str) -> String {
        let message = match &self.key {
            Some(key) => message.replace(key.expose(), "…"),
            None => message.to_owned(),
        };
        let message: String =
            message.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_MESSAGE_CHARS).collect();
        message.trim().to_owned()
    }

    pub(crate) fn malformed(&self, reason: impl Into<String>) -> ModelError {
        ModelError::Malformed { provider: self.name.clone(), reason: reason.into() }
    }

    pub(crate) fn interrupted(&self, reason: impl Into<String>) -> ModelError {
        ModelError::Interrupted { provider: self.name.clone(), reason: reason.into() }
    }

    fn unreachable(&self, reason: impl Into<String>) -> ModelError {
        ModelError::Unreachable { provider: self.name.clone(), reason: reason.into() }
    }
}

/// Omits the key and the URL's query, which may hold credentials.
impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("address", &self.address()).finish_non_exhaustive()
    }
}

/// An error object of a server.
#[derive(Debug, Default)]
struct Reported {
    message: String,
    /// Its code and type.
    kinds: Vec<String>,
}

impl Reported {
    /// Finds the error in the forms that servers use: an object, a text, or a list with one of them.
    fn find(value: &Value) -> Option<Self> {
        let value = value.get(0).unwrap_or(value);
        let error = value.get("error").filter(|error| !error.is_null()).unwrap_or(value);
        if let Some(message) = error.as_str() {
            return Some(Self { message: message.to_owned(), kinds: Vec::new() });
        }
        let text = |name: &str| error.get(name).and_then(Value::as_str).map(str::to_owned);
        // Mistral and servers that use FastAPI send a list of what is wrong.
        let message =
            ["message", "detail"].into_iter().filter_map(|name| error.get(name)).find(|text| !text.is_null())?;
        let message = message.as_str().map_or_else(|| message.to_string(), str::to_owned);
        let kinds = ["code", "type", "status"].into_iter().filter_map(text).collect();
        Some(Self { message, kinds })
    }

    fn has_kind(&self, names: &[&str]) -> bool {
        self.kinds.iter().any(|kind| names.contains(&kind.as_str()))
    }

    fn is_context_full(&self) -> bool {
        const TEXTS: [&str; 6] = [
            "maximum context length",
            "prompt is too long",
            "exceeds the available context size",
            "exceeds the context window",
            "exceed context limit",
            "input token count exceeds",
        ];
        let message = self.message.to_lowercase();
        self.has_kind(&["context_length_exceeded", "exceed_context_size_error"])
            || TEXTS.iter().any(|text| message.contains(text))
    }

    fn is_rate_limit(&self) -> bool {
        self.has_kind(&["rate_limit_exceeded", "rate_limit_error", "insufficient_quota", "RESOURCE_EXHAUSTED"])
    }
}

fn is_temporary(status: StatusCode) -> bool {
    matches!(status.as_u16(), 408 | 429 | 500 | 502 | 503 | 504 | 529)
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<f64>().ok();
    let seconds = number("retry-after-ms").map(|ms| ms / 1000.0).or_else(|| number(RETRY_AFTER.as_str()))?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// Whether a server is on this machine. Proxies cannot reach it.
fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn client(is_local: bool) -> Result<Client, reqwest::Error> {
    // An error means that the program has already installed a provider.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .redirect(Policy::none())
        .user_agent(concat!("coracle/", env!("CARGO_PKG_VERSION")));
    if is_local { builder.no_proxy() } else { builder }.build()
}

/// Reads a body of at most `most` bytes.
async fn read(mut response: Response, most: usize) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(causes)? {
        if body.len() + chunk.len() > most {
            return Err(format!("more than {most} bytes"));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}
