//! Anthropic's Messages, which Claude speaks at Anthropic, and which gateways and several other vendors implement.

mod generation;
mod read;
mod write;

use crate::conversation::ModelRequest;
use crate::endpoint::{Body, Endpoint, EndpointSettings, KeyHeader};
use crate::error::ModelError;
use crate::provider::{ModelAnswer, ModelEvent, ModelProvider};
use async_trait::async_trait;
use coracle_types::Secret;
use read::Draft;
use serde_json::Value;
use tokio::sync::mpsc;

/// The version of the API. There is a later one (2026-10-21), but it only removes parameters, and other vendors and
/// gateways implement this one. A version stays as it is.
const VERSION: &str = "2023-06-01";
/// The list of models comes in pages of 20 unless the request asks for more.
const MODELS: &str = "models?limit=1000";

/// A server with Anthropic's Messages.
#[derive(Debug)]
pub struct Messages {
    endpoint: Endpoint,
    identity: String,
}

impl Messages {
    /// The settings of an endpoint for this format: the key's header and the version of the API.
    ///
    /// `url` is the base URL, for example `https://api.anthropic.com/v1`.
    pub fn settings(url: impl Into<String>, api_key: Option<Secret>) -> EndpointSettings {
        EndpointSettings {
            url: url.into(),
            api_key,
            key_header: KeyHeader::XApiKey,
            headers: vec![("anthropic-version", VERSION.to_owned())],
            ..EndpointSettings::default()
        }
    }

    /// A client of the server at this endpoint, whose settings come from [`Messages::settings`].
    pub fn new(endpoint: Endpoint) -> Self {
        Self { identity: format!("messages {}", endpoint.address()), endpoint }
    }

    async fn read(&self, body: Body, events: &mpsc::Sender<ModelEvent>) -> Result<ModelAnswer, ModelError> {
        let mut draft = Draft::new(&self.endpoint);
        let mut stream = match body {
            Body::Events(stream) => stream,
            Body::Json(value) => {
                draft.add_whole(&value, events).await?;
                return draft.finish(&self.identity, events).await;
            }
        };
        while !draft.is_complete() {
            let Some(data) = stream.next().await?.and_then(|event| event.data) else { break };
            let event: Value =
                serde_json::from_str(&data).map_err(|_| self.endpoint.malformed("an event is not JSON"))?;
            draft.add(&event, events).await?;
        }
        draft.finish(&self.identity, events).await
    }
}

#[async_trait]
impl ModelProvider for Messages {
    fn identity(&self) -> &str {
        &self.identity
    }

    async fn ask(&self, request: &ModelRequest, events: &mpsc::Sender<ModelEvent>) -> Result<ModelAnswer, ModelError> {
        let body =
            serde_json::to_string(&write::body(request, &self.identity)).map_err(|error| ModelError::Failed {
                provider: self.endpoint.name().to_owned(),
                message: format!("cannot write the request: {error}"),
            })?;
        let body = self.endpoint.post("messages", &body).await?;
        self.read(body, events).await
    }

    async fn models(&self) -> Result<Vec<String>, ModelError> {
        let list = self.endpoint.get(MODELS).await?;
        Ok(crate::provider::model_names(&list))
    }
}
