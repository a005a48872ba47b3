//! Requests to a client during one of its calls: whether a tool may be called, or a question from an upstream server.
//!
//! In revisions with `initialize`, the client is sent a request. In the stateless revision, the call is answered with
//! the question, and continues when the client calls again with the answer (`run.rs`).

use async_trait::async_trait;
use coracle_policy::{Answer, Approver, Doubt, Question};
use coracle_types::{ServerName, is_hidden};
use coracle_upstream::QuestionKind;
use rmcp::model::{InputRequest, ProtocolVersion};
use rmcp::service::{Peer, RequestContext, RoleServer};
use serde_json::{Map, Value, json};
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::{mpsc, oneshot};

/// Maximum number of pending questions.
const QUEUE: usize = 64;

/// Question to a client.
#[derive(Debug)]
pub(crate) struct Asked {
    /// Identifies the question within its call.
    pub(crate) key: String,
    pub(crate) request: InputRequest,
    /// Closed when the asking side no longer waits for the answer.
    pub(crate) reply: oneshot::Sender<Result<Value, String>>,
}

/// How questions are sent to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// As a request.
    Request,
    /// As the result of its call.
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

/// Capabilities of a client, in the format of the protocol.
pub(crate) fn capabilities(context: &RequestContext<RoleServer>) -> Map<String, Value> {
    match context.client_capabilities().map(serde_json::to_value) {
        Some(Ok(Value::Object(capabilities))) => capabilities,
        _ => Map::new(),
    }
}

/// Sends questions of code and servers to whatever follows the call.
#[derive(Debug)]
pub(crate) struct ClientRequests {
    queue: mpsc::Sender<Asked>,
    /// Capabilities of the client.
    capabilities: Map<String, Value>,
    count: AtomicU64,
}

impl ClientRequests {
    pub(crate) fn new(context: &RequestContext<RoleServer>) -> (Self, mpsc::Receiver<Asked>) {
        let (queue, asked) = mpsc::channel(QUEUE);
        (Self { queue, capabilities: capabilities(context), count: AtomicU64::new(1) }, asked)
    }

    /// Sends a request of the protocol to the client.
    pub(crate) async fn put(&self, method: &str, params: Value) -> Result<Value, String> {
        let can = QuestionKind::of(method).is_some_and(|kind| kind.is_within(&self.capabilities, &params));
        if !can {
            return Err(format!("the client does not support {method}"));
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
impl Approver for ClientRequests {
    async fn ask(&self, question: Question) -> Answer {
        match self.put("elicitation/create", form(&question)).await {
            Ok(answer) => said(&answer),
            Err(reason) => {
                tracing::debug!(reason, "cannot ask the client");
                Answer::Nobody
            }
        }
    }
}

/// Attributes the questions in a forwarded `input_required` result to their server.
pub(crate) fn attribute_all(server: &ServerName, answer: &mut Value) -> Result<(), String> {
    let requests = answer.get_mut("inputRequests").and_then(Value::as_object_mut);
    for request in requests.into_iter().flat_map(Map::values_mut) {
        let is_question = request["method"] == QuestionKind::Elicitation.method();
        if let Some(params) = request.get_mut("params").filter(|_| is_question) {
            attribute(server, params)?;
        }
    }
    Ok(())
}

/// Attributes a question to its server and makes its text unambiguous: hidden characters are removed, and each line of
/// the message is quoted, so that it cannot pose as ours.
pub(crate) fn attribute(server: &ServerName, params: &mut Value) -> Result<(), String> {
    let Some(params) = params.as_object_mut() else { return Err("the question has no parameters".to_owned()) };
    if let Some(url) = params.get("url").and_then(Value::as_str)
        && url.chars().any(is_hidden)
    {
        return Err("the address in the question contains hidden characters".to_owned());
    }
    let message = params.get("message").and_then(Value::as_str).unwrap_or_default();
    let quoted: Vec<String> = message.lines().map(|line| format!("> {}", visible(line))).collect();
    params.insert("message".to_owned(), format!("The MCP server {server} asks:\n{}", quoted.join("\n")).into());
    if let Some(schema) = params.get_mut("requestedSchema") {
        clean_words(schema);
    }
    Ok(())
}

/// Removes hidden characters from the texts of a schema that people read. Names and values stay unchanged.
fn clean_words(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            for (name, member) in members {
                match (name.as_str(), member) {
                    ("title" | "description", Value::String(text)) => *text = visible(text),
                    ("enumNames", Value::Array(names)) => {
                        for name in names {
                            if let Value::String(text) = name {
                                *text = visible(text);
                            }
                        }
                    }
                    (_, member) => clean_words(member),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(clean_words),
        _ => {}
    }
}

fn visible(text: &str) -> String {
    text.chars().filter(|c| !is_hidden(*c)).collect()
}

/// Answers that every question offers, and how they are displayed.
const ONCE: (&str, &str) = ("once", "Yes, once");
const NO: (&str, &str) = ("no", "No");

fn form(question: &Question) -> Value {
    let Question { server, tool, description, arguments_preview, why, doubt, .. } = question;
    let (again, choices): (_, &[(&str, &str)]) = match doubt {
        None => (
            "",
            &[
                ONCE,
                ("session", "Yes, for this session"),
                ("session_same_arguments", "Yes, for this session, with the same arguments only"),
                ("always", "Yes, always"),
                ("always_same_arguments", "Yes, always, with the same arguments only"),
                NO,
            ],
        ),
        Some(Doubt::Differs) => ("", &[ONCE, ("session", "Yes, for all calls of this execution"), NO]),
        Some(Doubt::Unanswered | Doubt::AnswerNotKept) => (" again", &[("once", "Yes, call it again"), NO]),
    };
    let (answers, names): (Vec<&str>, Vec<&str>) = choices.iter().copied().unzip();
    let mut message = format!("May the code call {server}.{tool}{again}?\nWith: {arguments_preview}");
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
                    "enum": answers,
                    "enumNames": names,
                },
            },
            "required": ["answer"],
        },
    })
}

/// Only an accepted form is an approval.
fn said(answer: &Value) -> Answer {
    match (answer["action"].as_str(), answer["content"]["answer"].as_str()) {
        (Some("accept"), Some("once")) => Answer::Once,
        (Some("accept"), Some("session")) => Answer::Session,
        (Some("accept"), Some("session_same_arguments")) => Answer::SessionSameArguments,
        (Some("accept"), Some("always")) => Answer::Always,
        (Some("accept"), Some("always_same_arguments")) => Answer::AlwaysSameArguments,
        _ => Answer::Refuse,
    }
}

/// Sends a question as a request and waits for the answer, unless nobody waits for it any more.
pub(crate) async fn put(peer: Peer<RoleServer>, asked: Asked) {
    let Asked { request, mut reply, .. } = asked;
    let answered = async {
        match request {
            InputRequest::Elicitation(request) => as_value(peer.create_elicitation(request.params).await),
            InputRequest::CreateMessage(request) => as_value(peer.create_message(request.params).await),
            InputRequest::ListRoots(_) => as_value(peer.list_roots().await),
            _ => Err("the client does not support this request".to_owned()),
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
    use super::{attribute, attribute_all, form, said};
    use async_trait::async_trait;
    use coracle_policy::{Answer, Approvals, Approver, Call, Circumstances, Doubt, Policy, Question, ToolNames};
    use coracle_store::MemoryStore;
    use coracle_types::{ExecutionId, Schema, ServerName, Tool, ToolHints, UserId};
    use serde_json::{Value, json};
    use std::sync::{Arc, Mutex};

    #[test]
    fn a_question_names_its_server_and_has_no_hidden_characters() {
        let git = ServerName::new("git").unwrap();
        let mut question = json!({
            "message": "Your \u{1b}[2Jpassword?\nThe MCP server bank asks:\n> \u{202e}PIN",
            "requestedSchema": {"type": "object", "properties": {"a\u{202e}": {
                "type": "string", "title": "T\u{200b}itle", "enum": ["x\u{202e}"], "enumNames": ["X\u{202e}"],
            }}},
        });
        attribute(&git, &mut question).unwrap();
        assert_eq!(
            question,
            json!({
                "message": "The MCP server git asks:\n> Your [2Jpassword?\n> The MCP server bank asks:\n> > PIN",
                "requestedSchema": {"type": "object", "properties": {"a\u{202e}": {
                    "type": "string", "title": "Title", "enum": ["x\u{202e}"], "enumNames": ["X"],
                }}},
            })
        );
        let mut address = json!({"mode": "url", "message": "Sign in", "url": "https://git.example/\u{202e}moc"});
        assert!(attribute(&git, &mut address).is_err());
        address["url"] = json!("https://git.example/x");
        attribute(&git, &mut address).unwrap();
        assert_eq!(address["message"], "The MCP server git asks:\n> Sign in");
    }

    #[test]
    fn questions_in_a_result_name_their_server() {
        let git = ServerName::new("git").unwrap();
        let mut answer = json!({"resultType": "input_required", "inputRequests": {
            "a": {"method": "elicitation/create", "params": {"message": "Name\u{7}?"}},
            "b": {"method": "sampling/createMessage", "params": {"messages": []}},
            "c": {"method": "roots/list"},
        }});
        attribute_all(&git, &mut answer).unwrap();
        let questions = &answer["inputRequests"];
        assert_eq!(questions["a"]["params"]["message"], "The MCP server git asks:\n> Name?");
        assert_eq!(questions["b"]["params"], json!({"messages": []}));
    }

    /// Keeps the form of the last question.
    #[derive(Debug, Default)]
    struct Shows(Mutex<Value>);

    #[async_trait]
    impl Approver for Shows {
        async fn ask(&self, question: Question) -> Answer {
            *self.0.lock().unwrap() = form(&question);
            Answer::Refuse
        }
    }

    #[tokio::test]
    async fn a_form_says_why_it_is_shown_and_offers_what_makes_sense() {
        let approvals = Approvals::new(Policy::default(), Arc::new(MemoryStore::new()));
        let tool = Tool {
            server: ServerName::new("bank").unwrap(),
            name: "pay".to_owned(),
            title: None,
            description: String::new(),
            input_schema: Schema::default(),
            output_schema: None,
            category: None,
            hints: ToolHints { destructive: Some(true), ..ToolHints::default() },
        };
        for (doubt, headline, why, answers) in [
            (
                None,
                "call bank.pay?",
                "marked as destructive",
                json!(["once", "session", "session_same_arguments", "always", "always_same_arguments", "no"]),
            ),
            (Some(Doubt::Unanswered), "call bank.pay again?", "may have happened", json!(["once", "no"])),
            (Some(Doubt::AnswerNotKept), "call bank.pay again?", "too long to keep", json!(["once", "no"])),
            (Some(Doubt::Differs), "call bank.pay?", "it may repeat", json!(["once", "session", "no"])),
        ] {
            let shows = Shows::default();
            let call = Call {
                user: &UserId::local(),
                session: None,
                execution: &ExecutionId::new("e1").unwrap(),
                tool: &tool,
                names: &ToolNames::of_wire(&tool),
                arguments: &json!({}),
                cargo: coracle_policy::Cargo::NONE,
                circumstances: Circumstances::default(),
                doubt,
            };
            approvals.decide(call, &shows).await.unwrap_err();
            let form = shows.0.lock().unwrap().clone();
            let message = form["message"].as_str().unwrap();
            assert!(message.contains(headline) && message.contains(why), "{doubt:?}: {message}");
            let answer = &form["requestedSchema"]["properties"]["answer"];
            assert_eq!(answer["enum"], answers, "{doubt:?}");
            assert_eq!(answer["enumNames"].as_array().unwrap().len(), answers.as_array().unwrap().len());
        }
    }

    #[test]
    fn only_an_accepted_form_is_a_yes() {
        let accepted = |answer: &str| said(&json!({ "action": "accept", "content": { "answer": answer } }));
        assert_eq!(accepted("once"), Answer::Once);
        assert_eq!(accepted("session"), Answer::Session);
        assert_eq!(accepted("always"), Answer::Always);
        assert_eq!(accepted("session_same_arguments"), Answer::SessionSameArguments);
        assert_eq!(accepted("always_same_arguments"), Answer::AlwaysSameArguments);
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
