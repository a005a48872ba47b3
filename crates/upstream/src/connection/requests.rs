//! Requests whose answers are returned unchanged.

use super::{Connection, SHOWN_NAME};
use crate::call::{CallContext, Resume};
use crate::connection_state::InFlight;
use crate::error::UpstreamError;
use crate::reverse::{Question, QuestionKind};
use crate::scrub::shortened;
use rmcp::model::{ClientCapabilities, MetaObject, RequestMetaObject};
use serde_json::{Map, Value};
use std::sync::PoisonError;
use std::time::Duration;

/// The maximum number of times that one request may be answered with questions.
const MAX_ROUNDS: u32 = 20;
/// The maximum number of questions in one answer.
const MAX_QUESTIONS: usize = 20;
/// The pause before calling a server again that asks nothing but wants another call.
const PAUSE: Duration = Duration::from_millis(100);

/// Members of `_meta` that describe the connection and that callers cannot set.
const OWN_META: &[&str] = &[
    "progressToken",
    "io.modelcontextprotocol/protocolVersion",
    "io.modelcontextprotocol/clientInfo",
    "io.modelcontextprotocol/clientCapabilities",
];
const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";

/// The client capabilities that are relevant here.
pub(crate) fn capabilities(announced: &Map<String, Value>) -> ClientCapabilities {
    let known = [QuestionKind::Sampling, QuestionKind::Elicitation, QuestionKind::Roots].map(QuestionKind::capability);
    let kept = announced.iter().filter(|(key, _)| known.contains(&key.as_str()));
    let kept: Map<_, _> = kept.map(|(key, value)| (key.clone(), value.clone())).collect();
    serde_json::from_value(Value::Object(kept)).unwrap_or_default()
}

/// Whether a result consists of questions.
pub(super) fn wants_input(result: &Value) -> bool {
    result.get("resultType").and_then(Value::as_str) == Some("input_required")
}

impl Connection {
    /// Calls a tool and returns the result unchanged.
    pub(crate) async fn call_raw(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
        context: &CallContext,
    ) -> Result<Value, UpstreamError> {
        if self.known_tools().get(tool).is_none() && self.current_tools().await?.get(tool).is_none() {
            let (server, tool) = (self.server().clone(), shortened(tool, SHOWN_NAME));
            return Err(UpstreamError::ToolNotFound { server, tool });
        }
        let params = members([("name", Value::from(tool)), ("arguments", Value::Object(arguments))]);
        self.ask_until_done("tools/call", params, context, "the call").await
    }

    pub(crate) async fn read_resource(&self, uri: &str, context: &CallContext) -> Result<Value, UpstreamError> {
        let params = members([("uri", Value::from(uri))]);
        self.ask_until_done("resources/read", params, context, "resources/read").await
    }

    pub(crate) async fn get_prompt(
        &self,
        name: &str,
        arguments: Map<String, Value>,
        context: &CallContext,
    ) -> Result<Value, UpstreamError> {
        let params = members([("name", Value::from(name)), ("arguments", Value::Object(arguments))]);
        self.ask_until_done("prompts/get", params, context, "prompts/get").await
    }

    pub(crate) async fn complete(
        &self,
        mut params: Map<String, Value>,
        context: &CallContext,
    ) -> Result<Value, UpstreamError> {
        params.remove("_meta");
        self.object(self.ask("completion/complete", params, context, "completion/complete").await?)
    }

    /// Sets the minimum level of log messages. Servers from before 2026 are told at once, and others with each request.
    pub(crate) async fn set_level(&self, level: &str) -> Result<(), UpstreamError> {
        *self.level.lock().unwrap_or_else(PoisonError::into_inner) = Some(level.to_owned());
        if self.origin.is_modern || !self.info().offers.logging {
            return Ok(());
        }
        let params = members([("level", Value::from(level))]);
        self.ask("logging/setLevel", params, &CallContext::default(), "logging/setLevel").await?;
        Ok(())
    }

    /// Sends a request, and repeats it with answers while the server replies with questions that can be answered.
    async fn ask_until_done(
        &self,
        method: &str,
        params: Map<String, Value>,
        context: &CallContext,
        what: &str,
    ) -> Result<Value, UpstreamError> {
        let mut resume = context.resume.clone();
        for _ in 0..MAX_ROUNDS {
            let mut params = params.clone();
            if let Some(Resume { responses, state }) = resume.take() {
                if !responses.is_empty() {
                    params.insert("inputResponses".to_owned(), Value::Object(responses));
                }
                if let Some(state) = state {
                    params.insert("requestState".to_owned(), Value::String(state));
                }
            }
            let result = self.object(self.ask(method, params, context, what).await?)?;
            if !wants_input(&result) || context.reverse.is_none() {
                return Ok(result);
            }
            resume = Some(self.answered(&result, context).await?);
        }
        Err(self.protocol("it kept asking for input"))
    }

    async fn answered(&self, result: &Value, context: &CallContext) -> Result<Resume, UpstreamError> {
        let state = result.get("requestState").and_then(Value::as_str).map(str::to_owned);
        let mut responses = Map::new();
        match result.get("inputRequests").and_then(Value::as_object) {
            Some(questions) if questions.len() > MAX_QUESTIONS => {
                return Err(self.protocol(&format!("it asked more than {MAX_QUESTIONS} questions at once")));
            }
            Some(questions) if !questions.is_empty() => {
                let flight = InFlight::new(context);
                for (key, question) in questions {
                    let kind = question.get("method").and_then(Value::as_str).and_then(QuestionKind::of);
                    let kind = kind.ok_or_else(|| self.protocol("it asked an unknown kind of question"))?;
                    let params = question.get("params").cloned().unwrap_or_default();
                    let answer = tokio::select! {
                        biased;
                        answer = flight.answer(Question { kind, params }) => answer,
                        () = context.cancel.cancelled() => {
                            return Err(UpstreamError::Cancelled { server: self.server().clone() });
                        }
                        () = self.origin.state.ended.cancelled() => return Err(self.ended()),
                    };
                    let answer = answer.map_err(|refusal| UpstreamError::Unanswered {
                        server: self.server().clone(),
                        reason: self.origin.scrubber.clean(&refusal.message),
                    })?;
                    responses.insert(key.clone(), answer);
                }
            }
            _ if state.is_some() => tokio::time::sleep(PAUSE).await,
            _ => return Err(self.protocol("it requires input, but does not say what")),
        }
        Ok(Resume { responses, state })
    }

    pub(super) fn meta(&self, context: &CallContext) -> RequestMetaObject {
        let kept = context.meta.iter().filter(|(key, _)| !OWN_META.contains(&key.as_str()));
        let mut meta: Map<_, _> = kept.map(|(key, value)| (key.clone(), value.clone())).collect();
        let level = self.level.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let (true, Some(level), Some(_)) = (self.origin.is_modern, level, &context.log) {
            meta.entry(LOG_LEVEL).or_insert(Value::String(level));
        }
        let mut meta = RequestMetaObject(MetaObject(meta));
        if self.origin.is_modern {
            // The capabilities of this caller, not of others.
            meta.set_client_capabilities(capabilities(&context.capabilities));
        }
        meta
    }

    fn object(&self, answer: Value) -> Result<Value, UpstreamError> {
        if answer.is_object() { Ok(answer) } else { Err(self.protocol("its answer is not an object")) }
    }
}

pub(super) fn members<const N: usize>(members: [(&str, Value); N]) -> Map<String, Value> {
    members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}
