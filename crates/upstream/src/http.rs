//! Streamable HTTP: the client that the MCP library's transport uses, with a limit on everything that is read.

mod body;
mod errors;

pub(crate) use body::{BodyError, event_stream};
pub(crate) use errors::HttpError;

use crate::connection_state::{ConnectionState, Fault};
use crate::login::Challenge;
use crate::stdio::MAX_MESSAGE;
use bytes::Bytes;
use coracle_types::Secret;
use futures::stream::{BoxStream, StreamExt as _};
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderName, HeaderValue, StatusCode};
use reqwest::{RequestBuilder, Response};
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorCode, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage,
};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, HttpStatusError, InsufficientScopeError, SseError, StreamableHttpClient, StreamableHttpError,
    StreamableHttpPostResponse,
};
use sse_stream::Sse;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Once};
use std::time::Duration;

/// Maximum time to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum number of redirects of one request, all within one origin.
const MAX_REDIRECTS: usize = 5;
/// The maximum size of the body of an error response.
const MAX_ERROR_BODY: usize = 64 * 1024;

/// The error number of an answer that was too large to be read.
pub(crate) const TOO_LARGE: ErrorCode = ErrorCode(-31_999);

const EVENTS: &str = "text/event-stream";
const JSON: &str = "application/json";
const SESSION: &str = "mcp-session-id";
const LAST_EVENT: &str = "last-event-id";

/// Headers that the transport sets itself.
const RESERVED: &[&str] = &["accept", SESSION, LAST_EVENT, "mcp-protocol-version", "content-length", "host"];

/// Creates a client for one server.
pub(crate) fn client() -> Result<reqwest::Client, HttpError> {
    static PROVIDER: Once = Once::new();
    PROVIDER.call_once(|| {
        // An error means that the program has already installed a provider.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
    reqwest::Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .redirect(within_origin())
        .user_agent(concat!("coracle/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(HttpError::from)
}

/// Headers may hold credentials, and a body must not get lost: only redirects that preserve both are followed.
fn within_origin() -> reqwest::redirect::Policy {
    reqwest::redirect::Policy::custom(|attempt| {
        let keeps_body = [StatusCode::TEMPORARY_REDIRECT, StatusCode::PERMANENT_REDIRECT].contains(&attempt.status());
        let from = attempt.previous().first();
        let same = from.is_some_and(|from| from.origin() == attempt.url().origin());
        if keeps_body && same && attempt.previous().len() <= MAX_REDIRECTS { attempt.follow() } else { attempt.stop() }
    })
}

/// The configured headers. Fails with the name of a header that cannot be sent.
pub(crate) fn headers(headers: &BTreeMap<String, Secret>) -> Result<HashMap<HeaderName, HeaderValue>, HttpError> {
    headers
        .iter()
        .map(|(name, value)| {
            let key = HeaderName::from_bytes(name.as_bytes()).ok();
            let key = key.filter(|key| !RESERVED.contains(&key.as_str()));
            let mut value = HeaderValue::from_str(value.expose()).ok();
            if let Some(value) = &mut value {
                value.set_sensitive(true);
            }
            key.zip(value).ok_or_else(|| HttpError::Header(name.clone()))
        })
        .collect()
}

/// The HTTP client that the library's transport calls.
#[derive(Clone)]
pub(crate) struct WebClient {
    client: reqwest::Client,
    state: Arc<ConnectionState>,
    challenge: Arc<Challenge>,
}

type Refusal = StreamableHttpError<HttpError>;

impl WebClient {
    pub(crate) fn new(client: reqwest::Client, state: Arc<ConnectionState>, challenge: Arc<Challenge>) -> Self {
        Self { client, state, challenge }
    }

    async fn sent(
        &self,
        request: RequestBuilder,
        session: Option<&str>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<Response, Refusal> {
        let mut request = request.header(ACCEPT, format!("{EVENTS}, {JSON}"));
        if let Some(session) = session {
            request = request.header(SESSION, session);
        }
        for (name, value) in headers {
            request = request.header(name, value);
        }
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        let response = request.send().await.map_err(|error| Refusal::Client(error.into()))?;
        let Some(refusal) = challenge(&response) else { return Ok(response) };
        if let Refusal::AuthRequired(AuthRequiredError { www_authenticate_header: asked, .. })
        | Refusal::InsufficientScope(InsufficientScopeError { www_authenticate_header: asked, .. }) = &refusal
        {
            self.challenge.note(asked);
        }
        Err(refusal)
    }

    async fn answer(
        &self,
        message: &ClientJsonRpcMessage,
        had_session: bool,
        response: Response,
    ) -> Result<StreamableHttpPostResponse, Refusal> {
        let status = response.status();
        let id = request_id(message);
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if status == StatusCode::NOT_FOUND && had_session {
            return Err(Refusal::SessionExpired);
        }
        if !status.is_success() {
            self.state.refused.store(status.as_u16(), Ordering::Relaxed);
            return Self::refused(message, status, response).await;
        }
        let session = header(&response, SESSION);
        let kind = header(&response, CONTENT_TYPE.as_str()).unwrap_or_default();
        if kind.starts_with(EVENTS) {
            let events = event_stream(response.bytes_stream(), MAX_MESSAGE);
            return Ok(StreamableHttpPostResponse::Sse(self.with_final_error(events, id), session));
        }
        let body = match body::read(response, MAX_MESSAGE).await {
            Ok(body) => body,
            Err(BodyError::TooLarge(limit)) if id.is_some() => {
                return Ok(StreamableHttpPostResponse::Json(too_large(limit, id), session));
            }
            Err(error) => return Err(Refusal::Client(error.into())),
        };
        match (id, kind.starts_with(JSON), serde_json::from_slice::<ServerJsonRpcMessage>(&body)) {
            // No response was expected.
            (None, ..) => Ok(StreamableHttpPostResponse::Accepted),
            (_, true, Ok(answer)) => {
                self.state.inspect(&body, None);
                Ok(StreamableHttpPostResponse::Json(answer, session))
            }
            (_, true, Err(_)) => Err(Refusal::UnexpectedServerResponse("the answer is not a JSON-RPC message".into())),
            (_, false, _) => Err(Refusal::UnexpectedContentType(Some(kind))),
        }
    }

    /// Handles an error response, which may still hold a message of the protocol.
    async fn refused(
        message: &ClientJsonRpcMessage,
        status: StatusCode,
        response: Response,
    ) -> Result<StreamableHttpPostResponse, Refusal> {
        let retry_after = header(&response, RETRY_AFTER.as_str());
        let body = body::read(response, MAX_ERROR_BODY).await.unwrap_or_default();
        let error = match serde_json::from_slice::<ServerJsonRpcMessage>(&body) {
            Ok(JsonRpcMessage::Error(error)) => Some(error),
            _ => None,
        };
        let id = request_id(message);
        // Servers from before 2026 refuse the probe in many ways, some with other IDs. `initialize` is tried next.
        if is_probe(message) && status.is_client_error() && status != StatusCode::TOO_MANY_REQUESTS {
            let unknown = || ErrorData::new(ErrorCode::INVALID_REQUEST, "the probe was refused", None);
            let error = error.map_or_else(unknown, |error| error.error);
            return Ok(StreamableHttpPostResponse::Json(JsonRpcMessage::error(error, id), None));
        }
        match error {
            Some(error) if id.is_some() => {
                Ok(StreamableHttpPostResponse::Json(JsonRpcMessage::error(error.error, error.id.or(id)), None))
            }
            _ => Err(HttpStatusError::new(status.as_u16(), retry_after).into()),
        }
    }

    /// If an event is too large, reports that to the request that waits for it, and ends the stream.
    fn with_final_error(
        &self,
        events: BoxStream<'static, Result<Sse, BodyError>>,
        id: Option<RequestId>,
    ) -> BoxStream<'static, Result<Sse, SseError>> {
        let state = Arc::clone(&self.state);
        events
            .map(move |event| match event {
                Ok(mut event) => {
                    // The ID stays, so that the stream can be resumed from there.
                    event.data = event.data.filter(|data| state.inspect(data.as_bytes(), id.as_ref()));
                    Ok(event)
                }
                Err(BodyError::TooLarge(limit)) if id.is_some() => {
                    let answer = too_large(limit, id.clone());
                    Ok(Sse::default().data(serde_json::to_string(&answer).unwrap_or_default()))
                }
                Err(error @ BodyError::TooLarge(_)) => {
                    state.fail(Fault::TooLarge(error.to_string()));
                    Err(SseError::Body(Box::new(error)))
                }
                Err(error) => Err(SseError::Body(Box::new(error))),
            })
            .boxed()
    }
}

impl StreamableHttpClient for WebClient {
    type Error = HttpError;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Refusal> {
        let body = serde_json::to_vec(&message)?;
        let request = self.client.post(uri.as_ref()).header(CONTENT_TYPE, JSON).body(Bytes::from(body));
        let response = self.sent(request, session_id.as_deref(), auth_header, custom_headers).await?;
        self.answer(&message, session_id.is_some(), response).await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Refusal> {
        self.sent(self.client.delete(uri.as_ref()), Some(&session_id), auth_header, custom_headers).await?;
        Ok(())
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Refusal> {
        let mut request = self.client.get(uri.as_ref());
        if let Some(last) = last_event_id {
            request = request.header(LAST_EVENT, last);
        }
        let response = self.sent(request, session_id.as_deref(), auth_header, custom_headers).await?;
        let status = response.status();
        if !status.is_success() {
            // Servers that do not offer such a stream respond in different ways.
            return Err(if status.is_client_error() {
                Refusal::ServerDoesNotSupportSse
            } else {
                HttpStatusError::new(status.as_u16(), None).into()
            });
        }
        let kind = header(&response, CONTENT_TYPE.as_str()).unwrap_or_default();
        if !kind.starts_with(EVENTS) {
            return Err(Refusal::UnexpectedContentType(Some(kind)));
        }
        Ok(self.with_final_error(event_stream(response.bytes_stream(), MAX_MESSAGE), None))
    }
}

/// Whether the response requires a sign-in.
fn challenge(response: &Response) -> Option<Refusal> {
    let asked = header(response, WWW_AUTHENTICATE.as_str());
    match response.status() {
        StatusCode::UNAUTHORIZED => {
            Some(Refusal::AuthRequired(AuthRequiredError::new(asked.unwrap_or_else(|| "Bearer".to_owned()))))
        }
        StatusCode::FORBIDDEN => {
            asked.map(|asked| Refusal::InsufficientScope(InsufficientScopeError::new(asked, None)))
        }
        _ => None,
    }
}

fn header(response: &Response, name: &str) -> Option<String> {
    response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

fn request_id(message: &ClientJsonRpcMessage) -> Option<RequestId> {
    match message {
        JsonRpcMessage::Request(request) => Some(request.id.clone()),
        _ => None,
    }
}

fn is_probe(message: &ClientJsonRpcMessage) -> bool {
    matches!(message, JsonRpcMessage::Request(request) if matches!(request.request, ClientRequest::DiscoverRequest(_)))
}

fn too_large(limit: usize, id: Option<RequestId>) -> ServerJsonRpcMessage {
    JsonRpcMessage::error(ErrorData::new(TOO_LARGE, BodyError::TooLarge(limit).to_string(), None), id)
}
