//! What is played, in a form that all wires share.

use serde_json::Value;

use crate::fault::Fault;
use crate::script::FinishReason;

/// One event of an answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Beat {
    /// The next content is held back, so that the finish reason can go with it.
    HoldContent,
    OpenReasoning {
        is_redacted: bool,
    },
    Reasoning(String),
    CloseReasoning {
        sealed: String,
        is_encrypted: bool,
    },
    OpenText,
    Text(String),
    CloseText,
    OpenCall(CallStart),
    Arguments {
        slot: usize,
        piece: String,
    },
    CloseCall {
        slot: usize,
    },
    /// Events that go into one chunk, where the wire can do that.
    Together(Vec<Beat>),
    /// An error, after which the answer ends.
    Fail(Fault),
    Finish {
        reason: FinishReason,
        usage: Usage,
        has_end: bool,
    },
}

/// The beginning of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CallStart {
    /// The number of the call in its turn.
    pub(crate) slot: usize,
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) split_name: bool,
    pub(crate) index: Option<u32>,
    pub(crate) signature: Option<String>,
}

/// Token counts. `input` includes `cached` and `written`, and `output` includes `reasoning`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) input: u64,
    pub(crate) cached: u64,
    pub(crate) written: u64,
    pub(crate) output: u64,
    pub(crate) reasoning: u64,
}

/// Encodes one answer. `begin` is called first, and `beat` for each event.
pub(crate) trait Encoder: Send {
    fn begin(&mut self) -> Vec<u8>;
    fn beat(&mut self, beat: &Beat) -> Vec<u8>;
    /// The body of an answer that is not streamed.
    fn whole(&mut self, output: &Output) -> Value;
}

/// A part of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Reasoning { text: String, is_redacted: bool, sealed: String, is_encrypted: bool },
    Text(String),
    Call { start: CallStart, arguments: String },
}

/// An answer as far as it has been played.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Output {
    pub(crate) parts: Vec<Part>,
    pub(crate) finish: Option<(FinishReason, Usage)>,
    pub(crate) fault: Option<Fault>,
}

impl Output {
    /// Takes an event into account.
    pub(crate) fn apply(&mut self, beat: &Beat) {
        match beat {
            Beat::OpenReasoning { is_redacted } => self.parts.push(Part::Reasoning {
                text: String::new(),
                is_redacted: *is_redacted,
                sealed: String::new(),
                is_encrypted: false,
            }),
            Beat::Reasoning(piece) => {
                if let Some(Part::Reasoning { text, .. }) = self.parts.last_mut() {
                    text.push_str(piece);
                }
            }
            Beat::CloseReasoning { sealed: seal, is_encrypted: encrypted } => {
                if let Some(Part::Reasoning { sealed, is_encrypted, .. }) = self.parts.last_mut() {
                    (*sealed, *is_encrypted) = (seal.clone(), *encrypted);
                }
            }
            Beat::OpenText => self.parts.push(Part::Text(String::new())),
            Beat::Text(piece) => {
                if let Some(Part::Text(text)) = self.parts.last_mut() {
                    text.push_str(piece);
                }
            }
            Beat::OpenCall(start) => self.parts.push(Part::Call { start: start.clone(), arguments: String::new() }),
            Beat::Arguments { slot, piece } => {
                if let Some(Part::Call { arguments, .. }) = self.call(*slot) {
                    arguments.push_str(piece);
                }
            }
            Beat::Together(beats) => beats.iter().for_each(|beat| self.apply(beat)),
            Beat::Fail(fault) => self.fault = Some(fault.clone()),
            Beat::Finish { reason, usage, .. } => self.finish = Some((*reason, *usage)),
            Beat::HoldContent | Beat::CloseText | Beat::CloseCall { .. } => {}
        }
    }

    /// The index of the part that is this call.
    pub(crate) fn position(&self, slot: usize) -> Option<usize> {
        self.parts.iter().position(|part| matches!(part, Part::Call { start, .. } if start.slot == slot))
    }

    fn call(&mut self, slot: usize) -> Option<&mut Part> {
        let position = self.position(slot)?;
        self.parts.get_mut(position)
    }
}

/// An event of a stream of server-sent events.
pub(crate) fn sse(event: Option<&str>, data: &Value) -> Vec<u8> {
    let name = event.map(|event| format!("event: {event}\n")).unwrap_or_default();
    format!("{name}data: {data}\n\n").into_bytes()
}
