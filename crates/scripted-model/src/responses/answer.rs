//! Answers of Responses.

use serde_json::{Map, Value, json};

use super::object::{Template, summary, text_part};
use crate::output::{Beat, Encoder, Output, Part, sse};
use crate::script::FinishReason;

/// Encodes a response or its events.
pub(crate) struct ResponsesEncoder {
    template: Template,
    output: Output,
    sequence: u64,
}

impl ResponsesEncoder {
    pub(crate) fn new(nonce: String, created: u64, include_encrypted: bool, request: Value) -> Self {
        let template = Template { nonce, created, include_encrypted, request };
        Self { template, output: Output::default(), sequence: 0 }
    }

    fn event(&mut self, kind: &str, fields: Value) -> Vec<u8> {
        let mut event = if let Value::Object(fields) = fields { fields } else { Map::new() };
        event.insert("type".to_owned(), kind.into());
        event.insert("sequence_number".to_owned(), self.sequence.into());
        self.sequence += 1;
        sse(Some(kind), &event.into())
    }

    fn response_event(&mut self, kind: &str, status: &str) -> Vec<u8> {
        let response = self.template.response(&self.output, status);
        self.event(kind, json!({"response": response}))
    }

    /// An event of the item that is this part.
    fn item_event(&mut self, kind: &str, part: usize, mut fields: Value) -> Vec<u8> {
        let (prefix, index) = match self.output.parts.get(part) {
            Some(Part::Call { start, .. }) => ("fc", start.index),
            Some(Part::Reasoning { .. }) => ("rs", None),
            _ => ("msg", None),
        };
        fields["output_index"] = index.unwrap_or(part as u32).into();
        if fields.get("item").is_none() {
            fields["item_id"] = self.template.item_id(prefix, part).into();
        }
        self.event(kind, fields)
    }

    fn whole_item(&mut self, kind: &str, part: usize, status: &str) -> Vec<u8> {
        let item = self.template.item(&self.output, part, status);
        self.item_event(kind, part, json!({"item": item}))
    }

    fn text_of(&self, part: usize) -> String {
        match self.output.parts.get(part) {
            Some(Part::Text(text) | Part::Reasoning { text, .. } | Part::Call { arguments: text, .. }) => text.clone(),
            None => String::new(),
        }
    }

    fn open(&mut self, part: usize) -> Vec<u8> {
        let mut bytes = self.whole_item("response.output_item.added", part, "in_progress");
        match self.output.parts.get(part) {
            Some(Part::Text(_)) => {
                let fields = json!({"content_index": 0, "part": text_part("")});
                bytes.extend(self.item_event("response.content_part.added", part, fields));
            }
            Some(Part::Reasoning { is_redacted: false, .. }) => {
                let fields = json!({"summary_index": 0, "part": summary("")});
                bytes.extend(self.item_event("response.reasoning_summary_part.added", part, fields));
            }
            _ => {}
        }
        bytes
    }

    fn close(&mut self, part: usize) -> Vec<u8> {
        let text = self.text_of(part);
        let mut bytes = Vec::new();
        match self.output.parts.get(part) {
            Some(Part::Text(_)) => {
                let done = json!({"content_index": 0, "text": text, "logprobs": []});
                bytes.extend(self.item_event("response.output_text.done", part, done));
                let fields = json!({"content_index": 0, "part": text_part(&text)});
                bytes.extend(self.item_event("response.content_part.done", part, fields));
            }
            Some(Part::Reasoning { is_redacted: false, .. }) => {
                let done = json!({"summary_index": 0, "text": text});
                bytes.extend(self.item_event("response.reasoning_summary_text.done", part, done));
                let fields = json!({"summary_index": 0, "part": summary(&text)});
                bytes.extend(self.item_event("response.reasoning_summary_part.done", part, fields));
            }
            Some(Part::Call { start, .. }) => {
                let done = json!({"arguments": text, "name": start.name});
                bytes.extend(self.item_event("response.function_call_arguments.done", part, done));
            }
            _ => {}
        }
        bytes.extend(self.whole_item("response.output_item.done", part, "completed"));
        bytes
    }

    fn status(&self) -> &'static str {
        match (&self.output.fault, self.output.finish) {
            (Some(_), _) => "failed",
            (None, Some((FinishReason::Length | FinishReason::ContentFilter, _))) => "incomplete",
            _ => "completed",
        }
    }
}

impl Encoder for ResponsesEncoder {
    fn begin(&mut self) -> Vec<u8> {
        let mut bytes = self.response_event("response.created", "in_progress");
        bytes.extend(self.response_event("response.in_progress", "in_progress"));
        bytes
    }

    fn beat(&mut self, beat: &Beat) -> Vec<u8> {
        if let Beat::Together(beats) = beat {
            return beats.iter().flat_map(|beat| self.beat(beat)).collect();
        }
        self.output.apply(beat);
        let last = self.output.parts.len().saturating_sub(1);
        match beat {
            Beat::OpenReasoning { .. } | Beat::OpenText | Beat::OpenCall(_) => self.open(last),
            Beat::Reasoning(piece) => {
                let fields = json!({"summary_index": 0, "delta": piece});
                self.item_event("response.reasoning_summary_text.delta", last, fields)
            }
            Beat::Text(piece) => {
                let fields = json!({"content_index": 0, "delta": piece, "logprobs": []});
                self.item_event("response.output_text.delta", last, fields)
            }
            Beat::Arguments { slot, piece } => {
                let part = self.output.position(*slot).unwrap_or(last);
                self.item_event("response.function_call_arguments.delta", part, json!({"delta": piece}))
            }
            Beat::CloseReasoning { .. } | Beat::CloseText => self.close(last),
            Beat::CloseCall { slot } => {
                let part = self.output.position(*slot).unwrap_or(last);
                self.close(part)
            }
            Beat::Fail(fault) => {
                let error = json!({
                    "code": fault.code.as_deref().unwrap_or("server_error"),
                    "message": fault.message,
                    "param": null,
                });
                let mut bytes = self.event("error", error);
                bytes.extend(self.response_event("response.failed", "failed"));
                bytes
            }
            Beat::Finish { has_end: true, .. } => {
                let status = self.status();
                self.response_event(&format!("response.{status}"), status)
            }
            Beat::Finish { .. } | Beat::HoldContent | Beat::Together(_) => Vec::new(),
        }
    }

    fn whole(&mut self, output: &Output) -> Value {
        self.output = output.clone();
        self.template.response(output, self.status())
    }
}
