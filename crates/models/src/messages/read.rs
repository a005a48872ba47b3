//! Puts the events of an answer together.

use crate::conversation::{Call, Item, Native};
use crate::endpoint::Endpoint;
use crate::error::ModelError;
use crate::meter::{self, Meter};
use crate::provider::{ModelAnswer, ModelEvent, StopReason, Usage};
use serde_json::{Map, Value};
use tokio::sync::mpsc;

/// An answer that is being put together.
#[derive(Debug)]
pub(super) struct Draft<'a> {
    endpoint: &'a Endpoint,
    /// The blocks in the order in which they began.
    blocks: Vec<Block>,
    /// Number of blocks that are calls.
    calls: usize,
    stop_reason: Option<String>,
    has_ended: bool,
    usage: Counts,
    meter: Meter,
}

#[derive(Debug)]
struct Block {
    /// The index in the answer. It comes from the server and can be any number.
    index: Option<u64>,
    kind: Kind,
    /// The fields that the kind does not have.
    fields: Map<String, Value>,
}

#[derive(Debug)]
enum Kind {
    Text(String),
    Thinking {
        text: String,
        signature: String,
    },
    Call {
        /// The position among the calls.
        place: usize,
        id: String,
        name: String,
        arguments: String,
        /// The arguments that the block began with, for servers that do not send them in pieces.
        input: Value,
    },
    /// Redacted reasoning, and blocks that Coracle does not know. They are kept as they are.
    Other {
        /// The pieces of the field `input`.
        input: String,
    },
}

/// The tokens as the server counts them. Each number grows during an answer.
#[derive(Debug, Default)]
struct Counts {
    /// Without the cached tokens.
    input: u64,
    cache_read: u64,
    cache_write: u64,
    output: u64,
    thinking: u64,
}

impl<'a> Draft<'a> {
    pub(super) fn new(endpoint: &'a Endpoint) -> Self {
        Self {
            endpoint,
            blocks: Vec::new(),
            calls: 0,
            stop_reason: None,
            has_ended: false,
            usage: Counts::default(),
            meter: Meter::default(),
        }
    }

    /// Nothing follows.
    pub(super) fn is_complete(&self) -> bool {
        self.has_ended
    }

    /// Adds an event of a stream.
    pub(super) async fn add(&mut self, event: &Value, events: &mpsc::Sender<ModelEvent>) -> Result<(), ModelError> {
        let mut new = Vec::new();
        let result = self.event(event, &mut new);
        send(new, events).await;
        result
    }

    /// Adds the whole answer of a server that does not stream.
    pub(super) async fn add_whole(
        &mut self,
        message: &Value,
        events: &mpsc::Sender<ModelEvent>,
    ) -> Result<(), ModelError> {
        let Some(content) = message.get("content").and_then(Value::as_array) else {
            let is_error = message.get("error").is_some_and(|error| !error.is_null());
            return Err(if is_error {
                self.endpoint.reported(message)
            } else {
                self.endpoint.malformed("neither a message nor an error")
            });
        };
        let mut new = Vec::new();
        for block in content {
            self.begin(None, block, &mut new)?;
        }
        self.stop(message)?;
        self.usage.update(message.get("usage"));
        self.has_ended = true;
        send(new, events).await;
        Ok(())
    }

    fn event(&mut self, event: &Value, events: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        let field = |name: &str| event.get(name).unwrap_or(&Value::Null);
        let index = event.get("index").and_then(Value::as_u64);
        match text(event, "type") {
            "message_start" => self.usage.update(event.pointer("/message/usage")),
            "content_block_start" => self.begin(index, field("content_block"), events)?,
            "content_block_delta" => self.delta(index, field("delta"), events)?,
            "message_delta" => {
                self.stop(field("delta"))?;
                self.usage.update(event.get("usage"));
            }
            "message_stop" => self.has_ended = true,
            _ if !field("error").is_null() => return Err(self.endpoint.reported(event)),
            // The end of a block says nothing new. New kinds of events may appear at any time.
            _ => {}
        }
        Ok(())
    }

    fn stop(&mut self, delta: &Value) -> Result<(), ModelError> {
        if let Some(reason) = delta.get("stop_reason").and_then(Value::as_str) {
            meter::name(reason.len())?;
            self.stop_reason = Some(reason.to_owned());
        }
        Ok(())
    }

    fn begin(&mut self, index: Option<u64>, block: &Value, events: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        let Value::Object(fields) = block else {
            return Err(self.endpoint.malformed("a content block is not an object"));
        };
        meter::items(self.blocks.len() + 1)?;
        let mut fields = fields.clone();
        let mut take = |name: &str| match fields.remove(name) {
            Some(Value::String(text)) => text,
            _ => String::new(),
        };
        let kind = match text(block, "type") {
            "text" => {
                let text = take("text");
                self.meter.text(text.len())?;
                if !text.is_empty() {
                    events.push(ModelEvent::Text(text.clone()));
                }
                Kind::Text(text)
            }
            "thinking" => {
                let (text, signature) = (take("thinking"), take("signature"));
                self.meter.text(text.len() + signature.len())?;
                if !text.is_empty() {
                    events.push(ModelEvent::Reasoning(text.clone()));
                }
                Kind::Thinking { text, signature }
            }
            "tool_use" => {
                let (mut id, name) = (take("id"), take("name"));
                meter::calls(self.calls + 1)?;
                meter::name(id.len().max(name.len()))?;
                if name.is_empty() {
                    return Err(self.endpoint.malformed("a tool call without a name"));
                }
                if id.is_empty() {
                    id = format!("toolu_{:016x}", fastrand::u64(..));
                }
                let input = fields.remove("input").unwrap_or_default();
                meter::arguments(size(&input))?;
                let place = self.calls;
                self.calls += 1;
                events.push(ModelEvent::CallBegan { index: place, id: id.clone(), name: name.clone() });
                Kind::Call { place, id, name, arguments: String::new(), input }
            }
            _ => Kind::Other { input: String::new() },
        };
        if !matches!(kind, Kind::Other { .. }) {
            fields.remove("type");
            fields.retain(|_, value| !value.is_null());
        }
        self.meter.text(fields.iter().map(|(name, value)| name.len() + size(value)).sum())?;
        self.blocks.push(Block { index, kind, fields });
        Ok(())
    }

    fn delta(&mut self, index: Option<u64>, delta: &Value, events: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        // The last one, because a server may number all blocks the same.
        let Some(block) = self.blocks.iter_mut().rfind(|block| block.index == index) else {
            return Err(self.endpoint.malformed("a delta for a content block that has not begun"));
        };
        match (text(delta, "type"), &mut block.kind) {
            ("text_delta", Kind::Text(whole)) => {
                let more = text(delta, "text");
                self.meter.text(more.len())?;
                whole.push_str(more);
                if !more.is_empty() {
                    events.push(ModelEvent::Text(more.to_owned()));
                }
            }
            ("thinking_delta", Kind::Thinking { text: whole, .. }) => {
                let more = text(delta, "thinking");
                self.meter.text(more.len())?;
                whole.push_str(more);
                if !more.is_empty() {
                    events.push(ModelEvent::Reasoning(more.to_owned()));
                }
            }
            ("signature_delta", Kind::Thinking { signature, .. }) => {
                let whole = text(delta, "signature");
                self.meter.text(whole.len())?;
                whole.clone_into(signature);
            }
            ("input_json_delta", Kind::Call { place, arguments, .. }) => {
                let more = text(delta, "partial_json");
                meter::arguments(arguments.len() + more.len())?;
                arguments.push_str(more);
                if !more.is_empty() {
                    events.push(ModelEvent::CallArguments { index: *place, delta: more.to_owned() });
                }
            }
            ("input_json_delta", Kind::Other { input }) => {
                let more = text(delta, "partial_json");
                meter::arguments(input.len() + more.len())?;
                input.push_str(more);
            }
            ("citations_delta", Kind::Text(_)) => {
                if let Some(citation) = delta.get("citation") {
                    self.meter.text(size(citation))?;
                    merge(&mut block.fields, "citations", &Value::Array(vec![citation.clone()]));
                }
            }
            (_, Kind::Other { .. }) => {
                for (name, value) in delta.as_object().into_iter().flatten().filter(|(name, _)| *name != "type") {
                    self.meter.text(name.len() + size(value))?;
                    merge(&mut block.fields, name, value);
                }
            }
            ("text_delta" | "thinking_delta" | "input_json_delta", _) => {
                return Err(self.endpoint.malformed("a delta does not fit its content block"));
            }
            // What a new kind of delta changes about a known block is not known.
            _ => {}
        }
        Ok(())
    }

    /// The whole answer. Sends the arguments of calls that did not come in pieces.
    pub(super) async fn finish(
        mut self,
        origin: &str,
        events: &mpsc::Sender<ModelEvent>,
    ) -> Result<ModelAnswer, ModelError> {
        if !self.has_ended {
            return Err(self.endpoint.interrupted("no message_stop arrived"));
        }
        let mut late = Vec::new();
        for block in &mut self.blocks {
            if let Kind::Call { place, arguments, input, .. } = &mut block.kind
                && arguments.trim().is_empty()
            {
                let delta = if input.is_null() { "{}".to_owned() } else { input.to_string() };
                late.push(ModelEvent::CallArguments { index: *place, delta: delta.clone() });
                arguments.push_str(&delta);
            }
        }
        send(late, events).await;
        let stop = self.stop_reason();
        let items = self.blocks.into_iter().filter_map(|block| block.item(origin, stop)).collect();
        Ok(ModelAnswer { items, stop, usage: self.usage.total() })
    }

    fn stop_reason(&self) -> StopReason {
        match self.stop_reason.as_deref() {
            // What fits into the context is a valid beginning of an answer, and the next request reports that the
            // context is full. A paused turn is also incomplete; it only occurs with tools of the provider, which
            // Coracle does not use.
            Some("max_tokens" | "model_context_window_exceeded" | "pause_turn") => StopReason::Length,
            Some("refusal") => StopReason::Refusal,
            _ if self.calls > 0 => StopReason::Calls,
            _ => StopReason::End,
        }
    }
}

impl Block {
    fn item(self, origin: &str, stop: StopReason) -> Option<Item> {
        let mut fields = self.fields;
        let native = |fields: Map<String, Value>| Some(Native { origin: origin.to_owned(), value: fields.into() });
        let extra = |fields: Map<String, Value>| if fields.is_empty() { None } else { native(fields) };
        match self.kind {
            Kind::Text(text) if text.is_empty() => None,
            Kind::Text(text) => Some(Item::Assistant { text, native: extra(fields) }),
            // The limit was reached before the signature. The server does not accept such reasoning.
            Kind::Thinking { text, signature } if signature.is_empty() && stop == StopReason::Length => {
                Some(Item::Reasoning { text, native: None })
            }
            Kind::Thinking { text, signature } => {
                fields.insert("type".to_owned(), "thinking".into());
                fields.insert("thinking".to_owned(), text.as_str().into());
                fields.insert("signature".to_owned(), signature.into());
                Some(Item::Reasoning { text, native: native(fields) })
            }
            Kind::Call { id, name, arguments, .. } => {
                Some(Item::Call(Call { id, name, arguments, native: extra(fields) }))
            }
            Kind::Other { input } => {
                if let Ok(input) = serde_json::from_str(&input) {
                    fields.insert("input".to_owned(), input);
                }
                Some(Item::Reasoning { text: String::new(), native: native(fields) })
            }
        }
    }
}

impl Counts {
    fn update(&mut self, usage: Option<&Value>) {
        for (count, pointer) in [
            (&mut self.input, "/input_tokens"),
            (&mut self.cache_read, "/cache_read_input_tokens"),
            (&mut self.cache_write, "/cache_creation_input_tokens"),
            (&mut self.output, "/output_tokens"),
            (&mut self.thinking, "/output_tokens_details/thinking_tokens"),
        ] {
            let new = usage.and_then(|usage| usage.pointer(pointer)).and_then(Value::as_u64);
            *count = new.unwrap_or_default().max(*count);
        }
    }

    fn total(&self) -> Usage {
        Usage {
            input_tokens: self.input.saturating_add(self.cache_read).saturating_add(self.cache_write),
            cached_tokens: self.cache_read,
            cache_write_tokens: self.cache_write,
            output_tokens: self.output,
            reasoning_tokens: self.thinking,
        }
    }
}

async fn send(new: Vec<ModelEvent>, events: &mpsc::Sender<ModelEvent>) {
    for event in new {
        // Nobody has to listen.
        let _ = events.send(event).await;
    }
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn size(value: &Value) -> usize {
    value.to_string().len()
}

/// Adds to a field: texts and lists grow, anything else is replaced.
fn merge(fields: &mut Map<String, Value>, name: &str, more: &Value) {
    match (fields.get_mut(name), more) {
        (Some(Value::String(whole)), Value::String(more)) => whole.push_str(more),
        (Some(Value::Array(whole)), Value::Array(more)) => whole.extend(more.iter().cloned()),
        _ => drop(fields.insert(name.to_owned(), more.clone())),
    }
}

#[cfg(test)]
mod tests;
