//! Puts the chunks of an answer together.

use crate::conversation::{Call, Item, Native};
use crate::endpoint::Endpoint;
use crate::error::ModelError;
use crate::meter::{self, Meter};
use crate::provider::{ModelAnswer, ModelEvent, StopReason, Usage};
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

/// Fields of a message with readable reasoning, which servers name differently.
const REASONING: [&str; 3] = ["reasoning_content", "reasoning", "thinking"];
/// The field of a message with reasoning in a form that OpenRouter wants to have back.
const DETAILS: &str = "reasoning_details";

/// An answer that is being put together.
#[derive(Debug, Default)]
pub(super) struct Draft {
    text: String,
    reasoning: String,
    /// The field that the reasoning came in.
    reasoning_field: Option<&'static str>,
    details: Vec<Value>,
    calls: Vec<DraftCall>,
    finish: Option<String>,
    has_ended: bool,
    is_refusal: bool,
    usage: Usage,
    meter: Meter,
}

#[derive(Debug, Default)]
struct DraftCall {
    /// The index in the answer, which servers do not always send.
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
    /// The number of deltas with arguments.
    pieces: usize,
    extra: Map<String, Value>,
    has_begun: bool,
    /// The ID is not the server's: it sent none, or one that another call has.
    has_own_id: bool,
}

impl Draft {
    /// The answer is complete, except for its usage.
    pub(super) fn is_complete(&self) -> bool {
        self.finish.is_some()
    }

    /// The stream was ended on purpose.
    pub(super) fn end(&mut self) {
        self.has_ended = true;
    }

    /// Adds a chunk, or a whole answer of a server that does not stream.
    pub(super) fn add(&mut self, chunk: &Value) -> Result<Vec<ModelEvent>, ModelError> {
        for usage in [chunk.get("usage"), chunk.pointer("/x_groq/usage")].into_iter().flatten() {
            if usage.is_object() {
                self.usage = read_usage(usage);
            }
        }
        let mut events = Vec::new();
        let choices = chunk.get("choices").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        // Coracle never asks for more than one choice.
        let Some(choice) =
            choices.iter().find(|choice| choice.get("index").and_then(Value::as_u64).is_none_or(|index| index == 0))
        else {
            return Ok(events);
        };
        if let Some(delta) = choice.get("delta").or_else(|| choice.get("message")) {
            self.message(delta, &mut events)?;
        }
        if let Some(reason) = choice.get("finish_reason").and_then(Value::as_str) {
            meter::name(reason.len())?;
            self.finish = Some(reason.to_owned());
        }
        Ok(events)
    }

    fn message(&mut self, delta: &Value, events: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        for field in REASONING {
            if let Some(text) = delta.get(field).and_then(Value::as_str).filter(|text| !text.is_empty()) {
                self.reasoning_field = Some(field);
                self.think(text, events)?;
                break;
            }
        }
        if let Some(details) = delta.get(DETAILS).and_then(Value::as_array) {
            self.meter.text(details.iter().map(|detail| detail.to_string().len()).sum())?;
            self.details.extend(details.iter().cloned());
        }
        match delta.get("content") {
            Some(Value::String(text)) => self.say(text, events)?,
            Some(Value::Array(parts)) => {
                for part in parts {
                    self.part(part, events)?;
                }
            }
            _ => {}
        }
        if let Some(text) = delta.get("refusal").and_then(Value::as_str) {
            self.is_refusal |= !text.is_empty();
            self.say(text, events)?;
        }
        let calls = delta.get("tool_calls").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        for call in calls {
            self.call(call, events)?;
        }
        Ok(())
    }

    /// A part of a message. Mistral sends reasoning as one.
    fn part(&mut self, part: &Value, events: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        let text = |value: &Value| value.get("text").and_then(Value::as_str).unwrap_or_default().to_owned();
        match part.get("thinking") {
            Some(Value::Array(parts)) => {
                for part in parts {
                    self.think(&text(part), events)?;
                }
                Ok(())
            }
            Some(Value::String(text)) => self.think(text, events),
            _ => self.say(&text(part), events),
        }
    }

    fn say(&mut self, text: &str, events: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        if !text.is_empty() {
            self.meter.text(text.len())?;
            self.text.push_str(text);
            events.push(ModelEvent::Text(text.to_owned()));
        }
        Ok(())
    }

    fn think(&mut self, text: &str, events: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        if !text.is_empty() {
            self.meter.text(text.len())?;
            self.reasoning.push_str(text);
            events.push(ModelEvent::Reasoning(text.to_owned()));
        }
        Ok(())
    }

    fn call(&mut self, delta: &Value, events: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        let Some(fields) = delta.as_object() else { return Ok(()) };
        let index = fields.get("index").and_then(Value::as_u64);
        let id = fields.get("id").and_then(Value::as_str).unwrap_or_default();
        let function = fields.get("function").unwrap_or(&Value::Null);
        let name = function.get("name").and_then(Value::as_str).unwrap_or_default();
        let arguments = match function.get("arguments") {
            Some(Value::String(text)) => text.clone(),
            None | Some(Value::Null) => String::new(),
            Some(value) => value.to_string(),
        };
        let is_whole = !name.is_empty() && !arguments.trim().is_empty();
        let place = self.place(index, id, is_whole)?;
        for (name, value) in
            fields.iter().filter(|(name, _)| !matches!(name.as_str(), "index" | "id" | "type" | "function"))
        {
            self.meter.text(name.len() + value.to_string().len())?;
            self.calls[place].extra.insert(name.clone(), value.clone());
        }
        if !id.is_empty() && self.calls[place].id.is_empty() {
            meter::name(id.len())?;
            if self.calls.iter().any(|call| call.id == id) {
                self.calls[place].make_id();
            } else {
                id.clone_into(&mut self.calls[place].id);
            }
        }
        let call = &mut self.calls[place];
        // Some servers split the name, and some repeat it.
        if !call.has_begun && call.name != name {
            call.name.push_str(name);
            meter::name(call.name.len())?;
        }
        meter::arguments(call.arguments.len() + arguments.len())?;
        if !arguments.is_empty() {
            call.arguments.push_str(&arguments);
            call.pieces += 1;
            if call.has_begun {
                events.push(ModelEvent::CallArguments { index: place, delta: arguments });
            } else if !call.name.is_empty() {
                call.begin(place, events);
            }
        }
        Ok(())
    }

    /// The call that a delta belongs to. An index with another ID is another call: some servers number all of them 0.
    /// Servers that send no ID either send each call as a whole.
    fn place(&mut self, index: Option<u64>, id: &str, is_whole: bool) -> Result<usize, ModelError> {
        let is_other = |call: &DraftCall| !id.is_empty() && !call.id.is_empty() && call.id != id && !call.has_own_id;
        let found = match index {
            Some(_) => self.calls.iter().rposition(|call| call.index == index && !is_other(call)),
            None if id.is_empty() => self.calls.len().checked_sub(1),
            None => self.calls.iter().rposition(|call| call.id == id),
        };
        if let Some(place) = found.filter(|place| !(is_whole && id.is_empty() && self.calls[*place].is_whole())) {
            return Ok(place);
        }
        meter::calls(self.calls.len() + 1)?;
        self.calls.push(DraftCall { index, ..DraftCall::default() });
        Ok(self.calls.len() - 1)
    }

    /// The whole answer. Sends the beginnings of calls without arguments.
    pub(super) async fn finish(
        mut self,
        endpoint: &Endpoint,
        origin: &str,
        events: &mpsc::Sender<ModelEvent>,
    ) -> Result<ModelAnswer, ModelError> {
        if self.finish.is_none() && !self.has_ended {
            return Err(endpoint.interrupted("neither a finish reason nor [DONE] arrived"));
        }
        let mut late = Vec::new();
        for (place, call) in self.calls.iter_mut().enumerate() {
            call.begin(place, &mut late);
            if call.arguments.trim().is_empty() {
                call.arguments.push_str("{}");
                late.push(ModelEvent::CallArguments { index: place, delta: "{}".to_owned() });
            }
        }
        for event in late {
            // Nobody has to listen.
            let _ = events.send(event).await;
        }
        if self.calls.iter().any(|call| call.name.is_empty()) {
            return Err(endpoint.malformed("a tool call without a name"));
        }
        Ok(ModelAnswer { stop: self.stop(), usage: self.usage, items: self.items(origin) })
    }

    fn stop(&self) -> StopReason {
        match self.finish.as_deref() {
            Some("length") => StopReason::Length,
            Some("content_filter") => StopReason::Refusal,
            _ if self.is_refusal => StopReason::Refusal,
            _ if !self.calls.is_empty() => StopReason::Calls,
            _ => StopReason::End,
        }
    }

    fn items(self, origin: &str) -> Vec<Item> {
        let native = |value: Value| Some(Native { origin: origin.to_owned(), value });
        let mut items = Vec::new();
        if !self.reasoning.is_empty() || !self.details.is_empty() {
            let value = match self.reasoning_field {
                _ if !self.details.is_empty() => json!({DETAILS: self.details}),
                Some(field) => json!({field: self.reasoning}),
                None => json!({}),
            };
            items.push(Item::Reasoning { text: self.reasoning, native: native(value) });
        }
        if !self.text.is_empty() {
            items.push(Item::Assistant { text: self.text, native: None });
        }
        items.extend(self.calls.into_iter().map(|call| {
            let native = if call.extra.is_empty() { None } else { native(call.extra.into()) };
            Item::Call(Call { id: call.id, name: call.name, arguments: call.arguments, native })
        }));
        items
    }
}

impl DraftCall {
    fn begin(&mut self, index: usize, events: &mut Vec<ModelEvent>) {
        if !self.has_begun {
            self.has_begun = true;
            if self.id.is_empty() {
                self.make_id();
            }
            events.push(ModelEvent::CallBegan { index, id: self.id.clone(), name: self.name.clone() });
            if !self.arguments.is_empty() {
                events.push(ModelEvent::CallArguments { index, delta: self.arguments.clone() });
            }
        }
    }

    fn make_id(&mut self) {
        self.id = format!("call_{:016x}", fastrand::u64(..));
        self.has_own_id = true;
    }

    /// All arguments came at once, so that more of them would not be JSON. Looks at them at most once.
    fn is_whole(&self) -> bool {
        self.pieces == 1 && serde_json::from_str::<IgnoredAny>(&self.arguments).is_ok()
    }
}

fn read_usage(usage: &Value) -> Usage {
    let number = |pointer: &str| usage.pointer(pointer).and_then(Value::as_u64);
    let cached = number("/prompt_tokens_details/cached_tokens").or_else(|| number("/prompt_cache_hit_tokens"));
    Usage {
        input_tokens: number("/prompt_tokens").unwrap_or_default(),
        cached_tokens: cached.unwrap_or_default(),
        cache_write_tokens: number("/prompt_tokens_details/cache_write_tokens").unwrap_or_default(),
        output_tokens: number("/completion_tokens").unwrap_or_default(),
        reasoning_tokens: number("/completion_tokens_details/reasoning_tokens").unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests;
