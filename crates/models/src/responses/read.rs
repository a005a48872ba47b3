//! Puts the events of a response together.

use crate::conversation::{Call, Item, Native};
use crate::error::ModelError;
use crate::meter::{self, Meter};
use crate::provider::{ModelAnswer, ModelEvent, StopReason, Usage};
use serde_json::{Map, Value};

/// Maximum size of all items of an answer in the provider's form.
const MAX_NATIVE_BYTES: usize = 16 << 20;

/// An answer that is being put together. Its items are in the order in which they began.
#[derive(Debug, Default)]
pub(super) struct Draft {
    items: Vec<DraftItem>,
    calls: usize,
    end: Option<End>,
    is_refusal: bool,
    usage: Usage,
    meter: Meter,
    native: usize,
    events: Vec<ModelEvent>,
}

/// What has become of a draft.
pub(super) enum Ended {
    /// A whole answer.
    Whole(ModelAnswer),
    /// The response was neither completed nor declared incomplete.
    Early,
    /// A tool call has no name.
    NamelessCall,
}

/// How a response ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Completed,
    Cut,
    Filtered,
}

#[derive(Debug)]
struct DraftItem {
    /// The index on the wire. It identifies the item, and servers do not always send it.
    index: Option<u64>,
    id: String,
    content: Content,
    /// The whole item in the provider's form, once it is done.
    done: Option<Map<String, Value>>,
}

/// What an item contains. Texts are those that were sent as events.
#[derive(Debug)]
enum Content {
    Message(String),
    Reasoning {
        text: String,
        part: Option<PartKey>,
    },
    Call(DraftCall),
    /// An item that Coracle does not know. It is kept for the server.
    Other,
}

/// The part of a reasoning item that a text belongs to: its kind, and its index among those.
type PartKey = (&'static str, u64);

#[derive(Debug)]
struct DraftCall {
    /// The position among the calls of the answer.
    place: usize,
    id: String,
    name: String,
    arguments: String,
    has_begun: bool,
}

/// A text within an item.
#[derive(Clone, Copy)]
enum Kind {
    Message,
    Reasoning,
    Call,
}

impl Draft {
    /// The response has ended.
    pub(super) fn is_complete(&self) -> bool {
        self.end.is_some()
    }

    /// The events since the last time.
    pub(super) fn events(&mut self) -> Vec<ModelEvent> {
        std::mem::take(&mut self.events)
    }

    /// Adds an event of the stream. Ignores events that Coracle does not know.
    pub(super) fn add(&mut self, kind: &str, event: &Value) -> Result<(), ModelError> {
        match kind {
            "response.output_item.added" => self.added(event),
            "response.output_item.done" => self.item_done(event),
            "response.output_text.delta" => self.text(event),
            "response.refusal.delta" => {
                self.is_refusal |= !text(event, "delta").is_empty();
                self.text(event)
            }
            "response.reasoning_summary_text.delta" => self.reasoning(event, "summary", "summary_index"),
            "response.reasoning_text.delta" => self.reasoning(event, "content", "content_index"),
            "response.function_call_arguments.delta" => {
                let place = self.place(event, Kind::Call)?;
                self.more_arguments(place, text(event, "delta"))
            }
            "response.function_call_arguments.done" => {
                let place = self.place(event, Kind::Call)?;
                self.all_arguments(place, text(event, "arguments"))
            }
            "response.completed" | "response.incomplete" => {
                let response = event.get("response").unwrap_or(&Value::Null);
                self.output(response)?;
                self.usage = read_usage(response);
                self.end = Some(if kind == "response.completed" { End::Completed } else { cut(response) });
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Adds the whole response of a server that does not stream.
    pub(super) fn whole(&mut self, response: &Value) -> Result<(), ModelError> {
        self.output(response)?;
        self.usage = read_usage(response);
        self.end = match response.get("status").and_then(Value::as_str) {
            Some("completed") => Some(End::Completed),
            Some("incomplete") => Some(cut(response)),
            None if response.get("output").is_some_and(Value::is_array) => Some(End::Completed),
            _ => None,
        };
        Ok(())
    }

    fn added(&mut self, event: &Value) -> Result<(), ModelError> {
        let Some(Value::Object(item)) = event.get("item") else { return Ok(()) };
        // Some servers give every item the same index.
        let found = self.find(event, item).filter(|place| self.items[*place].done.is_none());
        let place = found.map_or_else(|| self.push(event, item), Ok)?;
        self.begin(place, item)
    }

    fn item_done(&mut self, event: &Value) -> Result<(), ModelError> {
        let Some(Value::Object(item)) = event.get("item") else { return Ok(()) };
        let id = field(item, "id");
        let found = self.find(event, item);
        if let Some(place) = found.filter(|place| self.items[*place].done.is_some()) {
            if id.is_empty() || id == self.items[place].id {
                return Ok(());
            }
            let place = self.push(event, item)?;
            return self.done(place, item);
        }
        let place = found.map_or_else(|| self.push(event, item), Ok)?;
        self.done(place, item)
    }

    /// The items at the end of a response. They matter if the server did not send them before.
    fn output(&mut self, response: &Value) -> Result<(), ModelError> {
        let output = response.get("output").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let is_new = self.items.is_empty();
        for (index, item) in output.iter().enumerate() {
            let Some(item) = item.as_object() else { continue };
            if is_new {
                let place = self.push(&Value::Null, item)?;
                self.done(place, item)?;
                continue;
            }
            let id = field(item, "id");
            let by_id = self.items.iter().position(|draft| !id.is_empty() && draft.id == id);
            let by_index = || self.items.iter().position(|draft| draft.index == Some(index as u64));
            if let Some(place) = by_id.or_else(by_index).filter(|place| self.items[*place].done.is_none()) {
                self.done(place, item)?;
            }
        }
        Ok(())
    }

    /// The item with the index or the ID of an event. Servers may change an ID, but not an index.
    fn find(&self, event: &Value, item: &Map<String, Value>) -> Option<usize> {
        let index = event.get("output_index").and_then(Value::as_u64);
        if index.is_some() {
            return self.items.iter().rposition(|draft| draft.index == index);
        }
        let id = event.get("item_id").or_else(|| item.get("id")).and_then(Value::as_str).unwrap_or_default();
        self.items.iter().rposition(|draft| !id.is_empty() && draft.id == id)
    }

    /// The item that a delta belongs to.
    fn place(&mut self, event: &Value, kind: Kind) -> Result<usize, ModelError> {
        // Some servers name neither index nor ID.
        let is_indexed = event.get("output_index").is_some_and(Value::is_u64);
        let has_id = !text(event, "item_id").is_empty();
        let is_free = |place: &usize| !has_id || self.items[*place].id.is_empty();
        let last = || if is_indexed { None } else { self.items.len().checked_sub(1).filter(is_free) };
        let none = Map::new();
        let found = self.find(event, &none).or_else(last).filter(|place| self.items[*place].content.is(kind));
        if let Some(place) = found {
            return Ok(place);
        }
        let mut item = Map::new();
        let name = match kind {
            Kind::Message => "message",
            Kind::Reasoning => "reasoning",
            Kind::Call => "function_call",
        };
        item.insert("type".to_owned(), name.into());
        item.insert("id".to_owned(), text(event, "item_id").into());
        self.push(event, &item)
    }

    fn push(&mut self, event: &Value, item: &Map<String, Value>) -> Result<usize, ModelError> {
        meter::items(self.items.len() + 1)?;
        let content = match field(item, "type") {
            "message" => Content::Message(String::new()),
            "reasoning" => Content::Reasoning { text: String::new(), part: None },
            "function_call" => {
                let place = self.calls;
                self.calls += 1;
                meter::calls(self.calls)?;
                Content::Call(DraftCall {
                    place,
                    id: String::new(),
                    name: String::new(),
                    arguments: String::new(),
                    has_begun: false,
                })
            }
            _ => Content::Other,
        };
        let id = field(item, "id");
        meter::name(id.len())?;
        let index = event.get("output_index").and_then(Value::as_u64);
        self.items.push(DraftItem { index, id: id.to_owned(), content, done: None });
        Ok(self.items.len() - 1)
    }

    /// Takes over the name of a call, and sends its beginning.
    fn begin(&mut self, place: usize, item: &Map<String, Value>) -> Result<(), ModelError> {
        let (id, name) = (field(item, "call_id"), field(item, "name"));
        let is_taken = self
            .items
            .iter()
            .enumerate()
            .any(|(other, draft)| matches!(&draft.content, Content::Call(call) if other != place && call.id == id));
        let Content::Call(call) = &mut self.items[place].content else { return Ok(()) };
        if call.has_begun || name.is_empty() {
            return Ok(());
        }
        meter::name(id.len())?;
        meter::name(name.len())?;
        name.clone_into(&mut call.name);
        call.id = if id.is_empty() || is_taken { format!("call_{:016x}", fastrand::u64(..)) } else { id.to_owned() };
        call.has_begun = true;
        self.events.push(ModelEvent::CallBegan { index: call.place, id: call.id.clone(), name: call.name.clone() });
        if !call.arguments.is_empty() {
            self.events.push(ModelEvent::CallArguments { index: call.place, delta: call.arguments.clone() });
        }
        Ok(())
    }

    /// The whole item has arrived: sends what is missing of it.
    fn done(&mut self, place: usize, item: &Map<String, Value>) -> Result<(), ModelError> {
        let size = serde_json::to_string(item).map_or(0, |text| text.len());
        self.native = self.native.saturating_add(size);
        if self.native > MAX_NATIVE_BYTES {
            return Err(ModelError::TooLarge { limit: format!("{MAX_NATIVE_BYTES} bytes of items") });
        }
        match &self.items[place].content {
            Content::Message(sent) => {
                let whole = message_text(item);
                self.is_refusal |= has_refusal(item);
                if let Some(more) = whole.strip_prefix(sent.as_str()).map(str::to_owned) {
                    self.say(place, &more)?;
                }
            }
            Content::Reasoning { text: sent, .. } => {
                if let Some(more) = reasoning_text(item).strip_prefix(sent.as_str()).map(str::to_owned) {
                    self.think(place, &more)?;
                }
            }
            Content::Call(_) => {
                self.begin(place, item)?;
                match item.get("arguments") {
                    Some(Value::String(arguments)) => self.all_arguments(place, arguments)?,
                    None | Some(Value::Null) => {}
                    Some(arguments) => self.all_arguments(place, &arguments.to_string())?,
                }
            }
            Content::Other => {}
        }
        self.items[place].done = Some(item.clone());
        Ok(())
    }

    fn text(&mut self, event: &Value) -> Result<(), ModelError> {
        let place = self.place(event, Kind::Message)?;
        self.say(place, text(event, "delta"))
    }

    fn reasoning(&mut self, event: &Value, kind: &'static str, index: &str) -> Result<(), ModelError> {
        let place = self.place(event, Kind::Reasoning)?;
        let delta = text(event, "delta");
        let Content::Reasoning { text, part } = &mut self.items[place].content else { return Ok(()) };
        if delta.is_empty() {
            return Ok(());
        }
        let key = (kind, event.get(index).and_then(Value::as_u64).unwrap_or_default());
        let is_next = part.replace(key).is_some_and(|last| last != key) && !text.is_empty();
        if is_next { self.think(place, &format!("{PARAGRAPH}{delta}")) } else { self.think(place, delta) }
    }

    fn say(&mut self, place: usize, delta: &str) -> Result<(), ModelError> {
        if let Content::Message(text) = &mut self.items[place].content
            && !delta.is_empty()
        {
            self.meter.text(delta.len())?;
            text.push_str(delta);
            self.events.push(ModelEvent::Text(delta.to_owned()));
        }
        Ok(())
    }

    fn think(&mut self, place: usize, delta: &str) -> Result<(), ModelError> {
        if let Content::Reasoning { text, .. } = &mut self.items[place].content
            && !delta.is_empty()
        {
            self.meter.text(delta.len())?;
            text.push_str(delta);
            self.events.push(ModelEvent::Reasoning(delta.to_owned()));
        }
        Ok(())
    }

    fn more_arguments(&mut self, place: usize, delta: &str) -> Result<(), ModelError> {
        if let Content::Call(call) = &mut self.items[place].content
            && !delta.is_empty()
        {
            meter::arguments(call.arguments.len() + delta.len())?;
            call.arguments.push_str(delta);
            if call.has_begun {
                self.events.push(ModelEvent::CallArguments { index: call.place, delta: delta.to_owned() });
            }
        }
        Ok(())
    }

    /// Arguments that continue what was sent. If they do not, what was sent counts.
    fn all_arguments(&mut self, place: usize, arguments: &str) -> Result<(), ModelError> {
        if let Content::Call(call) = &self.items[place].content
            && let Some(more) = arguments.strip_prefix(call.arguments.as_str())
        {
            return self.more_arguments(place, more);
        }
        Ok(())
    }

    /// The answer. Gives empty arguments the form of an object.
    pub(super) fn finish(&mut self, origin: &str) -> Result<Ended, ModelError> {
        let Some(end) = self.end else { return Ok(Ended::Early) };
        for place in 0..self.items.len() {
            let Content::Call(call) = &self.items[place].content else { continue };
            if !call.has_begun {
                return Ok(Ended::NamelessCall);
            }
            if call.arguments.trim().is_empty() {
                self.more_arguments(place, "{}")?;
            }
        }
        let stop = match end {
            End::Cut => StopReason::Length,
            End::Filtered => StopReason::Refusal,
            End::Completed if self.is_refusal => StopReason::Refusal,
            End::Completed if self.calls > 0 => StopReason::Calls,
            End::Completed => StopReason::End,
        };
        let items = std::mem::take(&mut self.items).into_iter().filter_map(|item| item.finished(origin)).collect();
        Ok(Ended::Whole(ModelAnswer { items, stop, usage: self.usage }))
    }
}

impl DraftItem {
    fn finished(self, origin: &str) -> Option<Item> {
        let native = |fields: Map<String, Value>| Native { origin: origin.to_owned(), value: fields.into() };
        match self.content {
            Content::Message(text) => {
                // The server's form must not say anything else than what was sent.
                let done = self.done.filter(|item| message_text(item) == text);
                let is_empty = text.is_empty() && done.is_none();
                (!is_empty).then(|| Item::Assistant { text, native: done.map(native) })
            }
            Content::Reasoning { text, .. } => {
                let is_empty = text.is_empty() && self.done.is_none();
                (!is_empty).then(|| Item::Reasoning { text, native: self.done.map(native) })
            }
            Content::Call(call) => {
                let known = ["type", "call_id", "name", "arguments"];
                let mut extra = self.done.unwrap_or_default();
                extra.retain(|name, _| !known.contains(&name.as_str()));
                let native = (!extra.is_empty()).then(|| native(extra));
                Some(Item::Call(Call { id: call.id, name: call.name, arguments: call.arguments, native }))
            }
            Content::Other => self.done.map(|item| Item::Reasoning { text: String::new(), native: Some(native(item)) }),
        }
    }
}

impl Content {
    fn is(&self, kind: Kind) -> bool {
        matches!(
            (self, kind),
            (Self::Message(_), Kind::Message) | (Self::Reasoning { .. }, Kind::Reasoning) | (Self::Call(_), Kind::Call)
        )
    }
}

/// Stands between two parts of a reasoning.
const PARAGRAPH: &str = "\n\n";

fn text<'a>(event: &'a Value, name: &str) -> &'a str {
    event.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn field<'a>(item: &'a Map<String, Value>, name: &str) -> &'a str {
    item.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn parts<'a>(item: &'a Map<String, Value>, name: &str) -> &'a [Value] {
    item.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn message_text(item: &Map<String, Value>) -> String {
    if let Some(Value::String(text)) = item.get("content") {
        return text.clone();
    }
    parts(item, "content").iter().map(|part| [text(part, "text"), text(part, "refusal")].concat()).collect()
}

fn has_refusal(item: &Map<String, Value>) -> bool {
    parts(item, "content").iter().any(|part| !text(part, "refusal").is_empty())
}

fn reasoning_text(item: &Map<String, Value>) -> String {
    let parts = parts(item, "summary").iter().chain(parts(item, "content"));
    let texts: Vec<_> = parts.map(|part| text(part, "text")).filter(|text| !text.is_empty()).collect();
    texts.join(PARAGRAPH)
}

/// Why a response is incomplete.
fn cut(response: &Value) -> End {
    match response.pointer("/incomplete_details/reason").and_then(Value::as_str) {
        Some("content_filter") => End::Filtered,
        _ => End::Cut,
    }
}

fn read_usage(response: &Value) -> Usage {
    let number = |pointer: &str| response.pointer(pointer).and_then(Value::as_u64).unwrap_or_default();
    Usage {
        input_tokens: number("/usage/input_tokens"),
        cached_tokens: number("/usage/input_tokens_details/cached_tokens"),
        cache_write_tokens: number("/usage/input_tokens_details/cache_write_tokens"),
        output_tokens: number("/usage/output_tokens"),
        reasoning_tokens: number("/usage/output_tokens_details/reasoning_tokens"),
    }
}

#[cfg(test)]
mod tests;
