//! Answers the calls of replayed code from a recording.

use crate::audit::{Audit, CallOf};
use crate::broker::DENIED;
use crate::call_log::{CallAnswer, digest};
use crate::host_calls::{HostCallError, HostCalls, TOOL};
use crate::journal::Taped;
use crate::json;
use crate::toolbox::Toolbox;
use crate::tools::Tools;
use async_trait::async_trait;
use coracle_types::{ExecutionId, ServerName, UserId};
use serde_json::{Map, Value};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Answers from the recording.
#[derive(Debug)]
pub(super) struct Player {
    /// Answers that the code has not asked for yet.
    left: Mutex<Vec<Taped>>,
    /// Calls that are not in the recording.
    unknown: Mutex<Vec<String>>,
    /// Number of calls of which nothing was recorded.
    missed: u64,
    /// What decides about calls of tools, if there are any.
    rules: Option<Rules>,
}

impl Player {
    pub(super) fn new(entries: Vec<Taped>, missed: u64, rules: Option<Rules>) -> Self {
        Self { left: Mutex::new(entries), unknown: Mutex::default(), missed, rules }
    }

    /// The recorded calls that the code has not made.
    pub(super) fn left(&self) -> Vec<String> {
        let left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        left.iter().map(|taped| taped.what.clone()).collect()
    }

    /// The calls of the code that were not recorded.
    pub(super) fn unknown(&self) -> Vec<String> {
        self.unknown.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Number of calls of which nothing was recorded.
    pub(super) fn missed(&self) -> u64 {
        self.missed
    }
}

/// The rules of the policy, which may deny by now what they allowed then.
#[derive(Debug)]
pub(super) struct Rules {
    toolbox: Arc<Toolbox>,
    audit: Audit,
    user: UserId,
    execution: ExecutionId,
    /// Number of calls of tools so far.
    calls: AtomicU64,
}

impl Rules {
    pub(super) fn of(tools: &Tools, user: &UserId, execution: &ExecutionId) -> Option<Self> {
        let toolbox = Arc::clone(tools.toolbox()?);
        let (audit, user, execution) = (tools.audit().clone(), user.clone(), execution.clone());
        Some(Self { toolbox, audit, user, execution, calls: AtomicU64::new(0) })
    }

    /// Refuses the call of a tool that a rule denies, and records that.
    async fn check(&self, params: &Map<String, Value>) -> Result<(), HostCallError> {
        let number = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        let named = |field: &str| params.get(field).and_then(Value::as_str);
        let (Some(server), Some(tool)) = (named("server").and_then(|name| ServerName::new(name).ok()), named("tool"))
        else {
            return Ok(());
        };
        self.toolbox.recall(&self.user, &server).await;
        match self.toolbox.refused_early(&self.user, &server, tool, None) {
            Err(error) if error.code == DENIED => {
                let bytes = params.get("arguments").map(json::length).unwrap_or_default();
                let (user, execution) = (&self.user, &self.execution);
                let call = CallOf { user, execution, number, server: &server, tool, bytes };
                self.audit.denied_early(call, &error).await;
                Err(error)
            }
            // Tools that are gone by now are answered from the recording.
            Ok(_) | Err(_) => Ok(()),
        }
    }
}

#[async_trait]
impl HostCalls for Player {
    async fn call(&self, method: String, params: Map<String, Value>) -> Result<Value, HostCallError> {
        if let Some(rules) = self.rules.as_ref().filter(|_| method == TOOL) {
            rules.check(&params).await?;
        }
        let (what, digest) = digest(&method, &params);
        let refused = |code: &str, message: String| HostCallError { code: code.to_owned(), message, retryable: false };
        let found = {
            let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
            let place = left.iter().position(|taped| taped.what == what && taped.digest == digest);
            place.map(|place| left.remove(place))
        };
        match found.map(|taped| taped.said) {
            Some(CallAnswer::Answer(answer)) => Ok(answer),
            Some(CallAnswer::Error { code, message, retryable }) => Err(HostCallError { code, message, retryable }),
            Some(CallAnswer::NotRecorded { bytes }) => {
                let message = format!("the answer of {what} was {bytes} bytes long, too much to be recorded");
                Err(refused("not_recorded", message))
            }
            None => {
                self.unknown.lock().unwrap_or_else(PoisonError::into_inner).push(what.clone());
                Err(refused("not_recorded", format!("{what} was not called with these arguments then")))
            }
        }
    }
}
