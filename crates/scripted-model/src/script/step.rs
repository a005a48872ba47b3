//! The steps of a turn.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// One step of a turn.
///
/// Strings may contain `{{result}}` (the text of the last tool result), `{{result:/a/0}}` (a value in it, if it is
/// JSON) and `{{user}}` (the text of the last user message).
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Reasoning, before or between the other output.
    #[serde(deserialize_with = "plain_or_full")]
    Reasoning(Reasoning),
    /// Text of the answer.
    #[serde(deserialize_with = "plain_or_full")]
    Text(Text),
    /// A tool call.
    Call(Call),
    /// Several tool calls whose parts are sent together.
    Calls(CallGroup),
    /// A pause.
    Wait(Wait),
    /// The connection breaks.
    Disconnect(Disconnect),
    /// The body ends here, in good order for HTTP but without anything that the wire sends at its end.
    Close,
    /// An HTTP error in place of the answer. Only pauses may come before it.
    Status(Status),
    /// An error object inside an answer with status 200. It ends the answer.
    Error(StreamError),
    /// Bytes that are sent as they are. In an answer that is not streamed, they are the whole body.
    Raw(Raw),
    /// The reason for which the answer ends, if it is not the natural one.
    Finish(FinishReason),
    /// Chat only: the finish reason is in the same chunk as the last content.
    FinishWithContent,
    /// Token counts in place of the estimate.
    Usage(UsageFigures),
    /// The end mark is missing: `[DONE]`, `response.completed` or `message_stop`.
    NoEnd,
}

impl Step {
    /// A step with text.
    pub fn text(text: &str) -> Self {
        Self::Text(Text { text: text.to_owned(), ..Text::default() })
    }

    /// A step with text that is sent in these pieces.
    pub fn pieces(pieces: &[&str]) -> Self {
        Self::Text(Text { pieces: pieces.iter().map(|piece| (*piece).to_owned()).collect(), ..Text::default() })
    }

    /// A step with reasoning.
    pub fn reasoning(text: &str) -> Self {
        Self::Reasoning(Reasoning { text: text.to_owned(), ..Reasoning::default() })
    }

    /// A step with a tool call.
    pub fn call(name: &str, arguments: Value) -> Self {
        Self::Call(Call::new(name, arguments))
    }

    /// A pause until a test opens the gate.
    pub fn gate(name: &str) -> Self {
        Self::Wait(Wait::Gate(name.to_owned()))
    }

    /// An HTTP error for the first `times` requests.
    pub fn status_times(code: u16, times: u64) -> Self {
        Self::Status(Status { times: Some(times), ..Status::new(code) })
    }

    pub(crate) fn calls(&self) -> &[Call] {
        match self {
            Self::Call(call) => std::slice::from_ref(call),
            Self::Calls(group) => &group.calls,
            _ => &[],
        }
    }
}

/// Reasoning. Messages sends it as signed thinking, Responses as a summary, Chat as `reasoning_content`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Reasoning {
    /// The text.
    pub text: String,
    /// Responses: whether the item has `encrypted_content`, if the request asks for it. It must then come back.
    pub encrypted: bool,
    /// Messages: whether the block is `redacted_thinking`.
    pub redacted: bool,
}

impl From<String> for Reasoning {
    fn from(text: String) -> Self {
        Self { text, ..Self::default() }
    }
}

/// Text: `text`, then `pieces`, then `repeat`. In a file, a plain string is enough.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Text {
    /// Text that is sent as one piece.
    pub text: String,
    /// Pieces that are sent one by one.
    pub pieces: Vec<String>,
    /// A piece that is sent many times.
    pub repeat: Option<Repeat>,
    /// The pause before each piece of `pieces` and `repeat`, in milliseconds.
    pub delay_ms: u64,
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self { text, ..Self::default() }
    }
}

/// A text that is sent many times.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Repeat {
    /// The text.
    pub piece: String,
    /// How often it is sent.
    pub times: u64,
}

/// A tool call.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// The name of the tool.
    pub name: String,
    /// The arguments. A string is sent as it is, whether or not it is JSON.
    #[serde(default)]
    pub arguments: Value,
    /// The id of the call. Without one, the server makes one up.
    #[serde(default)]
    pub id: Option<String>,
    /// The number of pieces in which the arguments are streamed. 0 is the same as 1.
    #[serde(default)]
    pub pieces: usize,
    /// Chat: whether the name is streamed in two pieces.
    #[serde(default)]
    pub split_name: bool,
    /// The index to send in place of the real one: `index` in Chat and Messages, `output_index` in Responses.
    #[serde(default)]
    pub index: Option<u32>,
    /// Chat: whether the call has `extra_content.google.thought_signature`, which must then come back.
    #[serde(default)]
    pub thought_signature: bool,
}

impl Call {
    /// A call of a tool.
    pub fn new(name: &str, arguments: Value) -> Self {
        Self { name: name.to_owned(), arguments, ..Self::default() }
    }
}

/// Several tool calls whose parts are sent together.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallGroup {
    /// The calls.
    pub calls: Vec<Call>,
    /// How their parts are mixed.
    #[serde(default)]
    pub arrangement: Arrangement,
}

/// How the parts of several calls are mixed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrangement {
    /// Chat sends all calls in one chunk. The other wires have no such thing, and send them one after the other.
    #[default]
    OneChunk,
    /// All calls begin, and then their arguments come in turns.
    Interleaved,
}

/// A pause.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wait {
    /// For some milliseconds.
    Ms(u64),
    /// Until the gate with this name is open.
    Gate(String),
}

/// A connection that breaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Disconnect {
    /// Number of requests that this applies to, the first ones that get here. Without it, all of them.
    pub times: Option<u64>,
}

/// An HTTP error. The body has the shape of the wire.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Status {
    /// The status code.
    pub code: u16,
    /// The value of the `retry-after` header.
    #[serde(default)]
    pub retry_after: Option<String>,
    /// The error's code, such as `context_length_exceeded`. Without one, it follows from the status code.
    #[serde(default)]
    pub error: Option<String>,
    /// The error's message.
    #[serde(default)]
    pub message: Option<String>,
    /// Number of requests that this applies to, the first ones that get here. Without it, all of them.
    #[serde(default)]
    pub times: Option<u64>,
    /// A body in place of the usual one.
    #[serde(default)]
    pub body: Option<Raw>,
}

impl Status {
    /// An error with this status code.
    pub fn new(code: u16) -> Self {
        Self { code, retry_after: None, error: None, message: None, times: None, body: None }
    }
}

/// An error object inside an answer with status 200.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StreamError {
    /// The error's code. Without one, it is that of an internal error.
    pub error: Option<String>,
    /// The error's message.
    pub message: Option<String>,
    /// Number of requests that this applies to, the first ones that get here. Without it, all of them.
    pub times: Option<u64>,
}

/// Bytes that are sent as they are: `text`, then `repeat`, then `endless`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Raw {
    /// Text that is sent once.
    pub text: String,
    /// Text that is sent many times.
    pub repeat: Option<Repeat>,
    /// Text that is sent until the client disconnects.
    pub endless: Option<String>,
}

/// The reason for which an answer ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// The model has said everything.
    Stop,
    /// The model calls tools.
    ToolCalls,
    /// The limit on output tokens is reached.
    Length,
    /// A filter has stopped the answer.
    ContentFilter,
}

/// Token counts. Those that are missing are estimated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct UsageFigures {
    /// Tokens of the prompt, with cached ones.
    pub input: Option<u64>,
    /// Tokens of the prompt that were cached.
    pub cached: Option<u64>,
    /// Tokens of the answer, with reasoning.
    pub output: Option<u64>,
    /// Tokens of reasoning.
    pub reasoning: Option<u64>,
}

/// Reads a value that may be written as a plain string.
fn plain_or_full<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + From<String>,
{
    deserializer.deserialize_any(PlainOrFull(PhantomData))
}

struct PlainOrFull<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de> + From<String>> Visitor<'de> for PlainOrFull<T> {
    type Value = T;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a string (quoted, if it could be a number or a truth value) or a map")
    }

    fn visit_str<E>(self, text: &str) -> Result<T, E> {
        Ok(T::from(text.to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map))
    }
}
