//! Coracle as a server: MCP over stdio and streamable HTTP, and the HTTP API.
//!
//! Start at [`Frontend`], which all clients share, and at [`serve_stdio`] and [`serve_http`], which connect it.
//! `mcp.rs` answers the protocol; in `mcp/`, `run.rs` follows one execution for one client, `client_requests.rs` sends
//! questions to a client during a call, `render.rs` renders what a model sees, and `direct.rs` is the gateway.
//!
//! Invariants: this is the only crate that serves HTTP and MCP to clients. Clients are hostile: everything that a client
//! sends has a size limit, and a request is served only if its Host and Origin are those of this machine or of the
//! configuration. Every response has a token budget. State between two calls is named by the `session` argument, never
//! implied by the connection.

mod agent;
mod agent_runtime;
mod approvals;
mod artifact_archive;
mod configuration;
mod daily_tokens;
mod demo;
mod gone;
mod http;
mod identity;
mod late_approver;
mod mcp;
mod metrics;
mod pending_sign_ins;
mod personal_keys;
mod private_provider;
mod profile;
mod runs;
mod stdio;
mod strict_approver;
mod timestamp;
mod user_export;
mod user_models;
mod user_turns;
mod views;

pub use agent::{AgentOptions, ProviderOptions};
pub use configuration::{Configuration, ConfigurationError, NewServer};
pub use daily_tokens::within_daily_tokens;
pub use demo::{DemoServer, serve_demo};
pub use http::{AuthOptions, CorsOrigins, HttpOptions, OriginError, Part, Parts, openapi_document, serve_http};
pub use mcp::{
    Frontend, FrontendOptions, FrontendTools, INSTRUCTIONS, OfferedTool, SelectedTools, count_tokens, new_client,
    offered_tools, tool_names,
};
pub use personal_keys::local_providers;
pub use private_provider::without_personal_data;
pub use profile::{Profile, UnknownProfile};
pub use stdio::serve_stdio;
pub use timestamp::Timestamp;
pub use user_export::{ExportError, export_user};
pub use views::{
    AccountView, DecisionView, FlowApprovalView, KeyView, LabelView, ServerCondition, ServerTestView, ServerView,
    SessionView, SourceView, key_state,
};
