//! The transport of 2024: one stream of server-sent events for incoming messages, and one POST per outgoing message.
//!
//! The stream's first event contains the endpoint for messages. When the stream ends, the connection has ended: missed
//! messages cannot be recovered, so the only correct reaction is to reconnect.

use crate::connection_state::{ConnectionState, Fault};
use crate::http::{BodyError, HttpError, event_stream};
use crate::stdio::{MAX_MESSAGE, message};
use futures::stream::{BoxStream, StreamExt as _};
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, StatusCode};
use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::{AuthorizationManager, Transport};
use sse_stream::Sse as Event;
use std::sync::Arc;
use tokio::sync::Mutex;
use url::Url;

const ENDPOINT: &str = "endpoint";

/// Sends requests with the configured headers, and the sign-in if there is one.
#[derive(Clone)]
pub(crate) struct Caller {
    client: reqwest::Client,
    headers: HeaderMap,
    sign_in: Option<Arc<SignIn>>,
}

struct SignIn {
    manager: AuthorizationManager,
    /// Held while a token is refreshed: most servers accept a refresh token only once.
    turn: Mutex<()>,
}

impl Caller {
    pub(crate) fn new(client: reqwest::Client, headers: HeaderMap, manager: Option<AuthorizationManager>) -> Self {
        let sign_in = manager.map(|manager| Arc::new(SignIn { manager, turn: Mutex::default() }));
        Self { client, headers, sign_in }
    }

    /// Sends the request that `make` builds. If the server rejects the token, sends it once more with a new one.
    async fn send(
        &self,
        make: impl Fn(&reqwest::Client) -> reqwest::RequestBuilder,
    ) -> Result<reqwest::Response, HttpError> {
        let once = async |token: Option<&str>| {
            let request = make(&self.client).headers(self.headers.clone());
            let request = token.into_iter().fold(request, reqwest::RequestBuilder::bearer_auth);
            Ok::<_, HttpError>(request.send().await?)
        };
        let Some(sign_in) = &self.sign_in else { return once(None).await };
        let used = sign_in.manager.get_access_token().await.ok();
        let response = once(used.as_deref()).await?;
        if response.status() != StatusCode::UNAUTHORIZED {
            return Ok(response);
        }
        match sign_in.refreshed(used).await {
            Some(token) => once(Some(&token)).await,
            None => Ok(response),
        }
    }
}

impl SignIn {
    /// A token that differs from the one that was used.
    async fn refreshed(&self, used: Option<String>) -> Option<String> {
        let _turn = self.turn.lock().await;
        let current = self.manager.get_access_token().await.ok();
        if current.is_some() && current != used {
            return current;
        }
        if let Err(error) = self.manager.refresh_token().await {
            tracing::debug!(%error, "cannot refresh a sign-in");
            return None;
        }
        self.manager.get_access_token().await.ok()
    }
}

/// A connection over the older transport.
pub(crate) struct Sse {
    caller: Caller,
    endpoint: Url,
    events: BoxStream<'static, Result<Event, BodyError>>,
    state: Arc<ConnectionState>,
}

impl Sse {
    /// Opens the stream and waits for the endpoint.
    pub(crate) async fn connect(caller: Caller, url: Url, state: Arc<ConnectionState>) -> Result<Self, HttpError> {
        let response = caller.send(|client| client.get(url.clone()).header(ACCEPT, "text/event-stream")).await?;
        if !response.status().is_success() {
            return Err(HttpError::Status(response.status().as_u16()));
        }
        let mut events = event_stream(response.bytes_stream(), MAX_MESSAGE);
        while let Some(event) = events.next().await {
            let event = event?;
            if event.event.as_deref() == Some(ENDPOINT) {
                let endpoint = endpoint(&url, event.data.as_deref().unwrap_or_default())?;
                return Ok(Self { caller, endpoint, events, state });
            }
        }
        Err(HttpError::Endpoint("the stream ended before it announced the endpoint for messages".to_owned()))
    }
}

/// The endpoint for messages. It must have the same origin, because the headers are sent there.
fn endpoint(stream: &Url, text: &str) -> Result<Url, HttpError> {
    let endpoint = stream
        .join(text.trim())
        .map_err(|_| HttpError::Endpoint("the endpoint that it announces is not a valid URL".to_owned()))?;
    if endpoint.origin() != stream.origin() {
        return Err(HttpError::Endpoint("the endpoint that it announces has another origin".to_owned()));
    }
    Ok(endpoint)
}

impl Transport<RoleClient> for Sse {
    type Error = HttpError;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let (caller, endpoint) = (self.caller.clone(), self.endpoint.clone());
        async move {
            let body = serde_json::to_vec(&item).map_err(|error| HttpError::Body(error.to_string()))?;
            let body = bytes::Bytes::from(body);
            let post = |client: &reqwest::Client| {
                let request = client.post(endpoint.clone()).header(CONTENT_TYPE, "application/json");
                request.body(body.clone())
            };
            let response = caller.send(post).await?;
            match response.status() {
                status if status.is_success() => Ok(()),
                status => Err(HttpError::Status(status.as_u16())),
            }
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let fault = match self.events.next().await {
                Some(Ok(event)) => {
                    let is_message = event.event.as_deref().is_none_or(|kind| kind == "message");
                    let message = event
                        .data
                        .filter(|_| is_message)
                        .and_then(|data| serde_json::from_str(&data).ok())
                        .and_then(|value| message(value, &self.state));
                    if message.is_some() {
                        return message;
                    }
                    continue;
                }
                Some(Err(error @ BodyError::TooLarge(_))) => Fault::TooLarge(error.to_string()),
                Some(Err(error)) => Fault::Ended(error.to_string()),
                None => Fault::Ended("the event stream ended".to_owned()),
            };
            self.state.fail(fault);
            return None;
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.events = futures::stream::empty().boxed();
        Ok(())
    }
}

/// Whether a failure means that a sign-in is required.
pub(crate) fn wants_sign_in(error: &HttpError) -> bool {
    *error == HttpError::Status(StatusCode::UNAUTHORIZED.as_u16())
}

#[cfg(test)]
mod tests {
    use super::endpoint;
    use url::Url;

    #[test]
    fn messages_are_sent_to_the_same_origin_only() {
        let stream = Url::parse("https://host:8443/sse?key=1").unwrap();
        assert_eq!(endpoint(&stream, "/messages?id=7\n").unwrap().as_str(), "https://host:8443/messages?id=7");
        assert_eq!(endpoint(&stream, "messages").unwrap().as_str(), "https://host:8443/messages");
        for other in ["https://evil/messages", "//evil/x", "http://host:8443/x", "https://host/x", "file:///etc"] {
            assert!(endpoint(&stream, other).is_err(), "{other}");
        }
    }
}
