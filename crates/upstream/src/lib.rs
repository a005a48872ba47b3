//! Connections to other people's MCP servers: child processes, streamable HTTP, and the older HTTP with server-sent
//! events; the protocol's revisions, OAuth, health.
//!
//! Start at [`Upstream`], which holds one connection per user and server, or one for all where a server is shared.
//! `slot.rs` decides when a connection starts and what its failure means, `connect.rs` starts one, `connection.rs`
//! uses it. Below them are the transports (`stdio.rs`, `http.rs`, `sse.rs`) and `screen.rs`, through which everything
//! that a server sends must pass; `desk.rs` is what the two sides share. What servers ask in their turn is `reverse.rs`.
//! `lending.rs` is how commands use the connections of a running `coracle up`.
//!
//! **Invariants:** types of the MCP library stop here. Everything that a server sends is hostile: its size has a cap
//! before it is read, and no text of it reaches an error or a log without being shortened and cleaned. No secret of a
//! [`ServerSpec`](coracle_types::ServerSpec) is ever part of an error, a log line or a `Debug` text.

mod call;
mod challenge;
mod connect;
mod connection;
mod content;
mod desk;
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
mod tokens;
mod tools;
mod upstream;

pub use call::{CallContext, Progress, Resume};
pub use error::UpstreamError;
pub use lender::Lender;
pub use options::{CHAIN_CAPABILITY, CHAIN_VARIABLE, DEFAULT_IDLE_TIMEOUT, Options};
pub use reverse::{Question, QuestionKind, Refusal, Reverse};
pub use status::{Change, Changed, Offers, Owner, ServerInfo, ServerState, ServerStatus};
pub use stdio::{PassedEnvironment, WARDEN_ARGUMENT, warden_main};
pub use tokens::{MemoryTokens, TokenStore, TokenStoreError};
pub use tools::{ToolList, ToolWarning};
pub use upstream::Upstream;
