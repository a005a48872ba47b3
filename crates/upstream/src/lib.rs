//! Connections to MCP servers: child processes, streamable HTTP, and the older HTTP with server-sent events; the
//! protocol's revisions, OAuth, health.
//!
//! Start at [`Upstream`], which holds one connection per user and server, or one for all users if a server is shared.
//! `slot.rs` decides when a connection starts and what its failure means, `connect.rs` starts it, and `connection.rs`
//! uses it. Below them are the transports (`stdio.rs`, `http.rs`, `sse.rs`) and `screen.rs`, which every message of a
//! server passes; `connection_state.rs` is the state that both sides share. `reverse.rs` handles questions that servers
//! ask. `lending.rs` lets commands use the connections of a running `coracle up`.
//!
//! **Invariants:** types of the MCP library do not leave this crate. Everything that a server sends is untrusted: its
//! size is limited before it is read, and its text is shortened and cleaned before it reaches an error or a log. No
//! secret of a [`ServerSpec`](coracle_types::ServerSpec) is ever part of an error, a log line or `Debug` output.

mod call;
mod challenge;
mod connect;
mod connection;
mod connection_state;
mod content;
mod error;
mod gateway;
mod http;
mod lender;
mod lending;
mod lines;
mod login;
mod options;
mod reverse;
mod screen;
mod scrub;
mod shared;
mod slot;
mod sse;
mod status;
mod stdio;
mod token_store;
mod tools;
mod upstream;

pub use call::{CallContext, Progress, Resume};
pub use error::UpstreamError;
pub use lender::Lender;
pub use login::SignInReturn;
pub use options::{CHAIN_CAPABILITY, CHAIN_VARIABLE, DEFAULT_IDLE_TIMEOUT, Options};
pub use reverse::{Question, QuestionKind, Refusal, Reverse};
pub use status::{Change, Changed, Offers, Owner, ServerInfo, ServerState, ServerStatus};
pub use stdio::{PassedEnvironment, WARDEN_ARGUMENT, warden_main};
pub use token_store::{MemoryTokens, TokenStore, TokenStoreError};
pub use tools::{ToolList, ToolWarning};
pub use upstream::Upstream;
