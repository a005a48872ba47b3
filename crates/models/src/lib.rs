//! Clients of language models: one trait, [`ModelProvider`], and three wire formats behind it.
//!
//! Start at `provider.rs` for the trait and at `conversation.rs` for what is sent. `endpoint.rs` sends requests, repeats
//! them where that is safe, and reads errors; `events.rs` reads the stream of an answer; `meter.rs` has the limits of one
//! answer. A wire format is one file: it writes a [`ModelRequest`] as JSON and reads the events of an answer.
//! `discovery.rs` finds model servers on this machine.
//!
//! Invariants: everything that a model's server sends has a size limit before it is read, and is checked before it is
//! used. A key is only sent to the address that it is configured for: redirects are not followed, and no error, log
//! line or `Debug` output contains it. Requests with the same beginning of a conversation begin with the same bytes, so
//! that providers can cache it. This crate knows nothing of tools, sandboxes or users.

mod chat_completions;
mod context_windows;
mod conversation;
mod directory;
mod discovery;
mod endpoint;
mod error;
mod events;
mod messages;
mod meter;
mod provider;
mod responses;

pub use chat_completions::{ChatCompletions, Dialect};
pub use context_windows::usual_context;
pub use conversation::{
    Call, CallResult, Effort, Item, ModelRequest, Native, Part, ResponseFormat, ToolChoice, ToolDefinition,
};
pub use directory::{Api, ChoiceError, ChosenModel, Directory, DirectoryError, ProviderSettings};
pub use discovery::{FoundServer, LOCAL_SERVERS, LocalServer, find_servers};
pub use endpoint::{Endpoint, EndpointSettings, KeyHeader};
pub use error::{ModelError, SettingsError};
pub use messages::Messages;
pub use meter::{MAX_ARGUMENT_BYTES, MAX_CALLS, MAX_TEXT_BYTES};
pub use provider::{ModelAnswer, ModelEvent, ModelProvider, StopReason, Usage};
pub use responses::Responses;
