//! Coracle to the outside: MCP over stdio and streamable HTTP, and what operators look at.
//!
//! Start at [`Face`], which any number of clients share, and at [`serve_stdio`] and [`serve_http`], which connect it.
//! `mcp.rs` answers the protocol; in `mcp/`, `run.rs` follows one execution for one client, `outward.rs` is how a client is
//! asked something meanwhile, `shown.rs` is what a model gets to see, and `direct.rs` is the gateway.
//!
//! Invariants: the only crate that speaks HTTP and MCP to the outside. A client is hostile: everything that it sends has a
//! cap, and it is served only if Host and Origin are those of this machine or of the configuration. What it gets has a
//! budget in tokens. State between two calls is what the `session` argument names, never the connection.

mod accounts;
pub mod baseline;
mod gone;
mod http;
mod identity;
mod mcp;
mod metrics;
mod profile;
mod stdio;

pub use accounts::{
    AccountError, KeyMaker, LINK_LIFETIME, MIN_PASSWORD_CHARS, NameSource, People, is_good, is_machines, new_user_name,
    user_name,
};
pub use http::{AuthOptions, HttpOptions, openapi_document, serve_http};
pub use mcp::{Face, FaceOptions, INSTRUCTIONS, OfferedTool, count_tokens, offered_tools, tool_names};
pub use profile::{Profile, UnknownProfile};
pub use stdio::serve_stdio;
