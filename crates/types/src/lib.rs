//! Plain data that every crate of Coracle shares: ids, limits, results, events and error codes.
//!
//! Start at [`Execution`], the result of running one piece of code.
//! Invariant: no dependency except serde, serde_json and thiserror, no I/O, no knowledge of other crates.

mod error_code;
mod event;
mod execution;
mod id;
mod language;
mod limits;
mod plan;
mod privacy;
mod python;
mod schema;
mod secret;
mod server;
mod sorted;
mod text;
mod tool;

pub use error_code::ErrorCode;
pub use event::{Event, OutputStream};
pub use execution::{Artifact, ArtifactUri, Execution, Failure, LimitsReport, Preview, ToolCall};
pub use id::{ArtifactId, ConversationId, ExecutionId, IdError, ItemId, PlanId, RunId, ServerName, SessionId, UserId};
pub use language::{Language, UnknownLanguage};
pub use limits::{Enforced, LIMITS, Limit, LimitError, Limits, MAX_SECONDS, Mechanism, Unit};
pub use plan::{EffectState, FileChange, Mode, Plan, PlanState, PlannedAction, PlannedEffect, PlannedRead};
pub use privacy::{PrivacyMode, ServerLabel};
pub use python::PythonInterpreter;
pub use schema::Schema;
pub use secret::Secret;
pub use server::{OauthClient, Scope, ServerSpec, Transport};
pub use sorted::{Sorted, SortedMap, sorted_json, sorted_json_pretty};
pub use text::{is_hidden, single_line};
pub use tool::{Content, Decision, MAX_CALL_BYTES, Tool, ToolHints, ToolResult};
