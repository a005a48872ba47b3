//! OpenAI's Responses, which Azure and some other servers implement too.
//!
//! Nothing is stored at the provider: each request carries the whole conversation, with the model's reasoning in encrypted
//! form. The format has no stop texts, so [`ModelRequest::stop`] has no effect.

mod read;
mod write;

use crate::conversation::ModelRequest;
use crate::endpoint::{Body, Endpoint};
use crate::error::ModelError;
use crate::provider::{ModelAnswer, ModelEvent, ModelProvider};
use async_trait::async_trait;
use read::{Draft, Ended};
use serde_json::Value;
use tokio::sync::mpsc;

/// What OpenAI says of a model that does not reason, if it is asked for encrypted reasoning.
const NO_ENCRYPTED_REASONING: &str = "ncrypted content is not supported";

/// A server with OpenAI's Responses.
#[derive(Debug)]
pub struct Responses {
    endpoint: Endpoint,
    identity: String,
}

impl Responses {
    /// A client of the server at this endpoint.
    pub fn new(endpoint: Endpoint) -> Self {
        Self { identity: format!("responses {}", endpoint.address()), endpoint }
    }

    async fn read(&self, body: Body, events: &mpsc::Sender<ModelEvent>) -> Result<ModelAnswer, ModelError> {
        let mut draft = Draft::default();
        let mut stream = match body {
            Body::Events(stream) => stream,
            Body::Json(response) => {
                self.check(&response)?;
                draft.whole(&response)?;
                return self.finish(draft, events).await;
            }
        };
        while !draft.is_complete() {
            let Some(event) = stream.next().await? else { break };
            let data = event.data.unwrap_or_default();
            match data.trim() {
                "" => continue,
                "[DONE]" => break,
                _ => {}
            }
            let value: Value =
                serde_json::from_str(&data).map_err(|_| self.endpoint.malformed("an event is not JSON"))?;
            let kind = value.get("type").and_then(Value::as_str).or(event.event.as_deref()).unwrap_or_default();
            if kind == "error" {
                return Err(self.endpoint.reported(&value));
            }
            self.check(&value)?;
            if kind == "response.failed" {
                return Err(self.endpoint.reported(value.get("response").unwrap_or(&value)));
            }
            draft.add(kind, &value)?;
            send(draft.events(), events).await;
        }
        self.finish(draft, events).await
    }

    /// Fails if the server reports an error in place of an event or a response.
    fn check(&self, value: &Value) -> Result<(), ModelError> {
        match value.get("error") {
            None | Some(Value::Null) => Ok(()),
            Some(_) => Err(self.endpoint.reported(value)),
        }
    }

    async fn finish(&self, mut draft: Draft, events: &mpsc::Sender<ModelEvent>) -> Result<ModelAnswer, ModelError> {
        let ended = draft.finish(&self.identity)?;
        send(draft.events(), events).await;
        match ended {
            Ended::Whole(answer) => Ok(answer),
            Ended::Early => Err(self.endpoint.interrupted("the response was not completed")),
            Ended::NamelessCall => Err(self.endpoint.malformed("a tool call without a name")),
        }
    }
}

async fn send(new: Vec<ModelEvent>, events: &mpsc::Sender<ModelEvent>) {
    for event in new {
        // Nobody has to listen.
        let _ = events.send(event).await;
    }
}

#[async_trait]
impl ModelProvider for Responses {
    fn identity(&self) -> &str {
        &self.identity
    }

    async fn ask(&self, request: &ModelRequest, events: &mpsc::Sender<ModelEvent>) -> Result<ModelAnswer, ModelError> {
        let mut body = write::body(request, &self.identity);
        let answer = match self.endpoint.post("responses", &body).await {
            Err(ModelError::Rejected { message, .. }) if message.contains(NO_ENCRYPTED_REASONING) => {
                if let Some(fields) = body.as_object_mut() {
                    fields.remove("include");
                }
                self.endpoint.post("responses", &body).await?
            }
            answer => answer?,
        };
        self.read(answer, events).await
    }

    async fn models(&self) -> Result<Vec<String>, ModelError> {
        let list = self.endpoint.get("models").await?;
        Ok(crate::provider::model_names(&list))
    }
}
