//! A model server that follows a script. Tests use it in place of a language model, and it needs no key.
//!
//! It speaks OpenAI Chat Completions (`/v1/chat/completions`), OpenAI Responses (`/v1/responses`) and Anthropic Messages
//! (`/v1/messages`), and lists its models (`/v1/models`, and `/api/tags` as Ollama does). It is written from the wire
//! formats, not from Coracle's clients, and rejects what the real servers reject, so that a client that works with it has
//! been tested.
//!
//! Start with [`Library`], which is the plain data that a script file has, and [`ScriptedModel`], which serves it. The
//! life of a request: a wire (`chat.rs`, `responses.rs`, `messages.rs`) checks the request and turns it into a
//! `Conversation`; `select.rs` finds the turn to play, or `rules.rs` makes one up; `perform.rs` plays its steps as
//! `Beat`s; and the wire's `answer.rs` encodes them.
//!
//! Invariants: the turn to play depends on the request alone, so that any number of conversations can run at once and a
//! restarted server continues them. Only `times` of a step is counted in the server. Everything that the server keeps
//! has a limit: [`MAX_REQUEST_BYTES`], [`MAX_RECORDED_BYTES`], [`MAX_GATES`] and the limits in `tokens.rs`.

mod chat;
mod control;
mod conversation;
mod fault;
mod gates;
mod messages;
mod output;
mod perform;
mod records;
mod responses;
mod rules;
mod script;
mod seal;
mod select;
mod server;
mod template;
mod tokens;

pub use conversation::Wire;
pub use gates::{Gates, MAX_GATES};
pub use records::{MAX_RECORDED_BYTES, Played, Recorded, Records};
pub use script::{
    Arrangement, Call, CallGroup, Disconnect, FinishReason, Library, Raw, Reasoning, Repeat, Rule, Rules, Script,
    ScriptError, Status, Step, StreamError, Text, Then, Turn, UsageFigures, Wait,
};
pub use server::{MAX_REQUEST_BYTES, ScriptedModel, Server, serve, serve_with_control};
