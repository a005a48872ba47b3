//! Questions of upstream servers during calls that are forwarded to them.

use super::super::client_requests::{ClientRequests, attribute};
use crate::mcp::Frontend;
use async_trait::async_trait;
use coracle_types::ServerName;
use coracle_upstream::{Question, QuestionKind, Refusal, Reverse};
use rmcp::ErrorData;
use serde_json::Value;
use std::sync::Arc;

/// Questions of an upstream server during a forwarded call.
pub(super) struct OfServer {
    pub(super) client: Arc<ClientRequests>,
    pub(super) server: ServerName,
    pub(super) frontend: Frontend,
}

#[async_trait]
impl Reverse for OfServer {
    async fn ask(&self, question: Question) -> Result<Value, Refusal> {
        let Question { kind, mut params } = question;
        if kind == QuestionKind::Elicitation {
            attribute(&self.server, &mut params).map_err(Refusal::invalid)?;
        }
        if kind != QuestionKind::Sampling {
            return self.client.put(kind.method(), params).await.map_err(Refusal::unsupported);
        }
        // A model answers: it sees tokens, and the server gets what they stand for.
        let withheld = |error: ErrorData| Refusal::invalid(error.message.into_owned());
        let params = self.frontend.for_model(Ok(params)).await.map_err(withheld)?;
        let answer = self.client.put(kind.method(), params).await.map_err(Refusal::unsupported)?;
        self.frontend.restored(answer).await.map_err(withheld)
    }
}
