//! Answers of Chat Completions.

use serde_json::{Map, Value, json};

use crate::output::{Beat, CallStart, Encoder, Output, Part, Usage, sse};
use crate::script::FinishReason;

/// Encodes a completion or its chunks.
pub(crate) struct ChatEncoder {
    pub(crate) id: String,
    pub(crate) created: u64,
    pub(crate) model: String,
    pub(crate) include_usage: bool,
    /// Indexes that the script demands, by slot.
    indexes: Vec<u32>,
    holds_content: bool,
    /// Content that waits for the finish reason.
    held: Option<String>,
}

impl ChatEncoder {
    pub(crate) fn new(id: String, created: u64, model: String, include_usage: bool) -> Self {
        Self { id, created, model, include_usage, indexes: Vec::new(), holds_content: false, held: None }
    }

    fn chunk(&self, choices: &Value, usage: Value) -> Vec<u8> {
        let mut chunk = json!({
            "id": self.id,
            "object": "chat.completion.chunk",
            "created": self.created,
            "model": self.model,
            "service_tier": "default",
            "system_fingerprint": "fp_scripted",
            "choices": choices,
        });
        if self.include_usage {
            chunk["usage"] = usage;
        }
        sse(None, &chunk)
    }

    fn delta(&self, delta: &Value, finish: Option<&str>) -> Vec<u8> {
        let choices = json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish}]);
        self.chunk(&choices, Value::Null)
    }

    fn open_call(&mut self, start: &CallStart) -> Value {
        self.indexes.push(start.index.unwrap_or(start.slot as u32));
        let mut call = json!({
            "index": self.index(start.slot),
            "id": start.id,
            "type": "function",
            "function": {"name": start.name, "arguments": ""},
        });
        if let Some(signature) = &start.signature {
            call["extra_content"] = extra_content(signature);
        }
        call
    }

    fn index(&self, slot: usize) -> u32 {
        self.indexes.get(slot).copied().unwrap_or_default()
    }

    /// All calls of a group in one chunk.
    fn together(&mut self, beats: &[Beat]) -> Vec<u8> {
        let mut calls: Vec<Value> = Vec::new();
        for beat in beats {
            match beat {
                Beat::OpenCall(start) => calls.push(self.open_call(start)),
                Beat::Arguments { piece, .. } => {
                    if let Some(call) = calls.last_mut() {
                        call["function"]["arguments"] = piece.clone().into();
                    }
                }
                _ => {}
            }
        }
        self.delta(&json!({"tool_calls": calls}), None)
    }

    fn call(&mut self, start: &CallStart) -> Vec<u8> {
        let mut call = self.open_call(start);
        let middle = start.name.char_indices().nth(start.name.chars().count() / 2).map_or(0, |(middle, _)| middle);
        if !start.split_name {
            return self.delta(&json!({"tool_calls": [call]}), None);
        }
        let (first, second) = start.name.split_at(middle);
        call["function"]["name"] = first.into();
        let rest = json!({"index": self.index(start.slot), "function": {"name": second}});
        let mut bytes = self.delta(&json!({"tool_calls": [call]}), None);
        bytes.extend(self.delta(&json!({"tool_calls": [rest]}), None));
        bytes
    }

    fn text(&mut self, piece: &str) -> Vec<u8> {
        if !self.holds_content {
            return self.delta(&json!({"content": piece}), None);
        }
        let earlier = self.held.replace(piece.to_owned());
        earlier.map(|earlier| self.delta(&json!({"content": earlier}), None)).unwrap_or_default()
    }

    fn finish(&mut self, reason: FinishReason, usage: Usage, has_end: bool) -> Vec<u8> {
        let last = self.held.take().map_or_else(|| json!({}), |held| json!({"content": held}));
        let mut bytes = self.delta(&last, Some(finish_reason(reason)));
        if self.include_usage {
            bytes.extend(self.chunk(&json!([]), usage_figures(usage)));
        }
        if has_end {
            bytes.extend(b"data: [DONE]\n\n");
        }
        bytes
    }
}

impl Encoder for ChatEncoder {
    fn begin(&mut self) -> Vec<u8> {
        self.delta(&json!({"role": "assistant", "content": "", "refusal": null}), None)
    }

    fn beat(&mut self, beat: &Beat) -> Vec<u8> {
        match beat {
            Beat::HoldContent => {
                self.holds_content = true;
                Vec::new()
            }
            Beat::Reasoning(piece) => self.delta(&json!({"reasoning_content": piece}), None),
            Beat::Text(piece) => self.text(piece),
            Beat::OpenCall(start) => self.call(start),
            Beat::Arguments { slot, piece } => {
                let call = json!({"index": self.index(*slot), "function": {"arguments": piece}});
                self.delta(&json!({"tool_calls": [call]}), None)
            }
            Beat::Together(beats) => self.together(beats),
            Beat::Fail(fault) => sse(None, &json!({"error": fault.openai_error()})),
            Beat::Finish { reason, usage, has_end } => self.finish(*reason, *usage, *has_end),
            Beat::OpenReasoning { .. }
            | Beat::CloseReasoning { .. }
            | Beat::OpenText
            | Beat::CloseText
            | Beat::CloseCall { .. } => Vec::new(),
        }
    }

    fn whole(&mut self, output: &Output) -> Value {
        if let Some(fault) = &output.fault {
            return json!({"error": fault.openai_error()});
        }
        let (mut text, mut reasoning, mut calls) = (String::new(), String::new(), Vec::new());
        for part in &output.parts {
            match part {
                Part::Text(piece) => text.push_str(piece),
                Part::Reasoning { text, .. } => reasoning.push_str(text),
                Part::Call { start, arguments } => {
                    let mut call = json!({
                        "id": start.id,
                        "type": "function",
                        "function": {"name": start.name, "arguments": arguments},
                    });
                    if let Some(signature) = &start.signature {
                        call["extra_content"] = extra_content(signature);
                    }
                    calls.push(call);
                }
            }
        }
        let mut message = Map::new();
        message.insert("role".to_owned(), "assistant".into());
        message
            .insert("content".to_owned(), if text.is_empty() && !calls.is_empty() { Value::Null } else { text.into() });
        message.insert("refusal".to_owned(), Value::Null);
        message.insert("annotations".to_owned(), json!([]));
        if !reasoning.is_empty() {
            message.insert("reasoning_content".to_owned(), reasoning.into());
        }
        if !calls.is_empty() {
            message.insert("tool_calls".to_owned(), calls.into());
        }
        let (reason, usage) = output.finish.unwrap_or((FinishReason::Stop, Usage::default()));
        json!({
            "id": self.id,
            "object": "chat.completion",
            "created": self.created,
            "model": self.model,
            "service_tier": "default",
            "system_fingerprint": "fp_scripted",
            "choices": [{"index": 0, "message": message, "logprobs": null, "finish_reason": finish_reason(reason)}],
            "usage": usage_figures(usage),
        })
    }
}

fn extra_content(signature: &str) -> Value {
    json!({"google": {"thought_signature": signature}})
}

fn finish_reason(reason: FinishReason) -> &'static str {
    match reason {
        FinishReason::Stop => "stop",
        FinishReason::ToolCalls => "tool_calls",
        FinishReason::Length => "length",
        FinishReason::ContentFilter => "content_filter",
    }
}

fn usage_figures(usage: Usage) -> Value {
    json!({
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cached, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": usage.reasoning,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    })
}
