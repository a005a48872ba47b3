//! Asking a client something while one of its calls is under way: whether a tool may be called, or what an upstream server
//! wants to know.
//!
//! In revisions with `initialize` that is a request of ours. In the stateless one the call is answered with what is asked,
//! and goes on when the client calls again with the answers (`run.rs`).

use async_trait::async_trait;
use coracle_policy::{Answer, Approver, Question};
use coracle_upstream::{Question as ReverseQuestion, QuestionKind, Refusal, Reverse};
use rmcp::model::{InputRequest, ProtocolVersion};
use rmcp::service::{Peer, RequestContext, RoleServer};
use serde_json::{Map, Value, json};
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::{mpsc, oneshot};

/// Questions that wait to be put.
const QUEUE: usize = 64;

/// One thing to be asked.
#[derive(Debug)]
pub(crate) struct Asked {
    /// Tells it from others of the same call.
    pub(crate) key: String,
    pub(crate) request: InputRequest,
    /// Gone when nobody waits for the answer any more.
    pub(crate) reply: oneshot::Sender<Result<Value, String>>,
}

/// How this client can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// By a request to it.
    Request,
    /// By answering its call.
    InputRequired,
}

impl Way {
    pub(crate) fn of(context: &RequestContext<RoleServer>) -> Self {
        let is_stateless = context
            .protocol_version()
            .is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str());
        if is_stateless { Self::InputRequired } else { Self::Request }
    }
}

/// The capabilities of a client, in the shape of the protocol.
pub(crate) fn capabilities(context: &RequestContext<RoleServer>) -> Map<String, Value> {
    match context.client_capabilities().map(serde_json::to_value) {
        Some(Ok(Value::Object(capabilities))) => capabilities,
        _ => Map::new(),
    }
}

/// What code and servers ask through; the other end is with whoever follows the call.
#[derive(Debug)]
pub(crate) struct Outward {
    queue: mpsc::Sender<Asked>,
    /// What the client says that it can answer.
    capabilities: Map<String, Value>,
    count: AtomicU64,
}

impl Outward {
    pub(crate) fn new(context: &RequestContext<RoleServer>) -> (Self, mpsc::Receiver<Asked>) {
        let (queue, asked) = mpsc::channel(QUEUE);
        (Self { queue, capabilities: capabilities(context), count: AtomicU64::new(1) }, asked)
    }

    /// Puts one request of the protocol to the client.
    pub(crate) async fn put(&self, method: &str, params: Value) -> Result<Value, String> {
        let can = QuestionKind::of(method).is_some_and(|kind| kind.is_within(&self.capabilities, &params));
        if !can {
            return Err(format!("the client does not answer {method}"));
        }
        let request = serde_json::from_value(json!({ "method": method, "params": params }))
            .map_err(|error| format!("{method} is malformed: {error}"))?;
        let key =
            format!("{}-{}", method.split('/').next().unwrap_or_default(), self.count.fetch_add(1, Ordering::Relaxed));
        let (reply, answer) = oneshot::channel();
        self.queue.send(Asked { key, request, reply }).await.map_err(|_| "the client is gone".to_owned())?;
        answer.await.unwrap_or_else(|_| Err("the client is gone".to_owned()))
    }
}

#[async_trait]
impl Approver for Outward {
    async fn ask(&self, question: Question) -> Answer {
        match self.put("elicitation/create", form(&question)).await {
            Ok(answer) => said(&answer),
            Err(reason) => {
                tracing::debug!(reason, "nobody can be asked");
                Answer::Nobody
            }
        }
    }
}

/// What an upstream server asks during a call that is passed on.
#[async_trait]
impl Reverse for Outward {
    async fn ask(&self, question: ReverseQuestion) -> Result<Value, Refusal> {
        self.put(question.kind.method(), question.params).await.map_err(Refusal::unsupported)
    }
}

fn form(question: &Question) -> Value {
    let Question { server, tool, description, arguments_preview, why, .. } = question;
    let mut message = format!("May the code call {server}.{tool}?\nWith: {arguments_preview}");
    if !description.is_empty() {
        message = format!("{message}\nThe server says of it: {description}");
    }
    json!({
        "mode": "form",
        "message": format!("{message}\nYou are asked because {why}."),
        "requestedSchema": {
            "type": "object",
            "properties": {
                "answer": {
                    "type": "string",
                    "title": "Answer",
                    "enum": ["once", "session", "always", "no"],
                    "enumNames": ["Yes, once", "Yes, for this session", "Yes, always", "No"],
                },
            },
            "required": ["answer"],
        },
    })
}

/// Nothing but a person's act is a yes.
fn said(answer: &Value) -> Answer {
    match (answer["action"].as_str(), answer["content"]["answer"].as_str()) {
        (Some("accept"), Some("once")) => Answer::Once,
        (Some("accept"), Some("session")) => Answer::Session,
        (Some("accept"), Some("always")) => Answer::Always,
        _ => Answer::Refuse,
    }
}

/// Puts it to the client as a request, until there is an answer or nobody waits for one.
pub(crate) async fn put(peer: Peer<RoleServer>, asked: Asked) {
    let Asked { request, mut reply, .. } = asked;
    let answered = async {
        match request {
            InputRequest::Elicitation(request) => as_value(peer.create_elicitation(request.params).await),
            InputRequest::CreateMessage(request) => as_value(peer.create_message(request.params).await),
            InputRequest::ListRoots(_) => as_value(peer.list_roots().await),
            _ => Err("the client does not answer that".to_owned()),
        }
    };
    tokio::select! {
        answer = answered => drop(reply.send(answer)),
        () = reply.closed() => {}
    }
}

fn as_value<T: serde::Serialize>(answer: Result<T, rmcp::ServiceError>) -> Result<Value, String> {
    let answer = answer.map_err(|error| error.to_string())?;
    serde_json::to_value(answer).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::said;
    use coracle_policy::Answer;
    use serde_json::json;

    #[test]
    fn only_an_accepted_form_is_a_yes() {
        let accepted = |answer: &str| said(&json!({ "action": "accept", "content": { "answer": answer } }));
        assert_eq!(accepted("once"), Answer::Once);
        assert_eq!(accepted("session"), Answer::Session);
        assert_eq!(accepted("always"), Answer::Always);
        assert_eq!(accepted("no"), Answer::Refuse);
        assert_eq!(accepted("ALWAYS"), Answer::Refuse);
        for other in [
            json!({ "action": "decline", "content": { "answer": "always" } }),
            json!({ "action": "cancel" }),
            json!({ "action": "accept" }),
            json!({ "content": { "answer": "always" } }),
            json!(null),
        ] {
            assert_eq!(said(&other), Answer::Refuse, "{other}");
        }
    }
}
