//! Answers of Messages.

use serde_json::{Value, json};

use crate::conversation::Wire;
use crate::output::{Beat, Encoder, Output, Part, Usage, sse};
use crate::script::FinishReason;

/// Encodes a message or its events.
pub(crate) struct MessagesEncoder {
    id: String,
    model: String,
    prompt: Usage,
    output: Output,
}

impl MessagesEncoder {
    pub(crate) fn new(id: String, model: String, prompt: Usage) -> Self {
        Self { id, model, prompt, output: Output::default() }
    }

    fn message(&self, content: &[Value], reason: Option<&str>, usage: &Value) -> Value {
        json!({
            "id": self.id,
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": content,
            "stop_reason": reason,
            "stop_sequence": null,
            "usage": usage,
        })
    }

    fn index(&self, part: usize) -> u32 {
        match self.output.parts.get(part) {
            Some(Part::Call { start, .. }) => start.index.unwrap_or(part as u32),
            _ => part as u32,
        }
    }

    fn start(&self, part: usize, block: &Value) -> Vec<u8> {
        let start = json!({"type": "content_block_start", "index": self.index(part), "content_block": block});
        sse(Some("content_block_start"), &start)
    }

    fn delta(&self, part: usize, delta: &Value) -> Vec<u8> {
        let event = json!({"type": "content_block_delta", "index": self.index(part), "delta": delta});
        sse(Some("content_block_delta"), &event)
    }

    fn stop(&self, part: usize) -> Vec<u8> {
        sse(Some("content_block_stop"), &json!({"type": "content_block_stop", "index": self.index(part)}))
    }

    fn close_reasoning(&self, part: usize) -> Vec<u8> {
        let mut bytes = match self.output.parts.get(part) {
            // The data of a redacted block is known only now, and there are no deltas of it.
            Some(Part::Reasoning { is_redacted: true, sealed, .. }) => {
                self.start(part, &json!({"type": "redacted_thinking", "data": sealed}))
            }
            Some(Part::Reasoning { sealed, .. }) => {
                self.delta(part, &json!({"type": "signature_delta", "signature": sealed}))
            }
            _ => Vec::new(),
        };
        bytes.extend(self.stop(part));
        bytes
    }
}

impl Encoder for MessagesEncoder {
    fn begin(&mut self) -> Vec<u8> {
        let usage = usage_figures(Usage { output: 1, ..self.prompt });
        let message = self.message(&[], None, &usage);
        let mut bytes = sse(Some("message_start"), &json!({"type": "message_start", "message": message}));
        bytes.extend(sse(Some("ping"), &json!({"type": "ping"})));
        bytes
    }

    fn beat(&mut self, beat: &Beat) -> Vec<u8> {
        if let Beat::Together(beats) = beat {
            return beats.iter().flat_map(|beat| self.beat(beat)).collect();
        }
        self.output.apply(beat);
        let last = self.output.parts.len().saturating_sub(1);
        match beat {
            Beat::OpenReasoning { is_redacted: false } => {
                self.start(last, &json!({"type": "thinking", "thinking": "", "signature": ""}))
            }
            Beat::Reasoning(piece) => self.delta(last, &json!({"type": "thinking_delta", "thinking": piece})),
            Beat::CloseReasoning { .. } => self.close_reasoning(last),
            Beat::OpenText => self.start(last, &json!({"type": "text", "text": ""})),
            Beat::Text(piece) => self.delta(last, &json!({"type": "text_delta", "text": piece})),
            Beat::CloseText => self.stop(last),
            Beat::OpenCall(start) => {
                self.start(last, &json!({"type": "tool_use", "id": start.id, "name": start.name, "input": {}}))
            }
            Beat::Arguments { slot, piece } => {
                let part = self.output.position(*slot).unwrap_or(last);
                self.delta(part, &json!({"type": "input_json_delta", "partial_json": piece}))
            }
            Beat::CloseCall { slot } => self.stop(self.output.position(*slot).unwrap_or(last)),
            Beat::Fail(fault) => sse(Some("error"), &fault.body(Wire::Messages)),
            Beat::Finish { reason, usage, has_end } => {
                let event = json!({
                    "type": "message_delta",
                    "delta": {"stop_reason": stop_reason(*reason), "stop_sequence": null},
                    "usage": usage_figures(*usage),
                });
                let mut bytes = sse(Some("message_delta"), &event);
                if *has_end {
                    bytes.extend(sse(Some("message_stop"), &json!({"type": "message_stop"})));
                }
                bytes
            }
            Beat::OpenReasoning { .. } | Beat::HoldContent | Beat::Together(_) => Vec::new(),
        }
    }

    fn whole(&mut self, output: &Output) -> Value {
        if let Some(fault) = &output.fault {
            return fault.body(Wire::Messages);
        }
        let content: Vec<Value> = output.parts.iter().map(block).collect();
        let (reason, usage) = output.finish.unwrap_or((FinishReason::Stop, self.prompt));
        self.message(&content, Some(stop_reason(reason)), &usage_figures(usage))
    }
}

fn block(part: &Part) -> Value {
    match part {
        Part::Text(text) => json!({"type": "text", "text": text}),
        Part::Reasoning { is_redacted: true, sealed, .. } => json!({"type": "redacted_thinking", "data": sealed}),
        Part::Reasoning { text, sealed, .. } => json!({"type": "thinking", "thinking": text, "signature": sealed}),
        Part::Call { start, arguments } => {
            // Arguments that are not JSON are sent as the script has them.
            let text = if arguments.is_empty() { "{}" } else { arguments };
            let input = serde_json::from_str(text).unwrap_or_else(|_| Value::String(arguments.clone()));
            json!({"type": "tool_use", "id": start.id, "name": start.name, "input": input})
        }
    }
}

fn stop_reason(reason: FinishReason) -> &'static str {
    match reason {
        FinishReason::Stop => "end_turn",
        FinishReason::ToolCalls => "tool_use",
        FinishReason::Length => "max_tokens",
        FinishReason::ContentFilter => "refusal",
    }
}

/// Here, cached tokens are not part of the input tokens.
fn usage_figures(usage: Usage) -> Value {
    json!({
        "input_tokens": usage.input.saturating_sub(usage.cached + usage.written),
        "cache_read_input_tokens": usage.cached,
        "cache_creation_input_tokens": usage.written,
        "output_tokens": usage.output,
    })
}
