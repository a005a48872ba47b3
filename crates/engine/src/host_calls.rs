//! Calls from code in a sandbox to the host: the trait that answers them, the names of the methods, and the errors.

use async_trait::async_trait;
use coracle_upstream::UpstreamError;
use serde_json::{Map, Value};
use std::fmt;

/// The method that calls a tool.
pub(crate) const TOOL: &str = "tool";

/// The method that searches for tools.
pub(crate) const SEARCH: &str = "search";

/// The method by which a guest asks why a server has no modules.
pub(crate) const ABSENT: &str = "absent";

/// The method that records a checkpoint of a session.
pub(crate) const CHECKPOINT: &str = "checkpoint";

/// The method that saves a skill.
pub(crate) const SAVE_SKILL: &str = "skill.save";

/// The prefix of the methods for skills.
pub(crate) const SKILL_PREFIX: &str = "skill.";

tokio::task_local! {
    /// Number of the call that is being answered, in the order in which calls of one run arrive, from 1.
    pub(crate) static ARRIVAL: u64;
}

/// Maximum number of characters of a name from hostile code that a message repeats.
const MAX_QUOTED_CHARS: usize = 100;

/// Why a call of the code failed, as the code sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostCallError {
    /// Stable error code.
    pub code: String,
    /// Message for people and models.
    pub message: String,
    /// Whether the same call may succeed later.
    pub retryable: bool,
}

/// Answers the calls of code to the host. This is the only way out of a sandbox.
///
/// Contract: called concurrently; dropped when the execution ends, at any await.
#[async_trait]
pub trait HostCalls: Send + Sync + fmt::Debug {
    /// Answers one call. `method` and `params` are hostile.
    async fn call(&self, method: String, params: Map<String, Value>) -> Result<Value, HostCallError>;
}

/// Refuses every call.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoCalls;

impl NoCalls {
    pub(crate) fn refusal(method: &str) -> HostCallError {
        refused("unknown_method", &format!("the host offers nothing called {}", quoted(method)))
    }
}

#[async_trait]
impl HostCalls for NoCalls {
    async fn call(&self, method: String, _params: Map<String, Value>) -> Result<Value, HostCallError> {
        Err(match method.as_str() {
            TOOL | SEARCH => refused("unavailable", "no servers are configured, so there are no tools"),
            _ => Self::refusal(&method),
        })
    }
}

/// An error that is not retryable.
pub(crate) fn refused(code: &str, message: &str) -> HostCallError {
    HostCallError { code: code.to_owned(), message: message.to_owned(), retryable: false }
}

/// A failure of an upstream server, with its hint.
pub(crate) fn upstream_failed(error: &UpstreamError) -> HostCallError {
    let hint = error.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
    HostCallError { code: error.code().to_owned(), message: format!("{error}{hint}"), retryable: error.retryable() }
}

/// A name from hostile code, shortened and quoted for a message.
pub(crate) fn quoted(name: &str) -> String {
    format!("{:?}", name.chars().take(MAX_QUOTED_CHARS).collect::<String>())
}
