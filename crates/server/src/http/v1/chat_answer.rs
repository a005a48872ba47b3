//! Writes the answer to a chat completion: in one piece, or in chunks.

use super::chat_request::Activity;
use coracle_agent::{CallUpdate, Ended, RunEvent, RunOutcome};
use coracle_models::{Call, ModelEvent, Usage};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Maximum length of the output and calls of one execution that are shown as activity, in bytes.
const MAX_SHOWN_OUTPUT: usize = 16 << 10;

/// What all chunks of an answer have in common.
#[derive(Clone, Debug)]
pub(super) struct Head {
    /// Completion ID.
    pub(super) id: String,
    /// Creation time in seconds since 1970.
    pub(super) created: u64,
    /// Full name of the model.
    pub(super) model: String,
}

/// Turns the events of a run into the deltas of an answer.
#[derive(Debug)]
pub(super) struct Deltas {
    activity: Activity,
    /// The step has sent text.
    has_text: bool,
    /// An earlier step has sent text.
    needs_gap: bool,
    /// The arguments of calls that are being written, and how much output of each call was shown.
    calls: BTreeMap<usize, (String, String)>,
    shown: BTreeMap<String, usize>,
}

impl Deltas {
    pub(super) fn new(activity: Activity) -> Self {
        Self { activity, has_text: false, needs_gap: false, calls: BTreeMap::new(), shown: BTreeMap::new() }
    }

    /// The deltas of an event.
    pub(super) fn of(&mut self, event: RunEvent) -> Vec<Value> {
        match event {
            RunEvent::StepBegan { .. } => {
                self.needs_gap |= std::mem::take(&mut self.has_text);
                self.calls.clear();
                Vec::new()
            }
            RunEvent::Model(ModelEvent::Text(text)) => vec![self.text(&text)],
            RunEvent::Model(ModelEvent::Reasoning(text)) => vec![json!({"reasoning_content": text})],
            RunEvent::Model(ModelEvent::CallBegan { index, name, .. }) => {
                self.calls.insert(index, (name, String::new()));
                Vec::new()
            }
            RunEvent::Model(ModelEvent::CallArguments { index, delta }) => {
                if let Some((_, arguments)) = self.calls.get_mut(&index) {
                    arguments.push_str(&delta);
                }
                Vec::new()
            }
            RunEvent::Repeated { .. } if self.has_text => {
                vec![self.text("\n\n[The answer broke off and begins again.]\n\n")]
            }
            RunEvent::StepEnded { .. } => {
                let calls = std::mem::take(&mut self.calls);
                calls.into_values().filter_map(|(name, arguments)| self.seen(&call_text(&name, &arguments))).collect()
            }
            RunEvent::CallUpdate { id, update: CallUpdate::Output { bytes, .. } } => self.work(id, &bytes),
            RunEvent::CallUpdate { id, update: CallUpdate::CallBegan { server, tool, arguments, .. } } => {
                self.work(id, format!("\n`{server}.{tool}` {arguments}\n").as_bytes())
            }
            // Questions are answered elsewhere, and the model describes artifacts.
            RunEvent::CallUpdate {
                update:
                    CallUpdate::Sandbox(_)
                    | CallUpdate::Waiting { .. }
                    | CallUpdate::Asked { .. }
                    | CallUpdate::Answered { .. }
                    | CallUpdate::CallEnded { .. }
                    | CallUpdate::Artifact(_),
                ..
            }
            | RunEvent::Repeated { .. }
            | RunEvent::CallStarted { .. }
            | RunEvent::CallEnded { .. }
            | RunEvent::Steered { .. }
            | RunEvent::Compacted => Vec::new(),
        }
    }

    /// Output and calls of code, up to a total length.
    fn work(&mut self, id: String, bytes: &[u8]) -> Vec<Value> {
        let shown = self.shown.entry(id).or_default();
        let room = MAX_SHOWN_OUTPUT.saturating_sub(*shown);
        let text = String::from_utf8_lossy(&bytes[..bytes.len().min(room)]).into_owned();
        *shown += bytes.len();
        if text.is_empty() { Vec::new() } else { self.seen(&text).into_iter().collect() }
    }

    fn text(&mut self, text: &str) -> Value {
        self.has_text = true;
        let gap = if std::mem::take(&mut self.needs_gap) { "\n\n" } else { "" };
        json!({"content": format!("{gap}{text}")})
    }

    /// What the agent does, where the client wants to see it.
    fn seen(&mut self, text: &str) -> Option<Value> {
        match self.activity {
            Activity::None => None,
            Activity::Reasoning => Some(json!({"reasoning_content": text})),
            Activity::Text => Some(self.text(text)),
        }
    }
}

/// A call as a person reads it.
fn call_text(name: &str, arguments: &str) -> String {
    let parsed: Value = serde_json::from_str(arguments).unwrap_or_default();
    match parsed.get("code").and_then(Value::as_str) {
        Some(code) => {
            let language = parsed.get("language").and_then(Value::as_str).unwrap_or("python");
            format!("\n```{language}\n{}\n```\n", code.trim_end())
        }
        None => format!("\n`{name}` {arguments}\n"),
    }
}

impl Head {
    /// A chunk with a delta.
    pub(super) fn chunk(&self, delta: &Value, finish: Option<&str>) -> Value {
        json!({
            "id": self.id, "object": "chat.completion.chunk", "created": self.created, "model": self.model,
            "choices": [{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish}],
        })
    }

    /// The chunks after the last text.
    pub(super) fn end(&self, outcome: &RunOutcome, includes_usage: bool) -> Vec<Value> {
        let mut chunks = Vec::new();
        if let Some(note) = note(&outcome.ended) {
            chunks.push(self.chunk(&json!({"content": format!("\n\n{note}")}), None));
        }
        if let Ended::ClientCalls(calls) = &outcome.ended {
            let calls = calls.iter().enumerate().map(|(index, call)| {
                let mut call = written(call);
                call["index"] = index.into();
                call
            });
            chunks.push(self.chunk(&json!({"tool_calls": calls.collect::<Vec<_>>()}), None));
        }
        chunks.push(self.chunk(&json!({}), Some(finish_reason(&outcome.ended))));
        if includes_usage {
            let mut last = self.chunk(&json!({}), None);
            last["choices"] = json!([]);
            last["usage"] = usage(&outcome.usage);
            chunks.push(last);
        }
        chunks
    }

    /// The whole answer.
    pub(super) fn completion(&self, outcome: &RunOutcome, deltas: &[Value]) -> Value {
        let joined = |name: &str| deltas.iter().filter_map(|delta| delta.get(name)?.as_str()).collect::<String>();
        let mut content = joined("content");
        if let Some(note) = note(&outcome.ended) {
            content = if content.is_empty() { note } else { format!("{content}\n\n{note}") };
        }
        let mut message = json!({
            "role": "assistant", "refusal": null, "annotations": [],
            "content": if content.is_empty() { Value::Null } else { content.into() },
        });
        let reasoning = joined("reasoning_content");
        if !reasoning.is_empty() {
            message["reasoning_content"] = reasoning.into();
        }
        if let Ended::ClientCalls(calls) = &outcome.ended {
            message["tool_calls"] = calls.iter().map(written).collect();
        }
        json!({
            "id": self.id, "object": "chat.completion", "created": self.created, "model": self.model,
            "choices": [{
                "index": 0, "message": message, "logprobs": null, "finish_reason": finish_reason(&outcome.ended),
            }],
            "usage": usage(&outcome.usage),
        })
    }
}

fn written(call: &Call) -> Value {
    json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}})
}

/// What the user should know about the end of a run that the model did not choose.
fn note(ended: &Ended) -> Option<String> {
    match ended {
        Ended::Steps(most) => Some(format!("[Stopped after {most} steps.]")),
        Ended::Calls(most) => Some(format!("[Stopped after {most} tool calls.]")),
        Ended::Tokens(most) => Some(format!("[Stopped after {most} tokens.]")),
        Ended::Loop => Some("[Stopped because the model repeated the same call.]".to_owned()),
        Ended::Cancelled => Some("[Stopped.]".to_owned()),
        Ended::NotRecorded(error) => Some(format!("[Stopped: {error}.]")),
        Ended::Done
        | Ended::ClientCalls(_)
        | Ended::Parked { .. }
        | Ended::Refused
        | Ended::Length
        | Ended::Failed(_) => None,
    }
}

fn finish_reason(ended: &Ended) -> &'static str {
    match ended {
        Ended::ClientCalls(_) => "tool_calls",
        Ended::Refused => "content_filter",
        Ended::Length | Ended::Steps(_) | Ended::Calls(_) | Ended::Tokens(_) => "length",
        Ended::Done
        | Ended::Parked { .. }
        | Ended::Loop
        | Ended::Cancelled
        | Ended::Failed(_)
        | Ended::NotRecorded(_) => "stop",
    }
}

fn usage(usage: &Usage) -> Value {
    json!({
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens.saturating_add(usage.output_tokens),
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": usage.reasoning_tokens, "audio_tokens": 0,
            "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0,
        },
    })
}
