//! OpenAI's Chat Completions, which most servers implement: Azure, Ollama, vLLM, llama.cpp, LM Studio, OpenRouter,
//! Mistral, DeepSeek, Groq, and Gemini at its OpenAI address.

mod read;
mod write;

use crate::conversation::ModelRequest;
use crate::endpoint::{Body, Endpoint};
use crate::error::ModelError;
use crate::provider::{ModelAnswer, ModelEvent, ModelProvider};
use async_trait::async_trait;
use read::Draft;
use serde_json::Value;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Maximum time to wait for the usage after the answer is complete.
const USAGE_TIMEOUT: Duration = Duration::from_secs(10);

/// A server with OpenAI's Chat Completions.
#[derive(Debug)]
pub struct ChatCompletions {
    endpoint: Endpoint,
    identity: String,
    dialect: Dialect,
    usage_timeout: Duration,
}

/// Which optional fields a server understands. Some reject a request with a field that they do not know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// OpenAI and Azure.
    OpenAi,
    /// Azure with a version of its API: the model is a deployment, and in the path.
    AzureDeployments,
    /// Everyone else: only fields that have been part of the format from early on.
    #[default]
    Compatible,
}

impl ChatCompletions {
    /// A client of the server at this endpoint.
    pub fn new(endpoint: Endpoint, dialect: Dialect) -> Self {
        Self { identity: format!("chat {}", endpoint.address()), endpoint, dialect, usage_timeout: USAGE_TIMEOUT }
    }

    async fn read(&self, body: Body, events: &mpsc::Sender<ModelEvent>) -> Result<ModelAnswer, ModelError> {
        let mut draft = Draft::default();
        let mut stream = match body {
            Body::Events(stream) => stream,
            Body::Json(value) => {
                self.take(&mut draft, &value, events).await?;
                return draft.finish(&self.endpoint, &self.identity, events).await;
            }
        };
        let mut deadline = None;
        loop {
            let event = if draft.is_complete() {
                // Only the usage is missing, and not every server sends it or closes the connection.
                let deadline = *deadline.get_or_insert_with(|| Instant::now() + self.usage_timeout);
                stream.next_within(deadline.saturating_duration_since(Instant::now())).await.unwrap_or(None)
            } else {
                stream.next().await?
            };
            let Some(data) = event.and_then(|event| event.data) else { break };
            match data.trim() {
                "" => continue,
                "[DONE]" => {
                    draft.end();
                    break;
                }
                _ => {}
            }
            let chunk = serde_json::from_str(&data).map_err(|_| self.endpoint.malformed("an event is not JSON"))?;
            self.take(&mut draft, &chunk, events).await?;
        }
        draft.finish(&self.endpoint, &self.identity, events).await
    }

    async fn take(
        &self,
        draft: &mut Draft,
        chunk: &Value,
        events: &mpsc::Sender<ModelEvent>,
    ) -> Result<(), ModelError> {
        if chunk.get("error").is_some_and(|error| !error.is_null()) {
            return Err(self.endpoint.reported(chunk));
        }
        for event in draft.add(chunk)? {
            // Nobody has to listen.
            let _ = events.send(event).await;
        }
        Ok(())
    }
}

#[async_trait]
impl ModelProvider for ChatCompletions {
    fn identity(&self) -> &str {
        &self.identity
    }

    async fn ask(&self, request: &ModelRequest, events: &mpsc::Sender<ModelEvent>) -> Result<ModelAnswer, ModelError> {
        let path = match self.dialect {
            Dialect::AzureDeployments => &format!("deployments/{}/chat/completions", request.model),
            Dialect::OpenAi | Dialect::Compatible => "chat/completions",
        };
        let mut body = write::body(request, &self.identity, self.dialect);
        let answer = match self.endpoint.post(path, &body).await {
            // Not every server knows how to send the usage in a stream.
            Err(ModelError::Rejected { message, .. }) if message.contains(write::STREAM_OPTIONS) => {
                if let Some(fields) = body.as_object_mut() {
                    fields.remove(write::STREAM_OPTIONS);
                }
                self.endpoint.post(path, &body).await?
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

#[cfg(test)]
mod tests {
    use super::{ChatCompletions, Dialect};
    use crate::conversation::{Item, ModelRequest};
    use crate::endpoint::{Endpoint, EndpointSettings};
    use crate::provider::ModelProvider;
    use std::time::Duration;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::sync::mpsc;

    #[tokio::test]
    async fn a_complete_answer_does_not_wait_for_a_server_that_never_closes() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let server = tokio::spawn(async move {
            let (mut connection, _) = listener.accept().await.unwrap();
            assert!(connection.read(&mut [0; 4096]).await.unwrap() > 0);
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
            let chunk = r#"data: {"choices":[{"delta":{"content":"Yes."},"finish_reason":"stop"}]}"#;
            connection.write_all(format!("{head}{chunk}\n\n").as_bytes()).await.unwrap();
            // Events without data do not count as an answer.
            while connection.write_all(b"event: ping\n\n").await.is_ok() {
                tokio::task::yield_now().await;
            }
        });
        let endpoint = Endpoint::new(&EndpointSettings { url, ..EndpointSettings::default() }).unwrap();
        let mut provider = ChatCompletions::new(endpoint, Dialect::Compatible);
        provider.usage_timeout = Duration::from_millis(20);
        let (events, _receiver) = mpsc::channel(8);
        let answer = provider.ask(&ModelRequest::default(), &events).await.unwrap();
        assert_eq!(answer.items, [Item::Assistant { text: "Yes.".to_owned(), native: None }]);
        server.abort();
    }
}
